"""Which of the op tests and their cases a sweep is about."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from optest import settings
from optest.cases.matching import matcher
from optest.errors import SettingError, UsageError
from optest.store.records import Planned

_COMPARED = 2000  # names that a misspelt one is held against; more would take seconds
_SHOWN = 3


@dataclass(frozen=True)
class Filters:
    """What is left of a sweep; ``*`` and ``?`` are wild, all else is literal, empty means all.

    Attributes:
        keep: a part of the case's id.
        function: the test function's whole name.
        file: the op test's file name, or its path as it stands in the store.
        arch: what ``get_gfx()`` has to be where a case runs.
    """

    keep: str = ""
    function: str = ""
    file: str = ""
    arch: str = ""

    def check_arch(self) -> None:
        """Raise for an arch that there can be none of.

        Raises:
            UsageError: it is no name of an arch.
        """
        try:
            settings.get("OPTEST_GFX", {"OPTEST_GFX": self.arch})
        except SettingError:
            raise UsageError(
                f"--arch {self.arch!r}: expected an arch name such as cpu, gfx942 or sm_90"
            ) from None

    def files(self, names: Sequence[str]) -> list[str]:
        """The op tests that ``file`` leaves.

        Raises:
            UsageError: it leaves none; the message names close ones.
        """
        if not self.file:
            return list(names)
        pattern = matcher(self.file)
        left = [name for name in names if any(map(pattern.fullmatch, _names_of(name)))]
        if not left:
            known = names if "/" in self.file else dict.fromkeys(_names_of(n)[0] for n in names)
            raise UsageError(_unknown("--file", self.file, "file", list(known)))
        return left

    def cases(self, planned: Sequence[Planned], gfx: str) -> list[Planned]:
        """The units that the other filters leave, ``gfx`` being where no kind of node is named.

        Raises:
            UsageError: ``keep`` or ``function`` matches none of them, or no unit passes both.
        """
        here = [unit for unit in planned if not self.arch or self.arch == (unit.where or gfx)]
        if not here:
            return []
        kept = _matching(here, "-k", f"*{self.keep}*") if self.keep else here
        named = _matching(here, "--function", self.function) if self.function else here
        both = set(map(_key, named))
        left = [unit for unit in kept if unit.key in both]
        if not left:
            raise UsageError(
                f"no case matches both -k {self.keep!r} and --function {self.function!r}"
            )
        return left


def _key(unit: Planned) -> tuple[str, str, str]:
    return unit.key


def _names_of(file: str) -> tuple[str, str]:
    return file.rpartition("/")[2], file


def _matching(units: Sequence[Planned], option: str, text: str) -> list[Planned]:
    pattern = matcher(text)
    by_function = option == "--function"
    left = [unit for unit in units if pattern.fullmatch(unit.function if by_function else unit.id)]
    if left:
        return left
    functions = dict.fromkeys(unit.function for unit in units if unit.function)
    if by_function:
        raise UsageError(_unknown(option, text, "test function", list(functions)))
    known = [*functions, *dict.fromkeys(unit.id for unit in units)]
    raise UsageError(_unknown(option, text[1:-1], "case", known))


def _unknown(option: str, text: str, noun: str, known: Sequence[str]) -> str:
    words = f"{option} {text!r} matches no {noun}"
    close = difflib.get_close_matches(text, known[:_COMPARED], n=_SHOWN)
    if close:
        return f"{words}: did you mean {' or '.join(close)}?"
    if not known:
        return words
    more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
    return f"{words}: expected a part of {', '.join(known[:_SHOWN])}{more}"
