"""What a function has at hand: its arguments, and what it names from outside itself."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

import torch

from optest.tensors import replicate, tensors_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from optest.timing.clock import Arguments


def held(func: object) -> dict[str, Any]:
    """Names of a plain function's closure, and of global tensors in its code, with their values.

    Empty where the closure is not complete yet.
    """
    if not isinstance(func, types.FunctionType):
        return {}
    try:
        cells = [cell.cell_contents for cell in func.__closure__ or ()]
    except ValueError:
        return {}
    names = {name: func.__globals__.get(name) for name in func.__code__.co_names}
    tensors = {name: value for name, value in names.items() if isinstance(value, torch.Tensor)}
    return {**tensors, **dict(zip(func.__code__.co_freevars, cells, strict=True))}


def direct_tensors(func: Callable[..., Any], arguments: Arguments) -> list[torch.Tensor]:
    """Tensors that a call is given or names itself; not those in what it calls or remembers."""
    own = getattr(func, "__self__", None)
    named = [value for value in (own, *held(func).values()) if isinstance(value, torch.Tensor)]
    return tensors_in(arguments, named)


def elsewhere(func: Callable[..., Any], arguments: Arguments) -> tuple[Any, Arguments]:
    """The same call on copies of its tensors, those that it names itself included."""
    names = held(func)
    if not names:
        return func, replicate(arguments)
    assert isinstance(func, types.FunctionType)
    copied, arguments = replicate((names, arguments))
    cells = tuple(types.CellType(copied[name]) for name in func.__code__.co_freevars)
    outside = {**func.__globals__, **{n: v for n, v in copied.items() if n in func.__globals__}}
    twin = types.FunctionType(func.__code__, outside, func.__name__, func.__defaults__, cells)
    twin.__kwdefaults__ = func.__kwdefaults__
    return twin, arguments
