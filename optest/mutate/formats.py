"""Arithmetic on elements of any dtype, given and returned as their bits."""

from __future__ import annotations

from dataclasses import dataclass

import torch

_FP4 = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0], dtype=torch.float64)
_FP4_SIGNS, _FP4_MAX = 0x88, 0x77
_E8M0_BIAS = 127

# Significant bits, the leading one included.
DIGITS = {
    torch.float64: 53,
    torch.float32: 24,
    torch.float16: 11,
    torch.bfloat16: 8,
    torch.float8_e4m3fn: 4,
    torch.float8_e4m3fnuz: 4,
    torch.float8_e5m2: 3,
    torch.float8_e5m2fnuz: 3,
    torch.int8: 7,
    torch.uint8: 8,
    torch.int16: 15,
    torch.int32: 31,
    torch.int64: 53,
}


def is_packed(dtype: torch.dtype) -> bool:
    """Whether an element holds two fp4 values."""
    return dtype is getattr(torch, "float4_e2m1fn_x2", None)


@dataclass(frozen=True)
class Values:
    """Elements as ``bits`` (integers of their size, any shape) of ``dtype``."""

    bits: torch.Tensor
    dtype: torch.dtype

    def decoded(self) -> torch.Tensor:
        """As float64; fp4 has a last axis of two. Integers above 2^53 are rounded."""
        if is_packed(self.dtype):
            codes = torch.stack((self.bits & 0xF, self.bits >> 4 & 0xF), -1).long()
            sign = torch.where(codes >= len(_FP4), -1.0, 1.0)
            return _FP4.to(codes.device)[codes % len(_FP4)] * sign
        seen = self.bits.contiguous().view(self.dtype)
        return (seen.float() if self.dtype.itemsize == 1 else seen).double()

    def encoded(self, values: torch.Tensor) -> torch.Tensor:
        """The bits of ``values`` (as ``decoded`` gives them) rounded to the dtype, saturating."""
        if is_packed(self.dtype):
            steps = (values.abs().unsqueeze(-1) - _FP4.to(values.device)).abs()
            codes = steps.argmin(-1) + len(_FP4) * values.signbit()
            return (codes[..., 0] | codes[..., 1] << 4).to(torch.uint8)
        if self.dtype is torch.bool:
            return (values != 0).to(torch.uint8)
        if not self.dtype.is_floating_point:
            return self._integers(values)
        limit = torch.finfo(self.dtype).max
        finite = torch.where(values.isinf(), values, values.clamp(-limit, limit))
        return self._as_bits(finite.float().to(self.dtype) if self._small() else finite)

    def scaled(self, factor: float) -> torch.Tensor:
        """Every value times ``factor``."""
        return self.encoded(self.decoded() * factor)

    def negated(self) -> torch.Tensor:
        """Every value with the other sign; where there is none, the mirror image of its range."""
        if is_packed(self.dtype):
            return self.bits ^ _FP4_SIGNS
        if self.dtype is torch.float8_e8m0fnu:
            return 2 * _E8M0_BIAS - self.bits
        if self.dtype is torch.bool:
            return self.bits ^ 1
        seen = self.bits.contiguous().view(self.dtype)
        if self.dtype.is_floating_point:
            return self.encoded(-self.decoded()) if self._small() else self._as_bits(-seen)
        return ~self.bits if not self.dtype.is_signed else -self.bits

    def not_a_number(self) -> torch.Tensor:
        """NaN, or what is furthest away where the dtype has none."""
        return self._special(float("nan"))

    def infinite(self) -> torch.Tensor:
        """Positive infinity (negative where it is that), or what is furthest away."""
        if not self.dtype.is_floating_point or is_packed(self.dtype):
            return self.furthest()
        values = self.decoded()
        return self._special(torch.where(values == torch.inf, -torch.inf, torch.inf))

    def furthest(self) -> torch.Tensor:
        """The end of the dtype's range that is further away from each value."""
        if self.dtype is torch.bool:
            return self.bits ^ 1
        if is_packed(self.dtype):
            return (~self.bits & _FP4_SIGNS) | _FP4_MAX
        if not self.dtype.is_floating_point:
            return self._furthest_integer()
        values, info = self.decoded(), torch.finfo(self.dtype)
        ends = torch.tensor((info.min, info.max), dtype=torch.float64, device=values.device)
        return self.encoded(torch.where(values > ends.mean(), ends[0], ends[1]))

    def rounded(self, digits: int) -> torch.Tensor:
        """Every value rounded to so many significant bits."""
        fraction, exponent = torch.frexp(self.decoded())
        rounded = torch.ldexp(torch.round(fraction * 2**digits) / 2**digits, exponent)
        return self.encoded(rounded)

    def same(self, other: torch.Tensor) -> torch.Tensor:
        """Where ``other`` (bits) is the same: the same bits, or another zero."""
        if is_packed(self.dtype) or not self.dtype.is_floating_point:
            return self.bits == other
        return (self.bits == other) | (self.decoded() == Values(other, self.dtype).decoded())

    def _furthest_integer(self) -> torch.Tensor:
        seen, info = self.bits.contiguous().view(self.dtype), torch.iinfo(self.dtype)
        ends = torch.tensor((info.min, info.max), dtype=self.dtype, device=seen.device)
        low, high = ends.view(self.bits.dtype)
        if self.dtype is torch.uint64:  # its upper half is what int64 takes for negative
            return torch.where(self.bits < 0, low, high)
        return torch.where(seen.long() > (info.max + info.min) // 2, low, high)

    def _special(self, value: float | torch.Tensor) -> torch.Tensor:
        if not self.dtype.is_floating_point or is_packed(self.dtype):
            return self.furthest()
        values = torch.full_like(self.decoded(), 1.0) * value
        bits = self._as_bits(values.float().to(self.dtype))
        # Formats without infinities make NaN of them, or the largest number; both are wrong enough.
        return torch.where(self.same(bits), self.furthest(), bits)

    def _integers(self, values: torch.Tensor) -> torch.Tensor:
        info = torch.iinfo(self.dtype)
        rounded = values.round().clamp(info.min, info.max)
        # The ends of 64 bits are not exact in a float64.
        ends = (rounded <= info.min), (rounded >= info.max)
        made = rounded.clamp(-(2.0**62), 2.0**62).to(torch.int64).to(self.dtype)
        made = torch.where(ends[0], torch.tensor(info.min, dtype=self.dtype), made)
        made = torch.where(ends[1], torch.tensor(info.max, dtype=self.dtype), made)
        return self._as_bits(made)

    def _small(self) -> bool:
        return self.dtype.itemsize == 1

    def _as_bits(self, values: torch.Tensor) -> torch.Tensor:
        return values.to(self.dtype).view(self.bits.dtype)
