"""A comparison as a pull request shows it: the worst first, the rest folded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from optest.compare.comparison import Comparison, Line
from optest.compare.verdict import Verdict
from optest.compare.words import code, counted, interval, markdown, microseconds, percent

LIMIT = 65_000  # characters; GitHub takes no comment above 65,536
_SPARE = 300
_FOLDED = (Verdict.STILL_WRONG, Verdict.NOISY, Verdict.SAME, Verdict.UNTIMED)
_HEAD = (
    "| case | candidate | verdict | base us | head us | change | 95 % interval | |\n"
    "|:---|:---|:---|---:|---:|---:|---:|:---|\n"
)
_MEANS = "| candidate | cases | time on average | 95 % interval |\n|:---|---:|---:|---:|\n"
_OF_ALL = "(all)"


def page(comparison: Comparison, limit: int = LIMIT) -> str:
    """The whole, in at most ``limit`` characters; a table is cut between rows, and says so."""
    out = [*_top(comparison)]
    notes = [f"- {markdown(note)}\n" for note in comparison.notes]
    left = limit - sum(map(len, [*out, *notes])) - 2 * _SPARE
    open_lines = [line for line in comparison.worst_first if line.verdict not in _FOLDED]
    folded = [line for line in comparison.worst_first if line.verdict in _FOLDED]
    shown = _table(open_lines, left)
    if shown:
        out += ["### Worst first\n\n", shown, "\n"]
    if folded:
        summary = ", ".join(_counted(comparison, _FOLDED))
        inside = _table(folded, left - len(shown))
        out.append(f"<details><summary>{summary}</summary>\n\n{inside}\n</details>\n\n")
    out += notes
    return "".join(out).rstrip("\n") + "\n"


def _top(comparison: Comparison) -> Iterable[str]:
    told = ", ".join(_counted(comparison, comparison.counts)) or "nothing to compare"
    yield f"## optest compare: {told}\n\n"
    machine = f" · {markdown(comparison.machine)}" if comparison.machine else ""
    threshold = f"{100 * comparison.threshold:.3g} %"
    yield f"base: {markdown(comparison.base)} · head: {markdown(comparison.head)}{machine}"
    yield f" · threshold {threshold}\n\n"
    if comparison.differences:
        yield "**Not measured alike:**\n\n"
        yield "".join(f"- {markdown(each)}\n" for each in comparison.differences) + "\n"
    if comparison.means:
        yield _MEANS
        for candidate, mean in comparison.means.items():
            known = interval(mean.low, mean.high)
            name = code(candidate) or _OF_ALL
            yield f"| {name} | {mean.count} | {percent(mean.ratio)} | {known} |\n"
        yield "\n"


def _counted(comparison: Comparison, verdicts: Iterable[Verdict]) -> list[str]:
    counts = comparison.counts
    return [f"{counts[each]:,} {each}" for each in verdicts if each in counts]


def _table(lines: Sequence[Line], room: int) -> str:
    """Rows while they fit, and how many did not."""
    rows: list[str] = []
    size = len(_HEAD)
    for line in lines:
        row = _row(line)
        size += len(row)
        if size > room:
            break
        rows.append(row)
    if not lines:
        return ""
    rest = len(lines) - len(rows)
    more = f"\n{counted(rest, 'more line')} did not fit here: --json FILE has all.\n" * bool(rest)
    return (_HEAD + "".join(rows) if rows else "") + more


def _row(line: Line) -> str:
    mark = "**" if line.bad else ""
    known = interval(line.low, line.high) if line.ratio > 0.0 else ""
    words = [code(line.reason, 200), *(markdown(note) for note in line.notes)]
    cells = (
        code(line.case),
        code(line.candidate) or _OF_ALL,
        f"{mark}{line.verdict}{mark}",
        microseconds(line.base_us),
        microseconds(line.head_us),
        percent(line.ratio),
        known,
        "; ".join(word for word in words if word),
    )
    return f"| {' | '.join(cells)} |\n"
