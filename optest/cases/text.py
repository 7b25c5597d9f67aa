"""Short, stable text for what a case takes and raises: in every process and machine the same."""

from __future__ import annotations

import dataclasses
import enum
import functools
import hashlib
import pathlib
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import torch

from optest import dtypes
from optest.line import escaped

if TYPE_CHECKING:
    from collections.abc import Iterable

    from _typeshed import DataclassInstance

_LONGEST = 80
_LONGEST_ERROR = 2_000
_DEEPEST = 12
_CUT = "..."
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
    return _short(escaped(_one_line(_raw(value))))


def of_error(error: BaseException) -> str:
    """``Type: first line of its text``, bounded; where the text is empty, the type alone."""
    try:
        words = str(error).strip()
    except Exception:  # noqa: BLE001 - an exception whose text raises is still that exception
        words = "(its text cannot be read)"
    first = words.splitlines()[0][:_LONGEST_ERROR] if words else ""
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def cell(value: object) -> object:
    """What a row holds for an argument: numbers, text, booleans and None as they are, else text."""
    value = _plain_number(unwrap_dtype(value))
    if type(value) in (int, float, str, bool, type(None)):
        return value
    return of_value(value)


def _plain_number(value: object) -> object:
    if isinstance(value, (np.number, np.bool_, np.ndarray)) and value.ndim == 0:
        return value.item()
    return value


def _raw(value: object, inside: tuple[int, ...] = ()) -> str:
    value = _plain_number(unwrap_dtype(value))
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
    return _of_container(value, inside)


def _of_container(value: object, inside: tuple[int, ...]) -> str:
    if id(value) in inside or len(inside) >= _DEEPEST:
        return _CUT  # it holds itself, or might as well
    inside = (*inside, id(value))
    if isinstance(value, Mapping):
        return _joined((f"{_raw(k, inside)}:{_raw(v, inside)}" for k, v in value.items()), "{}")
    if isinstance(value, (list, tuple)):
        items = (_raw(item, inside) for item in value)
        return _joined(items, "[]" if isinstance(value, list) else "()")
    if isinstance(value, (set, frozenset)):
        return _joined(sorted(_raw(item, inside) for item in value), "{}")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return type(value).__name__ + _joined(_fields(value, inside), "()")
    return _of_object(value)


def _joined(items: Iterable[str], brackets: str) -> str:
    return brackets[0] + ",".join(items) + brackets[1]


def _fields(value: DataclassInstance, inside: tuple[int, ...]) -> Iterable[str]:
    # Not by its repr: that of a set of strings has another order in every process.
    shown = (field.name for field in dataclasses.fields(value) if field.repr)
    return (f"{name}={_raw(getattr(value, name, None), inside)}" for name in shown)


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
