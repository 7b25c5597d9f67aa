"""Stored values to the dtype they are compared in: fp8, e8m0 and packed fp4 included."""

from __future__ import annotations

import functools

import torch

from optest.checking.domain import FP4X2

# e2m1: sign, two exponent bits, one mantissa bit; exponent 0 is subnormal.
_E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0)


def decode_into(stored: torch.Tensor, out: torch.Tensor) -> None:
    """Write the values of ``stored``, in row-major order, into ``out``.

    Args:
        stored: any strides, any supported dtype, n elements.
        out: flat and contiguous, n elements, 2 n where ``stored`` is fp4x2 (low nibble first).
    """
    if stored.dtype == torch.bool:
        # Unwritten memory may hold a byte that is neither 0 nor 1: as bool, torch reads it as
        # another value from one operation to the next.
        stored = stored.view(torch.uint8)
    if stored.dtype == FP4X2:
        codes = stored.view(torch.uint8).reshape(-1)
        values = _fp4_pairs(str(stored.device)).to(out.dtype)
        torch.index_select(values, 0, codes.to(torch.int32), out=out.view(-1, 2))
    elif stored.dtype == torch.uint64 and out.dtype == torch.int64:
        out.view(stored.shape).copy_(stored.view(torch.int64))  # the bits: rule.py knows
    else:
        (out if stored.ndim == 1 else out.view(stored.shape)).copy_(stored)


@functools.lru_cache(maxsize=8)
def codes_of(dtype: torch.dtype) -> torch.Tensor | None:
    """[256] fp32 on the CPU: the value of every byte of an 8-bit float dtype; None for others."""
    if not dtype.is_floating_point or dtype.itemsize > 1:
        return None
    codes = torch.arange(256, dtype=torch.int32, device="cpu").to(torch.uint8)
    return codes.view(dtype).to(torch.float32)


@functools.lru_cache(maxsize=8)
def _fp4_pairs(device: str) -> torch.Tensor:
    """[256, 2] fp32: the two values of every byte."""
    nibbles = torch.tensor(_E2M1, dtype=torch.float32, device=device)
    codes = torch.arange(256, device=device)
    return torch.stack((nibbles[codes & 15], nibbles[codes >> 4]), dim=1)
