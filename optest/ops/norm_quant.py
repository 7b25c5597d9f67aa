"""Per-token quantisation with what comes before it, in one pass: csrc on the CPU, Triton on a GPU.

The convention is that of ``aiter_ref.quant``; the 8-bit dtype is that of ``out``, or
``quant_dtype`` where the wrapper is to allocate it.
"""

from __future__ import annotations

import torch

from optest.errors import UsageError
from optest.ops.dispatch import kernels


def fused_add_rmsnorm_quant(  # noqa: PLR0913 - four inputs and what they are written to
    x: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor,
    eps: float,
    *,
    quant_dtype: torch.dtype | None = None,
    out: torch.Tensor | None = None,
    scales: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantise the RMSNorm of ``x + residual``; ``residual`` becomes the sum, in place.

    x, residual [m, n], weight [n] bf16/fp16/fp32 -> q [m, n], scales [m, 1] fp32.

    Raises:
        UsageError: neither ``out`` nor ``quant_dtype`` is given.
    """
    q, found = _results(x, quant_dtype, out, scales)
    kernels(x, "norm_quant").fused_add_rmsnorm_quant(q, found, x, residual, weight, eps)
    return q, found


def smoothquant(
    x: torch.Tensor,
    smooth_scale: torch.Tensor,
    *,
    quant_dtype: torch.dtype | None = None,
    out: torch.Tensor | None = None,
    scales: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantise ``x * smooth_scale``: x [m, n], smooth_scale [n] -> q [m, n], scales [m, 1] fp32.

    Raises:
        UsageError: neither ``out`` nor ``quant_dtype`` is given.
    """
    q, found = _results(x, quant_dtype, out, scales)
    kernels(x, "norm_quant").smoothquant(q, found, x, smooth_scale)
    return q, found


def _results(
    x: torch.Tensor,
    quant_dtype: torch.dtype | None,
    out: torch.Tensor | None,
    scales: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    if out is None:
        if quant_dtype is None:
            raise UsageError("expected out= (a preallocated result) or quant_dtype=, got neither")
        out = torch.empty(x.shape, dtype=quant_dtype, device=x.device)
    if scales is None:
        scales = torch.empty((x.shape[0], 1), dtype=torch.float32, device=x.device)
    return out, scales
