"""One case: a file, a function and its arguments, with an id that is the same everywhere."""

from __future__ import annotations

import functools
import hashlib
import inspect
import re
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optest.cases import text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import torch

    from optest.cases.declared import Reference
    from optest.cases.second_pass import Print
    from optest.checking import Verdict
    from optest.guards.finding import Finding
    from optest.guards.fresh_inputs import FreshInputs
    from optest.guards.outputs import Outputs


@dataclass(frozen=True)
class Declared:
    """What the harness cannot see by itself: names of variables in the test function."""

    inout: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    unwritten: tuple[str, ...] = ()
    deterministic: bool = True


@dataclass
class Case:
    """A case while it runs, and what is known of it."""

    file: str
    function: str
    arguments: dict[str, object]
    id: str
    seed: int
    declared: Declared = field(default_factory=Declared)
    verdicts: list[Verdict] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    outputs: Outputs | None = None
    inputs: list[torch.Tensor] = field(default_factory=list)
    checked_inputs: bool = False
    measured: bool = False
    unguarded: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)  # changed in the process, and put back
    # Of full guards: the variables in which the test holds its references, the inputs of each
    # candidate summed up, and, in a case's second pass, its first and what makes the inputs new.
    references: set[Reference] = field(default_factory=set)
    prints: list[Print] = field(default_factory=list)
    first: Case | None = None
    fresh: FreshInputs | None = None

    def forget(self) -> None:
        """Let go of every tensor, so that a long sweep's memory stays flat."""
        self.outputs = None
        self.inputs.clear()


@functools.lru_cache(maxsize=256)
def signature(function: Callable[..., Any]) -> inspect.Signature:
    """The signature of a test function, read once."""
    return inspect.signature(function)


def bind(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """Arguments by name in signature order, with defaults; 1-tuple dtypes are unwrapped.

    Raises:
        TypeError: the arguments do not fit the signature; the message names the function.
    """
    try:
        bound = signature(function).bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{function.__name__}(): {error}") from None
    bound.apply_defaults()
    return {name: text.unwrap_dtype(value) for name, value in bound.arguments.items()}


def call_arguments(
    function: Callable[..., Any], arguments: Mapping[str, Any]
) -> inspect.BoundArguments:
    """The positional and keyword arguments that ``arguments`` by name stand for."""
    return inspect.BoundArguments(signature(function), OrderedDict(arguments))


def shown(arguments: Mapping[str, object]) -> dict[str, object]:
    """The arguments that make columns: all but ``self`` and ``cls``."""
    return {name: value for name, value in arguments.items() if name not in ("self", "cls")}


@functools.lru_cache(maxsize=256)
def file_of(function: Callable[..., Any]) -> str:
    """Name of the file that defines ``function``, without its folder."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return Path(code.co_filename).name if code else "<unknown>"


def case_id(file: str, function: str, arguments: Mapping[str, object]) -> str:
    """``file.py::function[name=value-…]``."""
    inside = "-".join(f"{name}={text.of_value(value)}" for name, value in shown(arguments).items())
    return f"{file}::{function}[{inside}]"


def numbered(identity: str, nth: int) -> str:
    """The id of the nth run of the same arguments: ``#n`` from the second on."""
    return f"{identity}#{nth}" if nth > 1 else identity


def split_number(case_id: str) -> tuple[str, int]:
    """The inverse of ``numbered``."""
    # The arguments stand in brackets, so what follows the last bracket is the suffix alone.
    match = re.fullmatch(r"(.*\])(?:#(\d+))?", case_id, re.DOTALL)
    return (match[1], int(match[2] or 1)) if match else (case_id, 1)


def seed_of(identity: str, mixed_in: int = 0) -> int:
    """A 31-bit seed from the id, so that a case gives the same inputs wherever it runs."""
    digest = hashlib.sha256(f"{mixed_in}:{identity}".encode()).digest()
    return int.from_bytes(digest[:4], "little") & 0x7FFF_FFFF
