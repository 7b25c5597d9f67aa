"""Matrix products with weights kept as [n, k], the way linear layers store them."""

from __future__ import annotations

import torch

from aiter_ref.cost import Cost


def gemm_a16w16(x: torch.Tensor, w: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """``y = x @ w.T``, products and sums in fp32.

    x [m, k], w [n, k] bf16/fp16/fp32 -> [m, n] ``dtype``.
    """
    return (x.float() @ w.float().transpose(0, 1)).to(dtype)


def batched_gemm(x: torch.Tensor, w: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """``y[i] = x[i] @ w[i].T`` for each i, products and sums in fp32.

    x [b, m, k], w [b, n, k] bf16/fp16/fp32 -> [b, m, n] ``dtype``.
    """
    return torch.bmm(x.float(), w.float().transpose(1, 2)).to(dtype)


def gemm_cost(m: int, n: int, k: int, itemsize: int, batch: int = 1) -> Cost:
    """Of [m, k] by [n, k] in operands and results of ``itemsize`` bytes: 2mnk, as BLAS counts."""
    return Cost(2 * batch * m * n * k, batch * (m * k + n * k + m * n) * itemsize)
