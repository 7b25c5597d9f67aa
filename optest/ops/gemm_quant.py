"""GEMM of 8-bit operands with fp32 scales: csrc on the CPU, Triton on a GPU.

Operands are int8 or fp8 alike. Weights are given as ``pack_weight`` makes them, once for a model.
``out`` says how wide the result is and in which dtype: bf16, fp16 or fp32.
"""

from __future__ import annotations

import torch

from optest.ops.dispatch import csrc, kernels, on_cpu

_PANEL, _BLOCK = 16, 64


def pack_weight(w: torch.Tensor) -> torch.Tensor:
    """The weight in the order in which the kernels of its device read it.

    w [n, k] or [b, n, k] int8 or fp8 -> on a GPU w itself; on a CPU [ceil(n/16), ceil(k/64) * 1024]
    of the same dtype: panels of 16 rows, in each blocks of 64 k as [4 k][16 rows][k of 4].
    """
    if not on_cpu(w):
        return w
    *batch, n, k = w.shape
    packed = w.new_empty(*batch, -(-n // _PANEL), -(-k // _BLOCK) * _PANEL * _BLOCK)
    csrc("gemm_quant").pack_w(packed, w)
    return packed


def gemm_a8w8(
    x: torch.Tensor,
    w: torch.Tensor,
    x_scale: torch.Tensor,
    w_scale: torch.Tensor,
    out: torch.Tensor,
) -> torch.Tensor:
    """``(x @ w.T) * x_scale * w_scale.T``; int8 sums are exact.

    x [m, k], w packed of [n, k], x_scale [m, 1], w_scale [n, 1] fp32 -> out [m, n].
    """
    kernels(x, "gemm_quant").gemm_a8w8(out, x, w, x_scale, w_scale)
    return out


def batched_gemm_a8w8(
    x: torch.Tensor,
    w: torch.Tensor,
    x_scale: torch.Tensor,
    w_scale: torch.Tensor,
    out: torch.Tensor,
) -> torch.Tensor:
    """``gemm_a8w8`` of each of a batch; x and out may be views of [m, b, ...].

    x [b, m, k], w packed of [b, n, k], x_scale [b, m, 1], w_scale [b, n, 1] fp32 -> out [b, m, n].
    """
    kernels(x, "gemm_quant").batched_gemm_a8w8(out, x, w, x_scale, w_scale)
    return out


def gemm_a8w8_blockscale(
    x: torch.Tensor,
    w: torch.Tensor,
    x_scale: torch.Tensor,
    w_scale: torch.Tensor,
    out: torch.Tensor,
) -> torch.Tensor:
    """The product of x scaled by 1 x 128 and w scaled by 128 x 128; the last blocks may be short.

    x [m, k], w packed of [n, k], x_scale [m, ceil(k/128)], w_scale [ceil(n/128), ceil(k/128)] fp32
    -> out [m, n].
    """
    kernels(x, "gemm_quant").gemm_a8w8_blockscale(out, x, w, x_scale, w_scale)
    return out
