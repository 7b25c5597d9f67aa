"""In which arithmetic a pair of dtypes is compared, and which rules judge it."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Literal

import torch

Rules = Literal["real", "mask", "id"]

_SMALL_FLOATS = frozenset(
    dtype
    for name in (
        "float16 bfloat16 float32 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz "
        "float8_e8m0fnu float4_e2m1fn_x2"
    ).split()
    if (dtype := getattr(torch, name, None)) is not None
)
_BYTES = frozenset({torch.int8, torch.uint8})
_IDS = frozenset({torch.int16, torch.uint16, torch.int32, torch.uint32, torch.int64, torch.uint64})
_COMPLEX = {torch.complex32: torch.complex64, torch.complex64: torch.complex64}
FP4X2: torch.dtype | None = getattr(torch, "float4_e2m1fn_x2", None)
SUPPORTED = _SMALL_FLOATS | _BYTES | _IDS | {
    torch.bool, torch.float64, torch.complex32, torch.complex64, torch.complex128,
}  # fmt: skip


@dataclass(frozen=True)
class Domain:
    """How one pair is compared.

    Attributes:
        compute: dtype the values are compared in; int64 stands for exact integers of any width.
        rules: ``real`` has the rules against gross errors and against small outputs that atol
            swallows, ``mask`` (bool) only the latter, ``id`` (integers wider than 8 bits) neither:
            there every mismatch counts alike.
    """

    compute: torch.dtype
    rules: Rules


@functools.cache
def domain_of(reference: torch.dtype, candidate: torch.dtype) -> Domain:
    """The domain of two dtypes of ``SUPPORTED``: the wider of both."""
    pair = {reference, candidate}
    if any(dtype.is_complex for dtype in pair):
        single = all(_narrow(dtype) or dtype in _COMPLEX for dtype in pair)
        return Domain(torch.complex64 if single else torch.complex128, "real")
    if pair & _SMALL_FLOATS or torch.float64 in pair:
        return Domain(torch.float32 if all(map(_narrow, pair)) else torch.float64, "real")
    if pair == {torch.bool}:
        return Domain(torch.float32, "mask")
    if pair <= _BYTES | {torch.bool}:
        return Domain(torch.float32, "real")
    return Domain(torch.int64, "id")


def _narrow(dtype: torch.dtype) -> bool:
    """Whether fp32 holds every value of the dtype."""
    small = _SMALL_FLOATS | _BYTES | {torch.bool, torch.int16, torch.uint16}
    return dtype in small
