"""Short, stable text for any argument of a case: the same in every process and on every machine."""

from __future__ import annotations

import enum
import functools
import hashlib
import pathlib
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch

from optest import dtypes

if TYPE_CHECKING:
    from collections.abc import Iterable

_LONGEST = 80
_ADDRESS = re.compile(r"\s*(?:object )?at 0x[0-9a-fA-F]+")
_SHORT = {
    torch.bfloat16: "bf16",
    torch.float16: "fp16",
    torch.float32: "fp32",
    torch.float64: "fp64",
    torch.int8: "i8",
    torch.int16: "i16",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.uint8: "u8",
    torch.uint16: "u16",
    torch.uint32: "u32",
    torch.uint64: "u64",
    torch.bool: "bool",
}


def of_dtype(dtype: torch.dtype) -> str:
    """``bf16``, ``i8`` …; ``fp8`` for this arch's flavour, so that ids agree between cards."""
    if dtype in _SHORT:
        return _SHORT[dtype]
    if "float8_e4m3" in str(dtype) and dtype == _fp8_here():
        return "fp8"
    return str(dtype).removeprefix("torch.")


def _fp8_here() -> torch.dtype | None:
    try:
        return dtypes.fp8
    except ValueError:  # this arch has no fp8
        return None


def unwrap_dtype(value: object) -> object:
    """A 1-tuple that holds a dtype is the dtype: ``-d bf16,`` parses to ``(torch.bfloat16,)``."""
    if isinstance(value, tuple) and len(value) == 1 and isinstance(value[0], torch.dtype):
        return value[0]
    return value


def of_value(value: object) -> str:
    """Text for an id or a table cell: one line, no memory address, at most 80 characters."""
    return _short(_one_line(_raw(value)))


def cell(value: object) -> object:
    """What a row holds for an argument: numbers, text, booleans and None as they are, else text."""
    value = unwrap_dtype(value)
    if type(value) in (int, float, str, bool, type(None)):
        return value
    return of_value(value)


def _raw(value: object) -> str:  # noqa: PLR0911 - one line a kind
    value = unwrap_dtype(value)
    if isinstance(value, torch.dtype):
        return of_dtype(value)
    if isinstance(value, torch.Tensor):
        return f"Tensor({'x'.join(map(str, value.shape))}:{of_dtype(value.dtype)})"
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, (str, int, float, complex, type(None), torch.device)):
        return str(value)
    if isinstance(value, pathlib.PurePath):
        return value.as_posix()
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{_raw(k)}:{_raw(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return _sequence(value, "[]" if isinstance(value, list) else "()")
    if isinstance(value, (set, frozenset)):
        return _sequence(sorted(map(_raw, value)), "{}")
    return _of_object(value)


def _sequence(items: Iterable[object], brackets: str) -> str:
    return brackets[0] + ",".join(map(_raw, items)) + brackets[1]


def _of_object(value: object) -> str:
    if isinstance(value, functools.partial):
        return f"partial({_raw(value.func)})"
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    if isinstance(name, str):
        return name.replace(".<locals>.", ".")
    if isinstance(value, torch.nn.Module) or type(value).__repr__ is object.__repr__:
        return type(value).__name__
    return _ADDRESS.sub("", repr(value))


def _one_line(text: str) -> str:
    return " ".join(text.split()) if any(c.isspace() and c != " " for c in text) else text


def _short(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    return f"{text[: _LONGEST - 10]}~{digest}"
