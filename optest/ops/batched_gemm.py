"""Batched GEMM with weights kept as [b, n, k]: oneDNN through torch on the CPU, Triton on a GPU."""

from __future__ import annotations

import torch

from optest.ops.dispatch import on_cpu


def batched_gemm_bf16(
    x: torch.Tensor, w: torch.Tensor, *, out: torch.Tensor | None = None
) -> torch.Tensor:
    """``x[i] @ w[i].T``, sums in fp32: x [b, m, k], w [b, n, k] -> [b, m, n] of x's dtype.

    Every operand may have any strides: models pass ``x`` and ``out`` as transposed views of
    [m, b, k] and [m, b, n]. fp16 and fp32 are taken too.
    """
    y = x.new_empty(x.shape[0], x.shape[1], w.shape[1]) if out is None else out
    if on_cpu(x):
        return torch.bmm(x, w.transpose(1, 2), out=y)
    from optest.ops.triton import gemm  # Triton loads where a GPU needs it

    gemm.batched_gemm(y, x, w)
    return y
