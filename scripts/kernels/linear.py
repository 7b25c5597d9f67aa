"""Weights of linear layers, their product in bf16 by oneDNN, and what ours must be beside it."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812

from kernels.contest import Rival
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


def bf16_rivals(m: int, n: int, k: int, codes: torch.dtype) -> dict[str, Rival]:
    """Products of bf16 of the shape, the weight as it is and reordered in advance.

    The latter is oneDNN's alone, and only on CPUs for which it has a product of bf16. ``codes`` is
    what ours multiplies.
    """
    x = torch.randn(m, k).bfloat16()
    w = random_codes(n, k, torch.int8).bfloat16()
    rivals = {"bf16": Rival(lambda: F.linear(x, w), of_bf16(m))}
    ops = torch.ops.mkldnn
    if ops._is_mkldnn_bf16_supported():  # noqa: SLF001 - else reordering raises
        packed = ops._reorder_linear_weight(w, m)  # noqa: SLF001 - what inductor freezes to
        pointwise = ops._linear_pointwise  # noqa: SLF001 - the same
        at_least = 0.0 if _shares_the_limit(m, codes) else of_bf16(m)
        rivals["bf16_packed"] = Rival(lambda: pointwise(x, packed, None, "none", [], ""), at_least)
    return rivals


def _shares_the_limit(m: int, codes: torch.dtype) -> bool:
    """Whether ours needs the instructions of the reordered product, which has hardly time for more.

    Floats are multiplied as bf16. At one row both wait for memory; at a few, pairs of bf16 take
    oneDNN two thirds of its time and more (28672x8192 by 16 rows, Zen 4: 15.9 of 23.6 ms), so that
    1.5 times as fast is beyond the unit. Tiles of AMX take a small part of that time.
    """
    tiles = torch.cpu._is_amx_tile_supported()  # noqa: SLF001 - the only one that tells
    return m == FEW and codes != torch.int8 and not tiles
