"""What the running test calls its candidates and their outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from optest.tensors import storage_of


def candidate_name(func: Callable[..., Any], variables: Mapping[str, object], nth: int) -> str:
    """The key under which the test keeps ``func``, or its own name, or its number.

    A test may wrap the function that it took from its dict: then the key is the one that a variable
    of the test holds beside the function.
    """
    dicts = [value for value in variables.values() if isinstance(value, Mapping)]
    entries = [(key, value) for each in dicts for key, value in each.items() if callable(value)]
    for key, value in entries:
        if value is func and isinstance(key, str):
            return key
    held = list(variables.values())
    for key, value in entries:
        known = any(value is each for each in held)
        if isinstance(key, str) and known and any(key is each for each in held):
            return key
    label = variables.get("name")
    if isinstance(label, str) and any(func is each for each in held):
        return label
    name = getattr(func, "__name__", "<lambda>")
    return f"candidate {nth + 1}" if name == "<lambda>" else str(name)


def output_name(tensor: torch.Tensor, data: object, variables: Mapping[str, object]) -> str:
    """The test's variable that holds ``tensor``, or its place in the result ``data``."""
    for name, value in variables.items():
        for place, each in _tensors(name, value):
            if is_same_view(each, tensor):
                return place
    for place, each in _tensors("result", data):
        if is_same_view(each, tensor):
            return place
    return "x".join(map(str, tensor.shape)) + f" {str(tensor.dtype).removeprefix('torch.')}"


def _tensors(place: str, value: object) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(value, torch.Tensor):
        yield place, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _tensors(f"{place}[{key!r}]", item)
    elif isinstance(value, (list, tuple)):
        for at, item in enumerate(value):
            yield from _tensors(f"{place}[{at}]", item)


def is_same_view(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors are the same elements of the same memory, laid out alike."""
    if a is b:
        return True
    alike = (a.layout, a.dtype, a.shape) == (b.layout, b.dtype, b.shape)
    return (
        alike
        and a.layout is torch.strided
        and a.data_ptr() == b.data_ptr()
        and a.stride() == b.stride()
        and storage_of(a) == storage_of(b)
    )
