"""Weights of linear layers, their product in bf16 by oneDNN, and what ours must be beside it."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812

from kernels.contest import Call, Rival
from kernels.inputs import repeated

FEW = 16  # rows up to which a product waits for its weights

_OF_BF16_FEW, _OF_BEST_MANY = 1.5, 0.8


def of_bf16(m: int) -> float:
    """How many times as fast as bf16 a product of quantised operands must be."""
    return _OF_BF16_FEW if m <= FEW else _OF_BEST_MANY


def random_codes(rows: int, k: int, dtype: torch.dtype) -> torch.Tensor:
    """Rows [rows, k] of any int8 numbers or of e4m3 ones; a block repeated."""
    if dtype == torch.int8:
        block = torch.randint(-127, 128, (min(rows, 512), k), dtype=dtype)
    else:
        block = (torch.randn(min(rows, 512), k) * 100).clamp(-448, 448).to(dtype)
    return repeated(block, rows)


def bf16_rivals(m: int, n: int, k: int) -> dict[str, Rival]:
    """Products of bf16 of the shape by oneDNN, its weight as it is and reordered in advance."""
    x = torch.randn(m, k).bfloat16()
    w = random_codes(n, k, torch.int8).bfloat16()
    ops = torch.ops.mkldnn
    packed = ops._reorder_linear_weight(w, m)  # noqa: SLF001 - what inductor freezes to
    pointwise = ops._linear_pointwise  # noqa: SLF001 - the same
    calls: dict[str, Call] = {
        "bf16": lambda: F.linear(x, w),
        "bf16_packed": lambda: pointwise(x, packed, None, "none", [], ""),
    }
    return {name: Rival(call, of_bf16(m)) for name, call in calls.items()}
