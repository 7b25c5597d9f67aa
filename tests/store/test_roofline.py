"""Shares of the limit, held against the times that the operations and the bytes take at least."""

from __future__ import annotations

import math

import pytest
from store_examples import PLACE, timing

from optest.store.records import Ceiling, Peaks
from optest.store.roofline import attainable, share_of_limit, short_dtype

# 100 TFLOP/s of bf16, 2 TB/s of memory: the ridge stands at 50 operations a byte.
PEAKS = Peaks(
    PLACE,
    0.0,
    (
        Ceiling("read", "memory", 1, 0.5e12),
        Ceiling("read", "memory", 8, 2e12),
        Ceiling("copy", "memory", 8, 1.5e12),
        Ceiling("read", "L3", 8, 9e12),
        Ceiling("matrix", "bf16", 8, 100e12),
        Ceiling("matrix", "int8", 8, 200e12),
    ),
)


@pytest.mark.parametrize("flop", [1e9, 1e12, 4e13])
@pytest.mark.parametrize("nbytes", [1e8, 1e10, 3e11])
@pytest.mark.parametrize("seconds", [0.01, 0.9])
def test_the_share_is_the_least_time_over_the_time_it_took(flop, nbytes, seconds):
    least = max(flop / 100e12, nbytes / 2e12)
    row = {"TFLOPS": flop / seconds / 1e12, "TB/s": nbytes / seconds / 1e12}
    assert share_of_limit(row, PEAKS, "bf16") == pytest.approx(least / seconds)


@pytest.mark.parametrize(
    ("intensity", "expected"), [(1.0, 2e12), (49.0, 98e12), (50.0, 100e12), (1e6, 100e12)]
)
def test_the_roof_is_a_slope_and_then_flat(intensity, expected):
    assert attainable(100e12, intensity, 2e12) == pytest.approx(expected)


def test_bytes_alone_are_held_against_the_fastest_memory_and_operations_alone_against_the_peak():
    assert share_of_limit({"TB/s": 0.5}, PEAKS) == pytest.approx(0.25)
    assert share_of_limit({"TFLOPS": 25.0}, PEAKS, "torch.bfloat16") == pytest.approx(0.25)
    assert share_of_limit({"TFLOPS": 25.0}, PEAKS, "int8") == pytest.approx(0.125)


def test_another_level_has_its_own_bandwidth():
    assert share_of_limit({"TB/s": 0.9}, PEAKS, level="L3") == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("row", "dtype"),
    [
        ({}, "bf16"),
        ({"us": 3.0}, "bf16"),
        ({"TFLOPS": 1.0}, "fp8"),  # no ceiling for it
        ({"TFLOPS": 1.0}, ""),
        ({"TFLOPS": 1.0, "TB/s": 1.0}, "fp8"),  # the bytes may not be what limits it
        ({"TB/s": None}, "bf16"),
        ({"TB/s": "nan"}, "bf16"),
        ({"TB/s": True}, "bf16"),
        ({"TB/s": math.inf}, "bf16"),
        ({"TB/s": 0.0}, "bf16"),
    ],
)
def test_where_nothing_can_be_said_nothing_is(row, dtype):
    assert math.isnan(share_of_limit(row, PEAKS, dtype))


def test_warm_caches_are_not_held_against_memory():
    warm = {"us": {**timing(), "cache": "warm"}, "TB/s": 4.5}
    cold = {"us": timing(), "TB/s": 1.0}
    assert math.isnan(share_of_limit(warm, PEAKS))
    assert share_of_limit(warm, PEAKS, level="L3") == pytest.approx(0.5)
    assert share_of_limit(cold, PEAKS) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("torch.bfloat16", "bf16"),
        ("bf16", "bf16"),
        ("float16", "fp16"),
        ("torch.half", "fp16"),
        ("torch.float32", "fp32"),
        ("torch.float8_e4m3fnuz", "fp8"),
        ("fp8", "fp8"),
        ("torch.int8", "int8"),
        ("i8", "int8"),
        ("torch.float64", "float64"),
        ("", ""),
    ],
)
def test_dtypes_go_by_one_name(name, short):
    assert short_dtype(name) == short
