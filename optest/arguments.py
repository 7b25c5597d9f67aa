"""What op tests take on the command line: each parser refuses what does not fit, in one line."""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_Parse = TypeVar("_Parse", bound="Callable[[str], object]")

_YES = ("yes", "true", "t", "y", "1")
_NO = ("no", "false", "f", "n", "0")


def form_of(parse: object) -> str:
    """What a parser of this module expects, in words; empty for parsers it does not know."""
    form = getattr(parse, "form", "")
    return form if isinstance(form, str) else ""


def with_form(form: str) -> Callable[[_Parse], _Parse]:
    """Say what a parser expects, for ``ArgumentParser`` to repeat."""

    def mark(parse: _Parse) -> _Parse:
        parse.form = form  # type: ignore[attr-defined]
        return parse

    return mark


def split(value: str) -> list[str]:
    """Parts of ``"(a,b,)"`` without blanks and without empty ones."""
    return [part.strip() for part in value.strip().strip("()").split(",") if part.strip()]


def str2bool(value: str | bool) -> bool:
    """``yes true t y 1`` and ``no false f n 0``, in any case.

    Raises:
        argparse.ArgumentTypeError: anything else.
    """
    if isinstance(value, bool):
        return value
    text = value.strip().lower()
    if text not in _YES + _NO:
        expected = f"{' '.join(_YES)} or {' '.join(_NO)}"
        raise argparse.ArgumentTypeError(f"{value!r} is no boolean: expected {expected}")
    return text in _YES


@with_form("integers separated by commas, such as 512 or 512,1024")
def str2tuple(value: str) -> int | tuple[int, ...]:
    """``"512"`` -> 512, ``"512,"`` -> (512,), ``"512,1024"`` -> (512, 1024); parentheses allowed.

    Raises:
        argparse.ArgumentTypeError: a part is not an integer, or there is none.
    """
    try:
        parts = tuple(int(part) for part in split(value))
    except ValueError:
        parts = ()
    if not parts:
        message = f"{value!r}: expected integers separated by commas, such as 512 or 512,1024"
        raise argparse.ArgumentTypeError(message)
    return parts if "," in value else parts[0]


@with_form("whole numbers of at least 1, such as 1 16")
def positive_int(value: str) -> int:
    """A whole number of at least 1, for an axis such as ``-b 1 2 16``.

    Raises:
        argparse.ArgumentTypeError: anything else, commas among it.
    """
    text = value.strip()
    if re.fullmatch(r"[0-9]+", text) and int(text) > 0:
        return int(text)
    if "," in text and all(part.strip().isdigit() for part in split(text)):
        apart = " ".join(part.strip() for part in split(text))
        message = f"{value!r}: one number at a time, separate with blanks: {apart}"
        raise argparse.ArgumentTypeError(message)
    raise argparse.ArgumentTypeError(
        f"{value!r}: expected whole numbers of at least 1, such as 1 16"
    )


@dataclass(frozen=True)
class tuple_of:  # noqa: N801 - used as an argparse type, like int
    """An argparse type: exactly ``arity`` whole numbers of at least 0, separated by commas.

    ``tuple_of(3, "m,n,k")("16,128,256")`` is ``(16, 128, 256)``; 0 is a legal size.
    """

    arity: int
    form: str

    def __call__(self, value: str) -> tuple[int, ...]:
        """Parse one value.

        Raises:
            argparse.ArgumentTypeError: another number of parts, or a part that is no size.
        """
        parts = [part.strip() for part in value.strip().strip("()").split(",")]
        if len(parts) == self.arity and all(re.fullmatch(r"[0-9]+", part) for part in parts):
            return tuple(int(part) for part in parts)
        raise argparse.ArgumentTypeError(f"{value!r}: expected {self.form}, {self._rule(parts)}")

    def _rule(self, parts: list[str]) -> str:
        rule = f"{self.arity} whole numbers of at least 0 separated by commas"
        return rule if len(parts) == self.arity else f"{rule}, got {len(parts)}"


class ArgumentParser(argparse.ArgumentParser):
    """``argparse.ArgumentParser`` whose errors name the form that an option takes."""

    def __init__(self, **kwargs: object) -> None:
        super().__init__(**kwargs)  # type: ignore[arg-type]
        # "-1,2,3" is a value to refuse by name, not an unknown option.
        self._negative_number_matcher = re.compile(r"^-[0-9][0-9.,]*$")

    def error(self, message: str) -> NoReturn:
        """Print one line and leave with exit code 2."""
        for action in self._actions:
            name = "/".join(action.option_strings)
            form = form_of(action.type)
            if action.choices:
                form = f"one or more of {', '.join(map(str, action.choices))}"
            if form and message == f"argument {name}: expected at least one argument":
                message = f"{message}: {form}"
        self.exit(2, f"{self.prog}: error: {message} (-h for help)\n")
