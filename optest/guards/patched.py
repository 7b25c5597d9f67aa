"""Names that a candidate may not replace: the clocks, the comparisons, and the harness itself.

What is held at first is what Python and torch came with: this module is imported with the
face of the house, before a script's candidates are. A function of ours is known by the file that
its code comes from, so that one whose code was exchanged in place is found as well.
"""

from __future__ import annotations

import builtins
import itertools
import operator
import os
import random
import sys
import types
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from optest.guards import clocks
from optest.guards.clocks import replaced

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optest.guards.finding import Finding

_TORCH = "allclose isclose equal eq ne abs sub max where empty randn manual_seed".split()
_TENSOR = "__eq__ __sub__ allclose isclose equal abs max item tolist clone copy_ to float".split()
_NUMPY = "allclose isclose array_equal abs max all any".split()
_BUILTINS = "max min abs sum any all len float int isinstance getattr id".split()
_RANDOM = "random randint seed getstate".split()
_OWNERS = (
    ("torch", torch, _TORCH),
    ("builtins", builtins, _BUILTINS),
    ("numpy", np, _NUMPY),
    ("random", random, _RANDOM),
    ("torch.Tensor", torch.Tensor, _TENSOR),
)


class _Held:
    """Some names of one module or class, and what stood there at first."""

    def __init__(self, where: str, owner: object, names: list[str]) -> None:
        self._where, self._owner, self._names = where, owner, names
        self._read = operator.attrgetter(*names)
        self._values = self._read(owner)

    def finding(self) -> Finding | None:
        """The first name in whose place something else stands."""
        try:
            if self._read(self._owner) == self._values:  # one look at all of them: 0.3 us
                return None
        except AttributeError:
            pass
        for name, value in zip(self._names, self._values, strict=True):
            found = getattr(self._owner, name, None)
            if found is not value and not _may_wrap(found):
                return replaced(f"{self._where}.{name}", found)
        # Wrapped by torch or by us: so it stands from now on.
        self._values = self._read(self._owner)
        return None


_HELD = tuple(_Held(*each) for each in _OWNERS)
_METHODS = {name: getattr(torch.Tensor, name) for name in dir(torch.Tensor)}

# What a reading on a device goes through, and comparisons that are written in Python.
_FUNCTIONS = (
    ("torch.cuda", "synchronize"),
    ("torch.cuda", "Event.record"),
    ("torch.cuda", "Event.elapsed_time"),
    ("torch.cuda", "Event.synchronize"),
    ("torch.testing", "assert_close"),
    ("numpy.testing", "assert_allclose"),
    ("numpy.testing", "assert_array_equal"),
)
_ROOMS = tuple(
    f"optest.{room}"
    for room in (
        *("cases", "checking", "guards", "timing", "testing", "golden"),
        *("stats", "tensors", "test_common", "units"),
    )
)


def builtin() -> Finding | None:
    """Look at the clocks, and at torch's functions that comparisons are made of (4 us)."""
    for held in _HELD:
        found = held.finding()
        if found is not None:
            return found
    return clocks.finding()


def everything() -> Finding | None:
    """Look at the device's clocks and at every name of the harness as well (5 ms)."""
    changed = builtin()
    if changed is not None:
        return changed
    for module_name, path in _FUNCTIONS:
        module = sys.modules.get(module_name)
        value: object = module
        for part in path.split("."):
            value = getattr(value, part, None)
        home = None if module is None else Path(module.__file__ or "").parent
        if home is not None and not (_is_from(value, home) or _may_wrap(value)):
            return replaced(f"{module_name}.{path}", value)
    for name, method in _METHODS.items():
        now = getattr(torch.Tensor, name, None)
        if now is not method and now != method and not _may_wrap(now):
            return replaced(f"torch.Tensor.{name}", now)
    return next(itertools.starmap(replaced, _not_ours()), None)


_HOUSE = Path(__file__).parent.parent


def _not_ours() -> Iterator[tuple[str, object]]:
    """What stands in a module of ours, or in a class that it defines, and came from elsewhere."""
    for module_name, module in list(sys.modules.items()):
        if not module_name.startswith(_ROOMS):
            continue
        for name, value in list(vars(module).items()):
            if isinstance(value, type) and value.__module__ == module_name:
                for inner, at in vars(value).items():
                    function = _function(at)
                    if function is not None and not _is_method(inner, function):
                        yield f"{module_name}.{name}.{inner}", function
            elif callable(value) and not name.startswith("__") and not _may_stand(name, value):
                yield f"{module_name}.{name}", value


def _is_method(name: str, function: types.FunctionType) -> bool:
    """Whether ours or a library's; dataclass makes some of its own, of no file."""
    file = function.__code__.co_filename
    return file.startswith(_KNOWN) or (file.startswith("<") and name.startswith("__"))


def _may_stand(name: str, value: object) -> bool:
    """Whether ours or a library's: a function, a class, a cache around one, a form of typing.

    What is made by ``exec`` comes from no file, and a built-in function bears its own name.
    """
    if isinstance(value, types.FunctionType):
        return value.__code__.co_filename.startswith(_KNOWN)
    if isinstance(value, type):
        return value.__module__ in sys.stdlib_module_names or _is_installed(value.__module__)
    if isinstance(value, types.BuiltinFunctionType):
        return value.__name__ == name
    inner = getattr(value, "__wrapped__", None)
    if isinstance(inner, types.FunctionType):
        return inner.__code__.co_filename.startswith(_KNOWN)
    kind = type(value).__module__
    return kind != "functools" and (kind in sys.stdlib_module_names or _is_installed(kind))


def _is_installed(module_name: str) -> bool:
    """Whether the module is ours or a library's."""
    package = sys.modules.get(module_name.partition(".")[0])
    file = getattr(package, "__file__", None)
    return file is not None and file.startswith(_KNOWN)


def _may_wrap(found: object) -> bool:
    """Whether it is torch's own, as what its compiler puts around some functions, or the house's.

    ``optest speedup`` listens to what a task compares (``testing.witness``).
    """
    code = getattr(found, "__code__", None)
    return code is not None and code.co_filename.startswith((_TORCH_HOME, _OWN))


def _function(value: object) -> types.FunctionType | None:
    """The function itself, or what a property, a static or a class method is made of."""
    inner = getattr(value, "fget", None) or getattr(value, "__func__", None) or value
    return inner if isinstance(inner, types.FunctionType) else None


_OWN = f"{_HOUSE}{os.sep}"
_TORCH_HOME = f"{Path(torch.__file__).parent}{os.sep}"
_KNOWN = (_OWN, str(Path(types.__file__).parent), str(Path(torch.__file__).parent.parent))


def _is_from(found: object, home: Path) -> bool:
    """Whether a function's code comes from ``home``; C functions come from no file."""
    code = getattr(found, "__code__", None)
    if code is None:
        return type(found).__module__ == "builtins" and found is not None
    return str(code.co_filename).startswith(f"{home}{os.sep}")
