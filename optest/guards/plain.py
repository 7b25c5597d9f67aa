"""Results must be plain tensors: what is computed when it is looked at was not computed in time."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import torch

from optest.guards.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

_GUARD = "plain tensors"
_MEANS = "its work may be done when the result is looked at, after the clock has stopped"
_PLAIN = (torch.Tensor, torch.nn.Parameter)
_VALUES = (int, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.Size)
_BOXES = (list, tuple, dict, set, frozenset)
_MOST, _DEEPEST = 1_000, 8


def finding(data: object) -> Finding | None:
    """What in a result is no plain tensor, number, array or container of such."""
    for value in _leaves(data):
        if isinstance(value, torch.Tensor):
            # Lazily conjugated is plain: a flag that every reader of a plain tensor honours.
            if type(value) not in _PLAIN:
                return _found(f"a tensor of the subclass {_name(value)}")
        elif not isinstance(value, (*_VALUES, np.ndarray, np.generic)):
            return _found(f"an object of the class {_name(value)}")
    return None


def _leaves(value: object, depth: int = 0) -> Iterator[object]:
    """What the containers of a result hold; a container of a class of its own is a leaf."""
    if depth > _DEEPEST:
        return
    if isinstance(value, tuple) and type(value) is not tuple:  # named, torch's own among them
        children = iter(tuple(value)) if _reads_plainly(value) else None
    elif type(value) in _BOXES:
        children = iter(value.values() if isinstance(value, Mapping) else value)  # type: ignore[call-overload]
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        children = iter(list(vars(value).values())) if hasattr(value, "__dict__") else None
    else:
        children = None
    if children is None:
        yield value
        return
    for count, child in enumerate(children):
        if count >= _MOST:
            return
        yield from _leaves(child, depth + 1)


def _reads_plainly(value: tuple[object, ...]) -> bool:
    own = type(value)
    return own.__getitem__ is tuple.__getitem__ and own.__iter__ is tuple.__iter__


def _found(what: str) -> Finding:
    return Finding(_GUARD, f"the candidate returned {what}", _MEANS)


def _name(value: object) -> str:
    kind = type(value)
    return f"{kind.__module__}.{kind.__qualname__}"
