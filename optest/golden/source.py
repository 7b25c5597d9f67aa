"""The source of a kernel as one number: a saved artifact knows the kernel it was made of."""

from __future__ import annotations

import functools
import hashlib
import inspect
import types
from collections.abc import Iterator
from typing import Any

_MAX_LAYERS = 10


def fingerprint(fn: object) -> str | None:
    """SHA-256 of the kernel's source and of the functions of its own file that it names.

    None where there is no source to read: built-in functions, and what was typed at a prompt.
    """
    root = function_of(fn)
    if root is None:
        return None
    sources = {text_of(one) for one in _reached(root)}
    if None in sources:
        return None
    return hashlib.sha256("\0".join(sorted(filter(None, sources))).encode()).hexdigest()


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
        for name in _names(function.__code__):
            value = function.__globals__.get(name)
            callee = function_of(value) if callable(value) and not inspect.isclass(value) else None
            if callee is not None and callee.__globals__ is root.__globals__:
                ahead.append(callee)
    return found


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)
