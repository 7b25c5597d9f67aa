"""What a test may compare, as tensors: torch tensors, NumPy arrays, numbers."""

from __future__ import annotations

from numbers import Number

import numpy as np
import torch


def as_tensor(name: str, value: object) -> torch.Tensor:
    """``value`` as a tensor of its own dtype; a tensor and an array keep their memory.

    Args:
        name: how errors call the value.
        value: a torch tensor, a NumPy array or scalar, a Python number, or any object that NumPy
            or torch takes an array from (``numpy()``, ``__array__``, ``__dlpack__``).

    Raises:
        TypeError: anything else, or an array of a dtype that torch does not have.
    """
    if isinstance(value, torch.Tensor):
        return value.detach()
    if isinstance(value, Number) and not isinstance(value, np.generic):
        # Python's own floats are fp64; torch would make them fp32.
        return torch.as_tensor(value, dtype=torch.float64 if isinstance(value, float) else None)
    array = _as_array(value)
    if array is None:
        kind = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
        raise TypeError(
            f"{name} is a {kind}: expected a torch tensor, a NumPy array or a number. Compare the "
            "tensors of a list or tuple one by one."
        )
    return _from_array(name, array)


def _as_array(value: object) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]] | None:
    if isinstance(value, (list, tuple, dict, set, str, bytes)) or value is None:
        return None
    to_numpy = getattr(value, "numpy", None)
    if callable(to_numpy):
        value = to_numpy()
    if isinstance(value, (np.ndarray, np.generic)) or hasattr(value, "__array__"):
        return np.asarray(value)
    return None


def _from_array(
    name: str, array: np.ndarray[tuple[int, ...], np.dtype[np.generic]]
) -> torch.Tensor:
    # torch refuses negative strides and foreign byte orders, and warns of memory it may not write.
    native = array.astype(array.dtype.newbyteorder("="), copy=False)
    if not native.flags.writeable or any(stride < 0 for stride in native.strides):
        native = native.copy()
    try:
        return torch.from_numpy(native)
    except TypeError:
        raise TypeError(
            f"{name} is a NumPy array of {array.dtype}, a dtype that torch does not have: cast it"
        ) from None
