"""Pictures of one test function, drawn by matplotlib: what the page draws, without hover."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from optest.report.chosen import Chosen
from optest.report.column import Column
from optest.report.history import Past
from optest.report.section import Section, card, pasts
from optest.store.records import Peaks
from optest.store.roofline import BANDWIDTHS, MEMORY

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_TERA = 1e12
_QUANTITIES = ("us", "TFLOPS", "TB/s")
_SHOWN = 12  # cases in one picture of distributions, or of histories
_MOST_LINES = 60  # of a candidate; of more, points alone
_MARKERS = "os^Dvp"
_COLOURS = ("#1f6fb4", "#c2570c", "#1a7f5a", "#a0307e", "#6b5a00", "#5b4bc4", "#0b7285", "#9c2f2f")
_LONGEST = 70  # letters of a title or a name beside a picture


def figures(section: Section, chosen: Chosen) -> Iterator[tuple[str, Figure]]:
    """A name and a picture each; what nothing was measured for is left out."""
    for place in section.places:
        if (drawn := roofline(section, card(place), chosen.peaks_of(place))) is not None:
            yield f"roofline-{place.gfx or 'card'}", drawn
    if (drawn := over_axis(section)) is not None:
        yield "axis", drawn
    if (drawn := samples(section)) is not None:
        yield "samples", drawn
    if (drawn := history(section, chosen)) is not None:
        yield "history", drawn


def roofline(section: Section, where: str, peaks: Peaks | None) -> Figure | None:
    """Rate over operations a byte on one card, with its ceilings where they are known."""
    rows = [row for row, (_, r) in enumerate(section.results) if card(r.place) == where]
    figure, (axes,) = _figure(f"{section.function} on {where}")
    intensities: list[float] = []
    for series, candidate in enumerate(section.candidates):
        pairs = _pairs(section, candidate, ("TFLOPS", "TB/s"), rows)
        points = [(flops / moved, flops) for flops, moved in pairs]
        intensities += [x for x, _ in points]
        _points(axes, series, candidate, points)
    if not intensities:
        return None
    _log(axes, "operations a byte", "TFLOPS")
    if peaks is not None:
        _roofs(axes, peaks, section.dtypes, (min(intensities) / 2, max(intensities) * 2))
    axes.legend()
    return figure


def over_axis(section: Section) -> Figure | None:
    """Time and rates over the argument that the sweep goes along; None where nothing is swept."""
    argument = _axis(section)
    shown = [
        q for q in _QUANTITIES if any(c.quantity == q and c.candidate for c in section.columns)
    ]
    shown = shown or [q for q in _QUANTITIES if any(c.quantity == q for c in section.columns)]
    if argument is None or not shown:
        return None
    figure, panels = _figure(f"{section.function} over {argument.name}", len(shown))
    for axes, quantity in zip(panels, shown, strict=True):
        for series, candidate in enumerate(section.candidates):
            _lines(axes, section, (series, candidate), argument, quantity)
        _log(axes, argument.name, quantity)
    panels[0].legend()
    return figure


def samples(section: Section) -> Figure | None:
    """Spread of the samples around their median, of the slowest cases of each candidate."""
    boxes = []
    for column in section.columns:
        for row, timing in column.timings.items():
            median, values = timing["median_us"], timing["samples_us"] or ()
            known = [value / median for value in values if isinstance(value, (int, float))]
            if median and known:
                boxes.append((median, _named(section, column, row), known))
    boxes = sorted(boxes, key=lambda each: -each[0])[:_SHOWN][::-1]
    if not boxes:
        return None
    figure, (axes,) = _figure(f"{section.function}: samples over their median, slowest cases")
    axes.boxplot([known for _, _, known in boxes], orientation="horizontal", showfliers=True)
    axes.set_yticks(range(1, len(boxes) + 1), [name for _, name, _ in boxes], fontsize=7)
    axes.set_xlabel("sample / median")
    return figure


def history(section: Section, chosen: Chosen) -> Figure | None:
    """Medians over the runs, of the cases that moved most; None where nothing has a past."""
    found = sorted(pasts(section, chosen), key=lambda each: -_moved(each[2]))[:_SHOWN]
    if not found:
        return None
    figure, (axes,) = _figure(f"{section.function}: median over its first, by run")
    for number, (column, row, past) in enumerate(found):
        ratios = [median / past.medians[0] for median in past.medians]
        points = list(zip(past.positions, ratios, strict=True))
        _points(axes, number, _named(section, column, row), points, "-")
        for step in past.changes:
            colour = _COLOURS[number % len(_COLOURS)]
            at = past.positions[step.at] - 0.5
            axes.axvline(at, color=colour, linestyle="--", linewidth=0.8)
    runs = chosen.history.runs
    names = [run.facts.commit[:7] or run.id[4:13] for run in runs]
    axes.set_xticks(range(len(runs)), names, rotation=60, fontsize=7)
    axes.legend(fontsize=7)
    return figure


def _moved(past: Past) -> float:
    """The largest of its changes, up or down."""
    return max((abs(math.log(step.ratio)) for step in past.changes), default=0.0)


def _figure(title: str, panels: int = 1) -> tuple[Figure, list[Axes]]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0 if panels == 1 else 5.0 * panels, 4.8), layout="constrained")
    figure.suptitle(_short(title), fontsize=11)
    return figure, [figure.add_subplot(1, panels, n + 1) for n in range(panels)]


def _log(axes: Axes, across: str, up: str) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set(xscale="log", yscale="log", xlabel=across, ylabel=up)
    for axis in (axes.xaxis, axes.yaxis):  # numbers in full: powers would need formulas
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=7))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_formatter(NullFormatter())
    axes.grid(alpha=0.3)


def _points(
    axes: Axes, series: int, name: str, points: Sequence[tuple[float, float]], line: str = "none"
) -> None:
    if points:
        axes.plot(
            [x for x, _ in points],
            [y for _, y in points],
            _MARKERS[series % len(_MARKERS)],
            color=_COLOURS[series % len(_COLOURS)],
            label=_short(name or "the case"),
            markersize=4,
            linestyle=line,
        )


def _roofs(axes: Axes, peaks: Peaks, dtypes: Sequence[str], reach: tuple[float, float]) -> None:
    flats = {name: found.value for name in dtypes if (found := peaks.best(("matrix",), name))}
    top = max(flats.values(), default=math.inf)
    bandwidth = peaks.best(BANDWIDTHS, MEMORY)
    for name, value in flats.items():
        axes.axhline(value / _TERA, color="0.3", linestyle="--", linewidth=1)
        axes.annotate(name, (reach[0], value / _TERA), fontsize=7)
    if bandwidth is not None:
        end = min(reach[1], top / bandwidth.value)
        xs = [reach[0], max(reach[0], end)]
        axes.plot(xs, [x * bandwidth.value / _TERA for x in xs], color="0.3", linewidth=1)
        axes.annotate(MEMORY, (xs[0], xs[0] * bandwidth.value / _TERA), fontsize=7)


def _axis(section: Section) -> Column | None:
    """The numeric argument with most values, of those that have several."""
    found = [
        (len({*map(_positive, each.cells.values())} - {None}), each)
        for each in section.columns
        if each.role == "argument"
    ]
    most, column = max(found, key=lambda each: each[0], default=(0, None))
    return column if most > 1 else None


def _lines(
    axes: Axes, section: Section, named: tuple[int, str], argument: Column, quantity: str
) -> None:
    """A line for each set of the other arguments; of very many, points alone."""
    series, candidate = named
    column = _column(section, candidate, quantity)
    if column is None:
        return
    groups: dict[tuple[object, ...], list[tuple[float, float]]] = {}
    others = [
        c
        for c in section.columns
        if c is not argument and (c.role == "argument" or c.name in {"run", "gfx"})
    ]
    for row in range(len(section.results)):
        x, y = _positive(argument.cells.get(row)), _positive(column.cells.get(row))
        if x is not None and y is not None:
            groups.setdefault(tuple(c.cells.get(row) for c in others), []).append((x, y))
    if len(groups) > _MOST_LINES:
        _points(axes, series, candidate, [each for points in groups.values() for each in points])
        return
    for number, points in enumerate(groups.values()):
        name = candidate if number == 0 else "_"  # once in the legend
        _points(axes, series, name, sorted(points), "-")


def _pairs(
    section: Section, candidate: str, quantities: tuple[str, str], rows: Sequence[int]
) -> list[tuple[float, float]]:
    """Both quantities of the rows that have both."""
    first, second = (_column(section, candidate, each) for each in quantities)
    if first is None or second is None:
        return []
    values = ((_positive(first.cells.get(r)), _positive(second.cells.get(r))) for r in rows)
    return [(a, b) for a, b in values if a is not None and b is not None]


def _column(section: Section, candidate: str, quantity: str) -> Column | None:
    wanted = ("measure", candidate, quantity)
    return next((c for c in section.columns if (c.role, c.candidate, c.quantity) == wanted), None)


def _positive(value: object) -> float | None:
    """A number that a logarithmic axis can show."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if 0.0 < value < math.inf else None


def _named(section: Section, column: Column, row: int) -> str:
    """A timing by its column and its case's arguments."""
    values = section.results[row][1].planned.arguments
    return _short(" ".join([column.name, *(f"{name}={value}" for name, value in values.items())]))


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
