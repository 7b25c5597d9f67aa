"""Whether two values can be compared element by element at all."""

from __future__ import annotations

import torch

from optest.checking.domain import FP4X2, SUPPORTED
from optest.tensors import has_memory


def refuse_unreadable(name: str, value: object) -> None:
    """Raise where a value is no dense tensor with memory.

    Raises:
        TypeError: with what it is and what to pass instead.
    """
    if not isinstance(value, torch.Tensor):
        kind = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
        raise TypeError(
            f"{name} is a {kind}, expected a dense torch.Tensor: compare a list's tensors one by "
            "one, make numbers and arrays tensors with torch.as_tensor."
        )
    if has_memory(value) and not value.is_nested and value.dtype in SUPPORTED:
        return
    if value.is_quantized:
        raise TypeError(
            f"{name} is quantised ({value.dtype}): compare x.int_repr() and the scales, or "
            "x.dequantize()."
        )
    if value.layout is not torch.strided or value.is_nested:
        raise TypeError(
            f"{name} has layout {value.layout}, expected a dense tensor: compare x.to_dense(), or "
            "its values and indices."
        )
    if value.device.type == "meta":
        raise TypeError(f"{name} is on the meta device and holds no values to compare.")
    if value.dtype in SUPPORTED:
        raise TypeError(
            f"{name} is a {type(value).__name__}, expected a plain torch.Tensor: compare the "
            "tensors inside it."
        )
    raise TypeError(f"{name} has dtype {value.dtype}, whose values optest does not know.")


def why_unlike(
    reference: torch.Tensor, candidate: torch.Tensor, *, check_dtype: bool = True
) -> str:
    """Why the pair cannot be compared element by element; empty where it can."""
    if reference.shape != candidate.shape:
        return (
            f"shapes differ: want {tuple(reference.shape)}, got {tuple(candidate.shape)} "
            "(nothing is broadcast)"
        )
    if reference.device != candidate.device:
        return f"devices differ: want {reference.device}, got {candidate.device}"
    if reference.dtype == candidate.dtype:
        return ""
    if check_dtype:
        return (
            f"dtypes differ: want {short_dtype(reference)}, got {short_dtype(candidate)} "
            "(check_dtype=False compares the values in the wider)"
        )
    if FP4X2 in (reference.dtype, candidate.dtype):
        return (
            f"dtypes differ: want {short_dtype(reference)}, got {short_dtype(candidate)}, and a "
            "byte of fp4x2 holds two values: decode it first"
        )
    return ""


def short_dtype(tensor: torch.Tensor) -> str:
    """``bfloat16`` of a ``torch.bfloat16`` tensor."""
    return str(tensor.dtype).removeprefix("torch.")
