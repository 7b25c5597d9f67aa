"""GEMM with a weight kept as [n, k]: oneDNN through torch on the CPU, Triton on a GPU."""

from __future__ import annotations

import torch

from optest.ops.dispatch import on_cpu


def gemm_a16w16(
    x: torch.Tensor, w: torch.Tensor, *, out: torch.Tensor | None = None
) -> torch.Tensor:
    """``x @ w.T`` with sums in fp32: x [m, k], w [n, k] bf16/fp16/fp32 -> [m, n] of x's dtype.

    ``out`` may have any strides; without it the result is contiguous.
    """
    y = x.new_empty(x.shape[0], w.shape[0]) if out is None else out
    if on_cpu(x):
        return torch.mm(x, w.t(), out=y)
    from optest.ops.triton import gemm  # Triton loads where a GPU needs it

    gemm.gemm_a16w16(y, x, w)
    return y
