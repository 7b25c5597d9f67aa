"""A result with one of its tensors exchanged."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch


def replaced(value: Any, old: torch.Tensor, new: torch.Tensor) -> Any:  # noqa: ANN401
    """``value`` with ``new`` wherever ``old`` (the object) stands; the rest is shared.

    Looks into lists, tuples, dicts and dataclasses; what else holds the tensor keeps it.
    """
    if value is old:
        return new
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(replaced(item, old, new) for item in value))
    if type(value) in (list, tuple):
        return type(value)(replaced(item, old, new) for item in value)
    if type(value) is dict:
        return {key: replaced(item, old, new) for key, item in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        twin = object.__new__(type(value))
        for field in dataclasses.fields(value):
            item = replaced(getattr(value, field.name), old, new)
            object.__setattr__(twin, field.name, item)
        return twin
    return value
