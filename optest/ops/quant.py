"""Quantisation to fp8 and int8 by one convention (``aiter_ref.quant``): csrc or Triton by device.

The 8-bit dtype is that of ``out``, or ``quant_dtype`` where the wrapper is to allocate it. Inputs
are x [m, k] bf16, fp16 or fp32 with columns side by side; rows may be strided.
"""

from __future__ import annotations

import torch

from optest.errors import UsageError
from optest.ops.dispatch import kernels


def static_per_tensor_quant(
    x: torch.Tensor,
    scale: torch.Tensor,
    *,
    quant_dtype: torch.dtype | None = None,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Quantise x [m, k] with a given scale [1] fp32 -> [m, k].

    Raises:
        UsageError: neither ``out`` nor ``quant_dtype`` is given.
    """
    q = _output(x, quant_dtype, out)
    kernels(x, "quant").static_per_tensor_quant(q, x, scale)
    return q


def dynamic_per_tensor_quant(
    x: torch.Tensor,
    *,
    quant_dtype: torch.dtype | None = None,
    out: torch.Tensor | None = None,
    scale: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantise x [m, k] with one scale -> q [m, k], scale [1] fp32.

    Raises:
        UsageError: neither ``out`` nor ``quant_dtype`` is given.
    """
    q = _output(x, quant_dtype, out)
    scale = _scales(x, (1,)) if scale is None else scale
    kernels(x, "quant").dynamic_per_tensor_quant(q, x, scale)
    return q, scale


def dynamic_per_token_quant(
    x: torch.Tensor,
    *,
    quant_dtype: torch.dtype | None = None,
    out: torch.Tensor | None = None,
    scales: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantise x [m, k] with one scale a row -> q [m, k], scales [m, 1] fp32.

    Raises:
        UsageError: neither ``out`` nor ``quant_dtype`` is given.
    """
    q = _output(x, quant_dtype, out)
    scales = _scales(x, (x.shape[0], 1)) if scales is None else scales
    kernels(x, "quant").dynamic_per_token_quant(q, x, scales)
    return q, scales


def dynamic_per_group_quant(
    x: torch.Tensor,
    group: int = 128,
    *,
    quant_dtype: torch.dtype | None = None,
    out: torch.Tensor | None = None,
    scales: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantise x [m, k] with one scale for ``group`` columns of a row; the last may be short.

    Returns:
        q [m, k], scales [m, ceil(k / group)] fp32.

    Raises:
        UsageError: neither ``out`` nor ``quant_dtype`` is given, or ``group`` is below 1.
    """
    if group < 1:
        raise UsageError(f"group={group}: expected a number of columns of at least 1")
    q = _output(x, quant_dtype, out)
    if scales is None:
        scales = _scales(x, (x.shape[0], -(-x.shape[1] // group)))
    kernels(x, "quant").dynamic_per_group_quant(q, x, scales, group)
    return q, scales


def _output(
    x: torch.Tensor, quant_dtype: torch.dtype | None, out: torch.Tensor | None
) -> torch.Tensor:
    if out is not None:
        return out
    if quant_dtype is None:
        raise UsageError("expected out= (a preallocated result) or quant_dtype=, got neither")
    return torch.empty(x.shape, dtype=quant_dtype, device=x.device)


def _scales(x: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    return torch.empty(shape, dtype=torch.float32, device=x.device)
