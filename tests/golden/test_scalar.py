"""ScalarSpec: what it takes, what it refuses, and what it becomes on the way to a kernel."""

from __future__ import annotations

import ctypes
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from optest.golden.scalar import ScalarSpec

WHOLE = (torch.int8, torch.int32, torch.int64, torch.uint8)
FLOATS = (torch.float32, torch.float16, torch.bfloat16)


def scalar(dtype, value, **more):
    return ScalarSpec("n", dtype, value, **more)


@given(st.sampled_from(WHOLE), st.integers(-(2**65), 2**65))
def test_integers_are_taken_exactly_within_the_range(dtype, value):
    limits = torch.iinfo(dtype)
    if limits.min <= value <= limits.max:
        spec = scalar(dtype, value)
        assert (spec.to_python(), spec.value.dtype, spec.value.dim()) == (value, dtype, 0)
        assert spec.to_ctypes().value == value
    else:
        with pytest.raises(ValueError, match=f"n: value {value} is out of range for {dtype}"):
            scalar(dtype, value)


@given(st.sampled_from(FLOATS), st.floats())
def test_floats_round_once_and_overflow_is_refused(dtype, value):
    """A finite value that would become infinite is refused; NaN and Inf are values."""
    rounded = torch.tensor(value, dtype=torch.float64).to(dtype).item()
    if math.isfinite(value) and not math.isfinite(rounded):
        with pytest.raises(ValueError, match="out of range"):
            scalar(dtype, value)
    else:
        got = scalar(dtype, value).to_python()
        assert got == rounded or (math.isnan(got) and math.isnan(value))


@given(st.integers(-128, 127), st.integers(-300, 300), st.integers(0, 200))
def test_steps_are_exact_and_checked_again(value, step, index):
    spec = scalar(torch.int8, value, benchmark_step=step)
    expected = value + index * step
    if -128 <= expected <= 127:
        got = spec.value_for_benchmark_dispatch(index)
        assert (got.item(), got.dtype, got.dim()) == (expected, torch.int8, 0)
    else:
        with pytest.raises(ValueError, match="out of range"):
            spec.value_for_benchmark_dispatch(index)


@pytest.mark.parametrize("value", [True, False])
def test_booleans(value):
    spec = scalar(torch.bool, value)
    assert spec.to_python() is value
    assert spec.to_ctypes().value is value


@pytest.mark.parametrize(
    ("value", "bits"), [(1.0, 0x3C00), (-2.0, 0xC000), (65504, 0x7BFF), (float("inf"), 0x7C00)]
)
def test_halves_go_as_their_bits(value, bits):
    passed = scalar(torch.float16, value).to_ctypes()
    assert type(passed) is ctypes.c_uint16
    assert passed.value == bits
    assert scalar(torch.bfloat16, 1.0).to_ctypes().value == 0x3F80


def test_float32_goes_as_a_float_rounded():
    passed = scalar(torch.float32, 0.1).to_ctypes()
    assert type(passed) is ctypes.c_float
    assert passed.value == scalar(torch.float32, 0.1).to_python() != 0.1


@pytest.mark.parametrize(
    ("dtype", "value", "words"),
    [
        (torch.float64, 1.0, "unsupported dtype torch.float64"),
        (torch.int16, 1, "unsupported dtype torch.int16"),
        (torch.complex64, 1, "unsupported dtype"),
        ("int32", 1, "unsupported dtype 'int32'"),
        (int, 1, "unsupported dtype"),
        (torch.int32, True, "requires int value, got True"),
        (torch.int32, 1.0, "requires int value, got 1.0"),
        (torch.int32, "1", "requires int value, got '1'"),
        (torch.int64, None, "requires int value, got None"),
        (torch.bool, 1, "requires bool value, got 1"),
        (torch.bool, None, "requires bool value"),
        (torch.float32, True, "requires int or float value, got True"),
        (torch.float32, "0.1", "requires int or float value"),
        (torch.float32, 1j, "requires int or float value"),
        (torch.float32, [1.0], "requires int or float value"),
        (torch.float32, 10**400, "out of range"),
        (torch.float16, 65520.0, "out of range"),
        (torch.int32, torch.tensor([1], dtype=torch.int32), r"must be 0-dim, got shape \(1,\)"),
        (torch.int32, torch.tensor(1), "torch.int64 does not match dtype torch.int32"),
    ],
)
def test_what_is_refused_says_so(dtype, value, words):
    with pytest.raises(ValueError, match=words):
        scalar(dtype, value)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"compile_runtime": 1}, "compile_runtime must be a bool, got 1"),
        ({"compile_runtime": None}, "compile_runtime must be a bool"),
        ({"benchmark_step": 0.5}, "requires int benchmark_step, got 0.5"),
        ({"benchmark_step": True}, "requires int benchmark_step, got True"),
    ],
)
def test_marks_of_another_kind(more, words):
    with pytest.raises(ValueError, match=words):
        scalar(torch.int32, 1, **more)


def test_steps_that_cannot_be():
    with pytest.raises(ValueError, match=r"benchmark_step is unsupported for torch\.bool"):
        scalar(torch.bool, True, benchmark_step=1)
    with pytest.raises(ValueError, match="expected finite"):
        scalar(torch.float32, 1.0, benchmark_step=math.inf)
    with pytest.raises(ValueError, match="out of range"):
        scalar(torch.float16, 60000.0, benchmark_step=1000).value_for_benchmark_dispatch(9)
    with pytest.raises(ValueError, match="dispatch -1"):
        scalar(torch.int32, 1, benchmark_step=1).value_for_benchmark_dispatch(-1)


def test_without_a_step_every_dispatch_gets_the_value():
    spec = scalar(torch.int32, 7)
    assert not spec.has_benchmark_step
    assert spec.value_for_benchmark_dispatch(5) is spec.value
    stepped = scalar(torch.int32, 7, benchmark_step=0)
    assert stepped.has_benchmark_step
    assert stepped.value_for_benchmark_dispatch(0) is stepped.value


def test_numbers_of_numpy_are_numbers():
    assert scalar(torch.int32, np.int64(5)).to_python() == 5
    assert scalar(torch.float32, np.float32(0.5)).to_python() == 0.5
    with pytest.raises(ValueError, match="requires int value"):
        scalar(torch.int32, np.bool_(True))


def test_a_tensor_of_the_dtype_is_kept():
    value = torch.tensor(3, dtype=torch.int8)
    assert scalar(torch.int8, value).value is value
