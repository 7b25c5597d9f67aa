"""``assert_allclose``: upstream's rule where it is right, refusals where it lets faults through."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import optest
from optest.cases import session as sessions
from optest.cases.session import Session
from optest.errors import CheckFailedError
from optest.testing import all_close_with_slack, assert_allclose, cosine_similarity


@pytest.fixture(autouse=True)
def session():
    with sessions.using(Session(judged_by="")) as ours:
        yield ours


def _off(count, by, *, of=1000, dtype=torch.float32):
    """``of`` ones, and a copy in which the first ``count`` are off by a share."""
    want = torch.ones(of, dtype=dtype)
    got = want.clone()
    got[:count] += by
    return got, want


def _upstream(actual, expected, epsilon=1e-7, rtol=0.01, ratio=0.99):
    """The published rule, said plainly in NumPy."""
    wide = np.result_type(actual.dtype, expected.dtype, np.float32)
    a, e = actual.astype(wide), expected.astype(wide)
    return np.mean(np.abs(a - e) / (np.abs(e) + epsilon) < rtol) > ratio


# --- the meaning that upstream's users know -----------------------------------------------------


@pytest.mark.parametrize(
    ("count", "by", "passes"),
    [
        (0, 0.0, True),
        (1000, 0.0099, True),  # all inside one percent
        (9, 0.02, True),  # 99.1 % inside: more than 99 %
        (10, 0.02, False),  # 99 % inside: not more than 99 %
        (1000, 0.02, False),
    ],
)
def test_more_than_the_ratio_must_lie_within_the_bound(count, by, passes):
    got, want = _off(count, by)
    assert bool(all_close_with_slack(want, got)) is passes
    if passes:
        assert_allclose(got, want)
    else:
        with pytest.raises(AssertionError, match="not equal within tolerance"):
            assert_allclose(got, want)


@given(
    st.integers(1, 400),
    st.floats(0.5, 0.999),
    st.floats(0.001, 0.03),
    st.sampled_from([np.float16, np.float32, np.float64]),
    st.integers(0, 2**31),
)
def test_near_misses_are_judged_as_upstream_judges_them(count, ratio, rtol, dtype, seed):
    random = np.random.default_rng(seed)
    want = (random.uniform(1, 2, count) * random.choice([-1, 1], count)).astype(dtype)
    # No error on the border itself, where one rounding decides, nor a gross one (16 bounds off).
    factor = random.choice([0.0, 0.3, 0.8, 1.3, 3.0], count, p=[0.5, 0.2, 0.1, 0.1, 0.1])
    got = (want.astype(np.float64) * (1 + factor * rtol)).astype(dtype)
    step = np.abs(got.astype(np.float64) - want) / np.abs(want.astype(np.float64)) / rtol
    got = np.where(np.abs(step - 1) < 0.05, want, got)
    expected = _upstream(got, want, rtol=rtol, ratio=ratio)
    slack = all_close_with_slack(
        torch.from_numpy(want), torch.from_numpy(got), max_rel_err=rtol, ratio_below_max_err=ratio
    )
    assert bool(slack) == expected
    with sessions.using(Session(judged_by="")) as ours:
        try:
            assert_allclose(got, want, rtol=rtol, ratio_below_max_err=ratio)
        except AssertionError:
            assert not expected
        else:
            assert expected
        assert bool(ours.failures) != expected


def test_the_message_has_upstreams_lines_in_upstreams_words():
    got, want = _off(100, 1.0)
    with pytest.raises(AssertionError) as error:
        assert_allclose(got, want)
    lines = str(error.value).splitlines()
    assert lines[0] == "Arrays are not equal within tolerance."
    assert "Mismatched elements: 100 / 1000 (10.0%)" in lines
    assert "Greatest absolute difference: 1.000000000000000e+00" in lines
    assert any(line.startswith("Greatest relative difference: 9.99999") for line in lines)


def test_msg_goes_before_the_message_or_makes_another_of_it():
    got, want = _off(100, 1.0)
    with pytest.raises(AssertionError, match=r"^axpy\nArrays are not equal"):
        assert_allclose(got, want, msg="axpy")
    with pytest.raises(AssertionError, match=r"^<Arrays are not equal(.|\n)*>$"):
        assert_allclose(got, want, msg=lambda text: f"<{text}>")


def test_err_stats_false_leaves_the_numbers_out():
    got, want = _off(100, 1.0)
    with pytest.raises(AssertionError) as error:
        assert_allclose(got, want, err_stats=False)
    assert "Mismatched" not in str(error.value)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_the_slack_functions_return_bool_tensors(dtype):
    want = torch.randn(64, dtype=dtype)
    for answer in (all_close_with_slack(want, want), cosine_similarity(want, want)):
        assert answer.dtype == torch.bool
        assert answer.shape == ()
        assert bool(answer)


def test_cosine_similarity_sees_a_direction_and_no_length():
    want = torch.randn(1000, generator=torch.Generator().manual_seed(0))
    assert cosine_similarity(want, 3 * want)
    assert not cosine_similarity(want, -want)
    assert not cosine_similarity(want, want + 0.1 * torch.randn(1000))
    assert not cosine_similarity(want, torch.zeros(1000))


def test_cosine_similarity_of_half_precision_does_not_overflow():
    # The sum of squares, 2.5e7, is beyond fp16: summed there, it would be inf and the cosine 0.
    want = torch.full((1000,), 50.0, dtype=torch.float16)
    assert cosine_similarity(want, want.clone())


# --- what upstream accepts and should not -------------------------------------------------------


@pytest.mark.parametrize("shape", [(1,), (1000, 1), (1, 1000), (), (999,)])
def test_another_shape_is_refused_and_never_broadcast(shape):
    with pytest.raises(AssertionError, match="shapes differ"):
        assert_allclose(torch.ones(shape), torch.ones(1000))
    with pytest.raises(AssertionError, match="shapes differ"):
        assert_allclose(torch.ones(1000), torch.ones(shape))
    assert not all_close_with_slack(torch.ones(1000), torch.ones(shape))
    assert not cosine_similarity(torch.ones(1000), torch.ones(shape))


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_nine_nans_or_infinities_in_a_thousand_are_refused(bad):
    got, want = _off(9, 0.0)
    got[:9] = bad
    assert all_close_with_slack(want, got)  # upstream's rule sees 0.9 % near misses
    with pytest.raises(AssertionError, match="NaN or Inf"):
        assert_allclose(got, want)


def test_a_nan_of_the_reference_is_no_match_unless_asked_for():
    got, want = _off(0, 0.0)
    got[0] = want[0] = float("nan")
    with pytest.raises(AssertionError, match="NaN or Inf"):
        assert_allclose(got, want)
    assert_allclose(got, want, equal_nan=True)


def test_nine_gross_errors_in_a_thousand_are_refused():
    got, want = _off(9, 40.0)
    assert all_close_with_slack(want, got)
    with pytest.raises(AssertionError, match="gross"):
        assert_allclose(got, want)


def test_an_output_of_zeros_is_refused_where_almost_all_of_the_reference_is_zero():
    want = torch.zeros(1000)
    want[::200] = 3.0  # five of a thousand: the ratio would forgive them
    got = torch.zeros(1000)
    assert all_close_with_slack(want, got)
    with pytest.raises(AssertionError):
        assert_allclose(got, want)


@pytest.mark.parametrize(
    "dtype", [torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.float64, torch.complex64]
)
def test_dtypes_that_numpy_lacks_are_compared(dtype):
    want = torch.linspace(1, 2, 64).to(dtype)
    assert_allclose(want.clone(), want)
    wrong = (want.to(torch.complex64 if dtype.is_complex else torch.float32) * -1).to(dtype)
    with pytest.raises(AssertionError, match="not equal"):
        assert_allclose(wrong, want)


def test_dtypes_may_differ_and_are_compared_in_the_wider():
    want = torch.linspace(1, 2, 64)
    assert_allclose(want.bfloat16(), want)
    with pytest.raises(AssertionError):
        assert_allclose(want.bfloat16(), want, rtol=1e-4)


def test_fp16_that_overflows_when_subtracted_is_still_judged():
    want = torch.full((8,), 60000.0, dtype=torch.float16)
    with pytest.raises(AssertionError, match=r"1\.20+e\+05"):
        assert_allclose(-want, want)


def test_empty_inputs_work_and_an_empty_result_for_a_full_one_does_not():
    assert_allclose(torch.empty(0, 4), torch.empty(0, 4))
    with pytest.raises(AssertionError, match="shapes differ"):
        assert_allclose(torch.empty(0), torch.ones(4))


def test_equality_can_be_asked_for():
    # Upstream's strict comparisons make rtol=0 and a ratio of 1 fail for equal arrays.
    want = torch.arange(100)
    assert_allclose(want.clone(), want, rtol=0, ratio_below_max_err=1.0)
    with pytest.raises(AssertionError):
        assert_allclose(want + (want == 7), want, rtol=0, ratio_below_max_err=1.0)


# --- what may be compared -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        (np.ones(4, np.float32), torch.ones(4)),
        (np.ones(8)[::-2], np.ones(4)),
        (np.broadcast_to(np.float32(1), (4,)), torch.ones(4)),  # read-only
        (np.ones(4, ">f4"), torch.ones(4)),
        (1.0, 1.0),
        (2, np.int64(2)),
        (np.float32(1.5), 1.5),
        (torch.tensor(3.0), 3.0),
        (torch.ones(3, requires_grad=True), torch.ones(3)),
    ],
    ids=str,
)
def test_arrays_and_numbers_are_taken(actual, expected):
    assert_allclose(actual, expected)
    with pytest.raises(AssertionError):
        assert_allclose(actual, expected * -1)


def test_a_python_number_is_compared_in_fp64():
    assert_allclose(0.1, np.float64(0.1), rtol=1e-12)  # as fp32 it would be off by 1e-8
    with pytest.raises(AssertionError):
        assert_allclose(0.1, np.float64(0.1) * (1 + 1e-9), rtol=1e-12, ratio_below_max_err=1.0)


@pytest.mark.parametrize("value", [None, "1", [1.0], (torch.ones(1),), {}, object()], ids=type)
def test_what_is_no_array_is_a_type_error_that_is_recorded(value, session):
    with pytest.raises(TypeError, match=r"actual is a .*: expected a torch"):
        assert_allclose(value, 1.0)
    assert session.failures


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"ratio_below_max_err": 1.5}, "ratio_below_max_err=1.5: expected a share"),
        ({"ratio_below_max_err": float("nan")}, "expected a share"),
        ({"rtol": -1.0}, "rtol=-1.0"),
        ({"tolerances": "bf16"}, 'expected "relative" or "dtype"'),
        ({"tolerances": "dtype", "rtol": 0.1}, "leave out rtol"),
    ],
)
def test_a_tolerance_without_meaning_is_a_value_error(options, words):
    with pytest.raises(ValueError, match=words):
        assert_allclose(1.0, 1.0, **options)


# --- bounds by dtype ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "step"),
    [
        (torch.float64, 2.0**-44),
        (torch.float32, 2.0**-18),
        (torch.float16, 2.0**-10),
        (torch.bfloat16, 2.0**-7),
        (torch.float8_e4m3fn, 2.0**-3),
        (torch.float8_e5m2, 2.0**-2),
    ],
)
def test_bounds_follow_from_the_coarser_dtype(dtype, step):
    want = torch.ones(100, dtype=torch.float64)
    want[50:] = -1
    rounded = want.to(dtype)
    # The bound is step * (|want| + rms), about 2 steps here: 1.5 pass, 8 do not.
    assert_allclose(rounded, want * (1 + 1.5 * step), tolerances="dtype")
    with pytest.raises(AssertionError):
        assert_allclose(rounded, want * (1 + 8 * step), tolerances="dtype")


def test_by_dtype_integers_and_bools_are_compared_for_equality():
    want = torch.arange(1000, 1100)
    assert_allclose(want + (want == 1000), want)  # one in a thousand of the value: within 1 %
    with pytest.raises(AssertionError):
        assert_allclose(want + 1, want, tolerances="dtype")
    flags = torch.ones(100, dtype=torch.bool)
    with pytest.raises(AssertionError):
        assert_allclose(~flags, flags, tolerances="dtype")


# --- what the session learns --------------------------------------------------------------------


def test_a_swallowed_failure_is_recorded(session):
    got, want = _off(1000, 1.0)
    with pytest.raises(CheckFailedError):
        assert_allclose(got, want)
    assert "not equal within tolerance" in session.failures[0].reason


def test_a_failure_that_was_meant_is_not(session):
    got, want = _off(1000, 1.0)
    with optest.expect_failure(), pytest.raises(AssertionError):
        assert_allclose(got, want)
    assert not session.failures


def test_a_long_tensor_is_judged_in_all_its_blocks(monkeypatch):
    monkeypatch.setattr("optest.testing.relative._BLOCK", 7)
    got, want = _off(3, 0.5, of=20)
    got[-1] = 5.0
    assert not all_close_with_slack(want, got)
    assert all_close_with_slack(want, got, ratio_below_max_err=0.75)
    with pytest.raises(AssertionError, match=r"difference: 4\.000"):
        assert_allclose(got, want)
