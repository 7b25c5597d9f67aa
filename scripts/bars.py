"""The table of a benchmark whose figures are held against bars."""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

_HEAD = "| what | unit | median | least | most | bar | ok |\n|---|---|---:|---:|---:|---:|---|"


@dataclass(frozen=True)
class Row:
    """A line of the table; ``bar`` is None where it only explains another."""

    what: str
    unit: str
    samples: Sequence[float]
    bar: float | None

    @property
    def median(self) -> float:
        """What is held against the bar."""
        return statistics.median(self.samples)

    @property
    def ok(self) -> bool:
        """Whether it is not above it."""
        return self.bar is None or self.median <= self.bar

    def __str__(self) -> str:
        spread = f"{min(self.samples):.3g} | {max(self.samples):.3g}"
        bar = "" if self.bar is None else self.bar
        ok = "" if self.bar is None else "yes" if self.ok else "NO"
        return f"| {self.what} | {self.unit} | {self.median:.3g} | {spread} | {bar} | {ok} |"


def finish(rows: Sequence[Row]) -> NoReturn:
    """Print the table and end the process, with 1 where a median is above its bar."""
    print(_HEAD, *rows, sep="\n")
    sys.exit(not all(row.ok for row in rows))


def at_least(least: int) -> Callable[[str], int]:
    """For argparse: a whole number, ``least`` or above."""

    def number(text: str) -> int:
        if not text.strip().lstrip("-").isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r}: expected a whole number from {least} up")
        return int(text)

    return number
