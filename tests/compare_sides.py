"""Sides and comparisons to put into tests, made by hand."""

from __future__ import annotations

import numpy as np

from optest.compare.side import Case, Cell, Side
from optest.store.records import Place

HERE = Place("host", "gfx942", "A card", "6.4", {"torch": "2.13"})


def cell(us=100.0, spread=0.002, samples=40, seed=0, **said):
    """A time with samples about it."""
    drawn = us * np.exp(np.random.default_rng(seed).normal(0.0, spread, samples))
    return Cell(float(np.median(drawn)), tuple(drawn), **{"clock": "wall", "cache": "cold", **said})


def case(n, cells, **said):
    """The n-th case of one op test."""
    said = {"file": "op_tests/test_a.py", "table": "A", "arguments": {"m": str(n)}, **said}
    return Case(f"test_a.py::test_a[m={n}]", cells=cells, **said)


def side(name, *cases, **said):
    """A side measured here."""
    return Side(name, cases, **{"places": [HERE], "settings": {"mode": "run"}, **said})
