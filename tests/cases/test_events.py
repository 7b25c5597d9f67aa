"""What an event may hold: values as JSON has them, whatever they were."""

from __future__ import annotations

import enum
import json
import math
from types import MappingProxyType

import numpy as np
import pytest
import torch

from optest.cases.events import Events, plain
from optest.checking import Tolerance, compare
from optest.timing.timing import Timing


class Level(enum.IntEnum):
    HIGH = 3


class Name(str):
    __slots__ = ()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (math.nan, None),
        (math.inf, "inf"),
        (-math.inf, "-inf"),
        (np.float64(math.nan), None),
        (np.float64(0.5), 0.5),
        (1.5, 1.5),
        (True, True),
        (None, None),
        (Level.HIGH, 3),
        (Name("x"), "x"),
        (MappingProxyType({1: math.nan, "a": (1, 2)}), {"1": None, "a": [1, 2]}),
        (torch.bfloat16, "bf16"),
    ],
)
def test_values_become_json(value, expected):
    found = plain(value)
    assert found == expected
    assert type(found) is type(expected)
    json.dumps(found, allow_nan=False)


def test_results_are_told_whole():
    verdict = compare(torch.tensor([1.0, math.nan]), torch.tensor([1.0, 2.0]), Tolerance())
    told = plain({"err": verdict, "us": Timing(math.nan, n=0)})
    assert told["err"]["counts"]["nan_reference"] == 1
    assert told["err"]["tolerance"]["rtol"] == 0.01
    assert told["err"]["worst"]["want"] == {"float": "nan"}
    assert told["us"]["median_us"] is None
    assert told["us"]["n"] == 0


def test_a_list_that_holds_itself_has_an_end():
    endless = []
    endless.append(endless)
    json.dumps(plain(endless))


def test_a_line_holds_no_nan(tmp_path):
    events = Events(tmp_path / "events.jsonl")
    events.write("finished", row={"err": math.nan, "gain": math.inf})
    (line,) = (tmp_path / "events.jsonl").read_text("utf-8").splitlines()
    assert json.loads(line)["row"] == {"err": None, "gain": "inf"}
