"""The source of a kernel as one number: a saved artifact knows the kernel it was made of."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import types
from collections.abc import Iterator
from typing import Any

from optest.tensors import names_in

_MAX_LAYERS = 10


def fingerprint(fn: object, *, constants: bool = False) -> str | None:
    """SHA-256 of the kernel's source and of the functions of its own file that it names.

    With ``constants`` also of the numbers and texts from outside that these name: not for a kernel
    that counts its calls in one.

    None where there is no source to read: built-in functions, and what was typed at a prompt.
    """
    root = function_of(fn)
    if root is None:
        return None
    reached = _reached(root)
    sources = {text_of(one) for one in reached}
    if None in sources:
        return None
    parts = sorted(filter(None, sources))
    if constants:
        parts += sorted({f"{name}={value!r}" for one in reached for name, value in _plain(one)})
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@functools.lru_cache(maxsize=512)
def text_of(function: types.FunctionType) -> str | None:
    """The source of one function; None where there is none to read."""
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        return None


def function_of(fn: Any) -> types.FunctionType | None:  # noqa: ANN401 - any callable
    """The Python function behind a partial, a method, a Triton kernel, an instance that is called.

    None behind what is built in.
    """
    for _ in range(_MAX_LAYERS):
        if isinstance(fn, types.FunctionType):
            unwrapped = inspect.unwrap(fn)
            return unwrapped if isinstance(unwrapped, types.FunctionType) else fn
        inner = next((getattr(fn, a) for a in ("func", "__func__", "fn") if hasattr(fn, a)), None)
        fn = vars(type(fn)).get("__call__") if inner is None else inner
    return None


def name_of(fn: object) -> str:
    """The name of a callable, or of the function behind it; else that of its class."""
    function = function_of(fn)
    return str(getattr(fn, "__name__", getattr(function, "__name__", type(fn).__name__)))


def _reached(root: types.FunctionType) -> list[types.FunctionType]:
    """``root`` and, through the names in their code, the functions of the same file."""
    found: list[types.FunctionType] = []
    ahead = [root]
    while ahead:
        function = ahead.pop()
        if function in found:
            continue
        found.append(function)
        for _, value in _named(function):
            callee = function_of(value) if callable(value) and not inspect.isclass(value) else None
            if callee is not None and callee.__globals__ is root.__globals__:
                ahead.append(callee)
    return found


def _plain(function: types.FunctionType) -> Iterator[tuple[str, object]]:
    """Numbers and texts from outside the function that it names."""
    return ((n, v) for n, v in _named(function) if isinstance(v, (bool, int, float, complex, str)))


def _named(function: types.FunctionType) -> Iterator[tuple[str, object]]:
    """What the function's code names from outside itself: globals, and its closure's variables."""
    for name in names_in(function.__code__):
        if name in function.__globals__:
            yield name, function.__globals__[name]
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # not bound yet
            yield name, cell.cell_contents
