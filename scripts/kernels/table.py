"""The table: a line for each operator, held against its bars."""

from __future__ import annotations

from kernels.contest import Contest
from kernels.course import COPY, OURS, Times, ratios
from optest import stats

_RIVALS = ("inductor", "eager", "bf16", "bf16_packed", "int_mm")
_COLUMNS = (
    "op",
    "shape",
    "MiB",
    "GB/s",
    "share_of_copy",
    "bound",
    *(f"x_{name}" for name in _RIVALS),
)


def head() -> str:
    """What stands above; a number in brackets is the bar of the one before it.

    ``bound`` is the share of the copy bandwidth that instructions alone would leave.
    """
    columns = (*_COLUMNS, "verdict")
    return "| " + " | ".join(columns) + " |\n|" + "---|" * len(columns)


def line(
    name: str, contest: Contest, times: Times, copy_bytes: int, bound: float | None
) -> tuple[str, bool]:
    """The line of a contest, and whether all bars are cleared.

    ``bound`` is in bytes a second, None where instructions were not counted.
    """
    share = [ratio * contest.nbytes / copy_bytes for ratio in ratios(times, COPY)]
    low, high = stats.quantile(share, 0.25), stats.quantile(share, 0.75)
    passed = stats.median(share) >= contest.of_copy
    rate = contest.nbytes / stats.median(times[OURS]) / 1e9
    spread = f"{stats.median(share):.2f}{_bar(contest.of_copy)} {low:.2f}-{high:.2f}"
    cells = [name, contest.shape, f"{contest.nbytes / 2**20:.0f}", f"{rate:.1f}", spread]
    copied = stats.median(times[COPY]) / copy_bytes
    cells.append("" if bound is None else f"{bound * copied:.2f}")
    for rival in _RIVALS:
        if rival not in contest.rivals:
            cells.append("")
            continue
        ratio, bar = stats.median(ratios(times, rival)), contest.rivals[rival].at_least
        passed = passed and ratio >= bar
        cells.append(f"{ratio:.2f}{_bar(bar)}")
    cells.append("pass" if passed else "FAIL")
    return "| " + " | ".join(cells) + " |", passed


def _bar(bar: float) -> str:
    return f" ({bar:g})" if bar else ""
