"""The short names of dtypes that op tests use, each made when it is first asked for."""

from __future__ import annotations

import argparse
import difflib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from optest import arch
from optest.arguments import (
    ArgumentParser,
    positive_int,
    split,
    str2bool,
    str2tuple,
    tuple_of,
    with_form,
)
from optest.errors import UsageError

if TYPE_CHECKING:
    import torch

__all__ = [
    "ArgumentParser",
    "d_dtypes",
    "fp8_flavour",
    "one_of",
    "positive_int",
    "short_name",
    "str2Dtype",
    "str2bool",
    "str2tuple",
    "tuple_of",
]

# Annotations alone: the values come from __getattr__, so that importing this imports no torch.
bf16: torch.dtype
fp16: torch.dtype
fp32: torch.dtype
fp64: torch.dtype
fp8: torch.dtype
fp8_e8m0: torch.dtype
fp4x2: torch.dtype
i4x2: torch.dtype
i8: torch.dtype
i16: torch.dtype
i32: torch.dtype
i64: torch.dtype
u8: torch.dtype
u16: torch.dtype
u32: torch.dtype
u64: torch.dtype

# Short name -> torch's; fp8 is missing, since it depends on the arch.
_TORCH_NAMES = {
    "bf16": "bfloat16",
    "fp16": "float16",
    "fp32": "float32",
    "fp64": "float64",
    "fp8_e8m0": "float8_e8m0fnu",
    "fp4x2": "float4_e2m1fn_x2",
    "i4x2": "int4",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "u8": "uint8",
    "u16": "uint16",
    "u32": "uint32",
    "u64": "uint64",
}
_NAMES = ("fp8", *_TORCH_NAMES)

_FIRST_SM_WITH_FP8 = 89
_FNUZ = ("gfx940", "gfx941", "gfx942")


def fp8_flavour(gfx: str) -> str:
    """Torch's name of the 8-bit float that the matrix units of ``gfx`` take.

    ``float8_e4m3fnuz`` on gfx940 to gfx942; ``float8_e4m3fn`` on gfx950, gfx12xx, sm_89 and later,
    and on ``cpu``.

    Raises:
        UsageError: the arch has none, or is newer than this table.
    """
    if gfx in _FNUZ:
        return "float8_e4m3fnuz"
    if gfx in ("cpu", "gfx950") or re.fullmatch(r"gfx12[0-9a-f]{2}", gfx):
        return "float8_e4m3fn"
    capability = re.fullmatch(r"sm_([0-9]+)[a-z]?", gfx)
    if capability and int(capability[1]) >= _FIRST_SM_WITH_FP8:
        return "float8_e4m3fn"
    message = (
        f"fp8: no 8-bit float is known for arch {gfx!r}. Leave fp8 out on this arch, or name the "
        "flavour you mean (torch.float8_e4m3fn, torch.float8_e4m3fnuz)."
    )
    raise UsageError(message)


def short_name(dtype: torch.dtype) -> str:
    """The name in this module of one of torch's dtypes; torch's own, without ``torch.``, else."""
    torch_name = str(dtype).removeprefix("torch.")
    return next((short for short, name in _TORCH_NAMES.items() if name == torch_name), torch_name)


def _resolve(name: str) -> torch.dtype:
    """The dtype behind a short name.

    Raises:
        KeyError: no such name.
        UsageError: this arch has no fp8, or this torch no such dtype.
    """
    import torch

    torch_name = fp8_flavour(arch.current()) if name == "fp8" else _TORCH_NAMES[name]
    found = getattr(torch, torch_name, None)
    if not isinstance(found, torch.dtype):
        raise UsageError(f"{name}: torch {torch.__version__} has no torch.{torch_name}.")
    return found


def __getattr__(name: str) -> torch.dtype:
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _resolve(name)


def __dir__() -> list[str]:
    return sorted((*__all__, *_NAMES))


class _Available(Mapping[str, "torch.dtype"]):
    """Short name -> dtype, for every dtype that this arch and this torch have."""

    def __getitem__(self, name: str) -> torch.dtype:
        return _resolve(name)

    def __contains__(self, name: object) -> bool:
        return name in _available()

    def __iter__(self) -> Iterator[str]:
        return iter(_available())

    def __len__(self) -> int:
        return len(_available())


def _available() -> list[str]:
    return [name for name in _NAMES if _is_available(name)]


def _is_available(name: str) -> bool:
    try:
        _resolve(name)
    except UsageError:
        return False
    return True


d_dtypes: Mapping[str, torch.dtype] = _Available()


@with_form("a dtype such as bf16")
def str2Dtype(  # noqa: N802 - upstream's name
    value: str,
) -> torch.dtype | tuple[torch.dtype | None, ...] | None:
    """``"bf16"`` -> bfloat16, ``"bf16,"`` -> (bfloat16,), ``"none"`` -> None.

    ``BF16``, ``bfloat16`` and ``torch.bfloat16`` are bf16 too, and so on for all.

    Raises:
        argparse.ArgumentTypeError: a part is no dtype, or is one that this arch does not have.
    """
    parts = split(value)
    if not parts:
        raise argparse.ArgumentTypeError(f"{value!r} names no dtype: expected {_choices()}")
    found = tuple(_one_dtype(part) for part in parts)
    return found if "," in value else found[0]


def one_of(*names: str) -> Callable[[str], torch.dtype]:
    """An argparse type: one of the dtypes an op takes, in any spelling of ``str2Dtype``.

    ``one_of("bf16", "fp16")("torch.bfloat16")`` is bfloat16; a trailing comma is forgiven.
    """
    expected = ", ".join(names)

    @with_form(f"one or more of {expected}")
    def parse(value: str) -> torch.dtype:
        taken = [_resolve(name) for name in names if _is_available(name)]
        parts = split(value)
        found = [_lookup(_canonical(part)) for part in parts]
        wrong = [part for part, dtype in zip(parts, found, strict=True) if dtype not in taken]
        if len(found) == 1 and found[0] is not None and not wrong:
            return found[0]
        hint = f" (separate with blanks: {' '.join(parts)})" if parts else ""
        if wrong:
            hint = _suggestion(_canonical(wrong[0]), names)
        message = f"{value!r}{hint}: this op takes {expected}, separated by blanks"
        raise argparse.ArgumentTypeError(message)

    return parse


def _one_dtype(text: str) -> torch.dtype | None:
    name = _canonical(text)
    if name == "none":
        return None
    found = _lookup(name)
    if found is not None:
        return found
    hint = _suggestion(name, (*_NAMES, *_TORCH_NAMES.values()))
    raise argparse.ArgumentTypeError(f"{text!r} is no dtype{hint}. Expected {_choices()}")


def _canonical(text: str) -> str:
    return text.strip().lower().removeprefix("torch.")


def _lookup(name: str) -> torch.dtype | None:
    """The dtype of a short name or of torch's own; None where there is no such dtype.

    Raises:
        argparse.ArgumentTypeError: there is, but this arch or this torch does not have it.
    """
    import torch

    if name in _NAMES:
        try:
            return _resolve(name)
        except UsageError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
    found = getattr(torch, name, None)
    return found if isinstance(found, torch.dtype) else None


def _suggestion(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f" (did you mean {close[0]}?)" if close and close[0] != name else ""


def _choices() -> str:
    return f"one of {', '.join(_available())}"
