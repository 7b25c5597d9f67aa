from __future__ import annotations

import copy
import json
import math
import pickle

import pandas as pd
import pytest

from optest.timing import Timing

FACTS = {
    "samples_us": [2.0, 1.0, 4.0],
    "ci_us": (1.0, 4.0),
    "n": 4,
    "dropped": 1,
    "clock": "wall",
    "cache": "cold",
    "policy": "walked through 8 MiB before each call",
    "overhead_us": 0.25,
    "overhead_of": "an empty Python call",
    "calls": 6,
    "notes": ("one", "two"),
}


def test_a_timing_is_a_plain_number_in_arithmetic():
    timing = Timing(2.0, **FACTS)
    flops = 8e6 / timing / 1e6
    assert (flops, type(flops), type(timing * 2), timing == 2.0) == (4.0, float, float, True)
    assert f"{timing:.1f}" == "2.0"
    assert repr(timing) == "2.0"


def test_derived_numbers():
    timing = Timing(2.0, **FACTS)
    assert timing.mean_us == pytest.approx(7 / 3)
    assert (timing.min_us, timing.max_us, timing.dropped_share) == (1.0, 4.0, 0.25)
    assert timing.quantile_us(0.5) == 2.0


@pytest.mark.parametrize(
    "again", [copy.copy, copy.deepcopy, lambda t: pickle.loads(pickle.dumps(t))]
)
def test_copies_keep_every_fact(again):
    timing = Timing(2.0, **FACTS)
    twin = again(timing)
    assert type(twin) is Timing
    assert twin.to_dict() == timing.to_dict()


@pytest.mark.parametrize("timing", [Timing(2.0, **FACTS), Timing(5.0), Timing.nan("not built")])
def test_json_and_back_loses_nothing(timing):
    text = json.dumps(timing.to_dict(), allow_nan=False)
    twin = Timing.from_dict(json.loads(text))
    assert math.isnan(twin) == math.isnan(timing)
    for name in Timing.__slots__:
        assert getattr(twin, name) == getattr(timing, name), name
        assert type(getattr(twin, name)) is type(getattr(timing, name)), name


def test_a_column_of_timings_is_a_column_of_numbers():
    frame = pd.DataFrame([{"us": Timing(2.0, **FACTS)}, {"us": Timing.nan("not measured")}])
    assert frame["us"].dtype == float
    assert frame["us"].sum() == 2.0


def test_what_was_not_measured_says_why():
    timing = Timing.nan("checked only")
    assert math.isnan(timing)
    assert math.isnan(timing.mean_us)
    assert (timing.notes, timing.n, timing.dropped_share) == (("checked only",), 0, 0.0)


def test_a_timing_is_a_record():
    timing = Timing(2.0, **FACTS)
    with pytest.raises(AttributeError, match="'n' cannot be set"):
        timing.n = 3
    with pytest.raises(AttributeError, match="'n' cannot be deleted"):
        del timing.n
    with pytest.raises(TypeError, match="nn"):
        Timing(2.0, nn=3)
