"""A comparison as the commands by which a GitHub workflow annotates a pull request."""

from __future__ import annotations

from collections.abc import Iterator

from optest.compare.comparison import Comparison, Line
from optest.compare.verdict import Verdict
from optest.compare.words import interval, microseconds, percent
from optest.line import one_line

_SHOWN = 9  # GitHub shows ten of a kind a step; the tenth counts the rest


def commands(comparison: Comparison) -> Iterator[str]:
    """Lines for standard output: errors for what fails, warnings for what became slower else."""
    slower = [
        line
        for line in comparison.worst_first
        if line.verdict is Verdict.SLOWER and not line.regression
    ]
    for kind, lines in (("error", comparison.bad), ("warning", slower)):
        for line in lines[:_SHOWN]:
            place = f"file={_property(line.file)}," if line.file else ""
            title = "wrong result" if line.failure else "slower"
            yield f"::{kind} {place}title={title}::{_data(_words(line))}\n"
        if len(lines) > _SHOWN:
            yield f"::{kind} title=optest compare::{len(lines) - _SHOWN} more of this kind\n"


def _words(line: Line) -> str:
    name = f"{line.case} {line.candidate}".strip()
    if line.failure:
        return f"{name}: {line.verdict}: {line.reason}"
    times = f"{microseconds(line.base_us)} us, now {microseconds(line.head_us)} us"
    return f"{name}: {percent(line.ratio)} ({interval(line.low, line.high)}): {times}"


def _data(text: str) -> str:
    """What follows ``::``; its line ends would end the command."""
    return one_line(text, 1000).replace("%", "%25")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
