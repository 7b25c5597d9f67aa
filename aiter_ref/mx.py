"""Microscaling: blocks of 32 numbers in fp4 (e2m1) that share a power of two (e8m0).

Source: OCP Microscaling Formats (MX) Specification v1.0, sections 5.3.3, 5.4.1 and 6.3. Two codes
lie in a byte, the first in its low half; an odd last column has a zero beside it. Codes and scales
are uint8, their bits, which may be viewed as ``torch.float4_e2m1fn_x2`` and ``float8_e8m0fnu``.
"""

from __future__ import annotations

import torch

from aiter_ref.cost import Cost

BLOCK = 32
_LARGEST_EXPONENT = 2  # of e2m1, whose largest number is 6 = 1.5 * 2^2
_BIAS = 127
_NAN = 255
_VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def quant_mxfp4(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantise rows in blocks of 32; the last block may be short.

    For each block ``scale = 2^(floor(log2(amax |x|)) - 2)``, at least 2^-127, which is that of
    zeros; ``code = nearest e2m1 of x / scale``, ties to the even code, what is beyond 6 as 6. Inf
    or NaN makes the scale NaN, and the codes of its block zeros.

    x [m, k] bf16/fp16/fp32 -> codes [m, ceil(k/2)], scales [m, ceil(k/32)] uint8.
    """
    m, k = x.shape
    across = -(-k // BLOCK)
    blocks = torch.nn.functional.pad(x.double(), (0, across * BLOCK - k)).view(m, across, BLOCK)
    largest = blocks.abs().amax(dim=-1) if blocks.numel() else blocks.new_zeros(m, across)
    # frexp gives a mantissa of 0.5 to 1: its exponent is one more than floor(log2).
    exponent = torch.frexp(largest).exponent - 1 - _LARGEST_EXPONENT
    exponent = torch.where(largest > 0, exponent.clamp(min=-_BIAS), -_BIAS)
    usable = largest.isfinite()
    scaled = torch.ldexp(blocks, -exponent[:, :, None])
    scaled = torch.where(usable[:, :, None], scaled, 0.0)
    codes = _nearest(scaled).view(m, across * BLOCK)[:, : k + k % 2]
    codes[:, k:] = 0
    scales = torch.where(usable, exponent + _BIAS, _NAN).to(torch.uint8)
    return (codes[:, 0::2] | codes[:, 1::2] << 4), scales


def dequantize_mxfp4(codes: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """Values that codes [m, ceil(k/2)] and scales [m, ceil(k/32)] uint8 stand for.

    -> [m, 2 * ceil(k/2)] fp64, NaN where the scale is.
    """
    values = codes.new_tensor([*_VALUES, *(-value for value in _VALUES)], dtype=torch.float64)
    pairs = torch.stack((codes & 15, codes >> 4), dim=-1).long()
    numbers = values[pairs].flatten(-2)
    each = torch.ldexp(torch.ones_like(scales, dtype=torch.float64), scales.int() - _BIAS)
    each = torch.where(scales == _NAN, torch.nan, each)
    return numbers * each.repeat_interleave(BLOCK, dim=-1)[:, : numbers.shape[-1]]


def gemm_a4w4(
    x: torch.Tensor,
    w: torch.Tensor,
    x_scale: torch.Tensor,
    w_scale: torch.Tensor,
    dtype: torch.dtype,
) -> torch.Tensor:
    """The product of what two mxfp4 operands stand for; the blocks go along k.

    x [m, ceil(k/2)], w [n, ceil(k/2)], x_scale [m, ceil(k/32)], w_scale [n, ceil(k/32)] uint8 ->
    [m, n] ``dtype``. Source: section 6.2 of the specification, the dot product of MX vectors.
    """
    return (dequantize_mxfp4(x, x_scale) @ dequantize_mxfp4(w, w_scale).t()).to(dtype)


def gemm_a4w4_cost(m: int, n: int, k: int, itemsize: int) -> Cost:
    """Of ``gemm_a4w4``: 2mnk as BLAS counts, the scaling of each operand's elements."""
    across = -(-k // 2) + -(-k // BLOCK)
    return Cost(2 * m * n * k + (m + n) * k, (m + n) * across + m * n * itemsize)


def quant_mxfp4_cost(m: int, k: int, itemsize: int) -> Cost:
    """Of ``quant_mxfp4``: magnitude, maximum, product, limit and rounding of each element."""
    nbytes = m * (k * itemsize + -(-k // 2) + -(-k // BLOCK))
    return Cost(5 * m * k, nbytes)


def _nearest(scaled: torch.Tensor) -> torch.Tensor:
    """The e2m1 code nearest to each number: steps of 0.5 up to 2, of 1 up to 4, of 2 up to 6."""
    magnitude = scaled.abs().clamp(max=_VALUES[-1])
    up_to_two = (magnitude * 2).round().clamp(max=4)
    beyond = (magnitude.clamp(2, 4) - 2).round() + (magnitude.clamp(min=4) / 2 - 2).round()
    code = (up_to_two + beyond).to(torch.uint8)
    return code | torch.signbit(scaled).to(torch.uint8) << 3
