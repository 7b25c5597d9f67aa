"""Symmetric quantisation to fp8 and int8: one scale a tensor, a row, or a group of columns.

The convention, the same in every function, all of it in fp32:

    scale = amax(|x|) / dtype_max, and 1 where that is 0
    q     = round_half_even(clamp(x / scale, -dtype_max, dtype_max))

``dtype_max`` is 448 for e4m3fn, 240 for e4m3fnuz, 127 for int8. The scales are defined to the bit:
a true division by ``dtype_max``, never a product with its rounded reciprocal. NaN and Inf spread
into the scale and the values of what shares it; int8 has no NaN, so there its values mean nothing.
"""

from __future__ import annotations

import torch

from aiter_ref.cost import Cost


def dtype_max(quant_dtype: torch.dtype) -> float:
    """Largest finite value of a floating ``quant_dtype``, or of an integer one.

    Raises:
        TypeError: ``quant_dtype`` has no finite range to scale to (torch says which).
    """
    if quant_dtype.is_floating_point:
        return torch.finfo(quant_dtype).max
    return float(torch.iinfo(quant_dtype).max)


def static_per_tensor_quant(
    x: torch.Tensor, scale: torch.Tensor, quant_dtype: torch.dtype
) -> torch.Tensor:
    """Quantise with a scale that was found beforehand.

    x [m, k] bf16/fp16/fp32, scale [1] fp32 -> [m, k] ``quant_dtype``.
    """
    return _cast(x.float() / scale, quant_dtype)


def dynamic_per_tensor_quant(
    x: torch.Tensor, quant_dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantise with one scale for the whole tensor.

    x [m, k] bf16/fp16/fp32 -> q [m, k] ``quant_dtype``, scale [1] fp32.
    """
    scale = _scale(x.reshape(1, -1), quant_dtype).reshape(1)
    return _cast(x.float() / scale, quant_dtype), scale


def dynamic_per_token_quant(
    x: torch.Tensor, quant_dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantise with one scale a row: a token of an activation, an output channel of a weight.

    x [m, k] bf16/fp16/fp32 -> q [m, k] ``quant_dtype``, scales [m, 1] fp32.
    """
    scales = _scale(x, quant_dtype)
    return _cast(x.float() / scales, quant_dtype), scales


def dynamic_per_group_quant(
    x: torch.Tensor, quant_dtype: torch.dtype, group: int = 128
) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantise with one scale for every ``group`` columns of a row; the last group may be short.

    x [m, k] bf16/fp16/fp32 -> q [m, k] ``quant_dtype``, scales [m, ceil(k / group)] fp32.
    """
    m, k = x.shape
    groups = -(-k // group)
    padded = torch.nn.functional.pad(x.float(), (0, groups * group - k))
    blocks = padded.view(m, groups, group)
    scales = _scale(blocks, quant_dtype)
    q = _cast(blocks / scales, quant_dtype).view(m, groups * group)
    return q[:, :k].contiguous(), scales.squeeze(-1)


def dequantize(q: torch.Tensor, scales: torch.Tensor, group: int | None = None) -> torch.Tensor:
    """Values that ``q`` stands for.

    q [m, k], scales [1], [m, 1], or with ``group`` [m, ceil(k / group)] fp32 -> [m, k] fp32.
    """
    if group is not None:
        scales = scales.repeat_interleave(group, dim=-1)[:, : q.shape[-1]]
    return q.float() * scales


def _scale(x: torch.Tensor, quant_dtype: torch.dtype) -> torch.Tensor:
    """Scales of the last axis, kept as an axis of size 1; an empty axis has the scale 1."""
    if x.shape[-1] == 0:
        return x.new_ones((*x.shape[:-1], 1), dtype=torch.float32)
    scale = x.abs().amax(dim=-1, keepdim=True).float() / dtype_max(quant_dtype)
    return torch.where(scale == 0, 1.0, scale)


def _cast(scaled: torch.Tensor, quant_dtype: torch.dtype) -> torch.Tensor:
    limit = dtype_max(quant_dtype)
    clamped = scaled.clamp(-limit, limit)
    if not quant_dtype.is_floating_point:
        clamped = clamped.round()
    return clamped.to(quant_dtype)


def quant_cost(
    x: torch.Tensor, quant_dtype: torch.dtype, scales: torch.Tensor, *, dynamic: bool
) -> Cost:
    """Of quantising ``x`` with ``scales``: a division and a clamp on both sides an element.

    A dynamic scale also takes the magnitude and the maximum.
    """
    nbytes = x.numel() * (x.element_size() + quant_dtype.itemsize) + scales.nbytes
    return Cost((5 if dynamic else 3) * x.numel(), nbytes)
