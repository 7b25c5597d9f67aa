"""``ratio_allclose`` and ``ratio_reldiff`` by the sentences that describe them.

Both engines run each case. Faults these would catch: a count in fp32, a share over the wrong number
of elements, a NaN forgiven, a tail not looked at, a shape broadcast, an integer rounded to fp32.
"""

from __future__ import annotations

import math

import pytest
import torch

from optest import expect_failure
from optest.checking import gate_compiled, gate_engines, gate_plain
from optest.checking.comparators import Detail
from optest.checking.ratio import ratio_allclose, ratio_reldiff
from optest.test_common import checkAllclose

NAN, INF = math.nan, math.inf


@pytest.fixture(autouse=True, params=["best", "plain"])
def engine(request, monkeypatch):
    if request.param == "plain":
        monkeypatch.setattr(gate_compiled, "can_scan", lambda _: False)
    return request.param


def judge(comparator, actual, expected, rtol=1e-5, atol=1e-5):
    return comparator(
        actual,
        expected,
        actual_outputs={"out": actual},
        expected_outputs={"out": expected},
        inputs={},
        rtol=rtol,
        atol=atol,
    )


def with_bad(n, bad, by=10.0, dtype=torch.float32):
    """Zeros against zeros but for ``bad`` elements."""
    actual, expected = torch.zeros(n, dtype=dtype), torch.zeros(n, dtype=dtype)
    actual[:bad] = by
    return actual, expected


# ---- the share -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "bad", "ratio", "passes"),
    [
        (100, 5, 0.05, True),
        (100, 6, 0.05, False),
        (100, 29, 0.29, True),  # 0.29 * 100 is below 29 in floats
        (100, 1, 0.0, False),
        (100, 100, 1.0, True),
        (10, 1, 0.149, True),  # rounded, as upstream: 1.49 points are 1
        (10, 2, 0.149, False),
        (10, 2, 0.15, True),  # 1.5 points are 2: Python rounds halves to even
        (30, 2, 0.05, True),  # and so do they there
        (30, 3, 0.05, False),
        (1, 1, 0.4, False),
    ],
)
@pytest.mark.parametrize("kind", ["allclose", "reldiff"])
def test_at_most_the_rounded_share_is_forgiven(n, bad, ratio, passes, kind):
    made = ratio_allclose(1e-3, 1e-3, ratio) if kind == "allclose" else ratio_reldiff(0.01, ratio)
    ok, detail = judge(made, *with_bad(n, bad))
    assert ok is passes
    assert f"error_count={bad}/{n}" in detail
    assert (detail.mismatched, detail.compared) == (bad, n)


def test_the_bound_is_atol_and_a_share_of_expected_and_exactly_it_passes():
    expected = torch.tensor([1.0, -2.0, 4.0])
    at, beyond = expected + torch.tensor([0.75, -1.0, 1.5]), expected * 1.0
    beyond[1] -= 1.0001
    made = ratio_allclose(atol=0.5, rtol=0.25, max_error_ratio=0.0)
    assert judge(made, at, expected)[0]
    assert not judge(made, beyond, expected)[0]


def test_tolerances_left_out_are_those_of_the_run():
    pair = torch.tensor([1.5]), torch.tensor([1.0])
    assert judge(ratio_allclose(max_error_ratio=0), *pair, atol=0.6)[0]
    assert not judge(ratio_allclose(max_error_ratio=0), *pair)[0]
    assert judge(ratio_allclose(atol=1.0, max_error_ratio=0), *pair)[0]
    assert not judge(ratio_allclose(atol=0.0, rtol=0.1, max_error_ratio=0), *pair, atol=9.0)[0]


def test_a_failure_shows_counts_bounds_the_worst_and_the_first_mismatches():
    expected = torch.ones(20, 30)
    actual = expected.clone()
    actual[4, 7:19] = 1.5
    actual[11, 2] = 9.0
    ok, detail = judge(ratio_allclose(0.25, 0.0, 0.01, max_show=3), actual, expected)
    assert not ok
    lines = detail.splitlines()
    assert "ratio_allclose fail: error_count=13/600 (ratio=2.1667%, allowed<=1.0000%" in lines[0]
    assert "threshold=6 pts" in lines[0]
    assert "atol=0.25 rtol=0" in detail
    assert "max abs diff=8 at [11,2]" in detail
    assert "first 3 mismatches" in detail
    assert "[4,7] actual=1.5, expected=1, diff=0.5, tol=0.25" in detail
    assert "[4,9]" in detail
    assert "[4,10]" not in detail


def test_nothing_is_listed_that_was_not_asked_for():
    detail = judge(ratio_allclose(0.1, 0, 0, max_show=0), *with_bad(8, 2))[1]
    assert "error_count=2/8" in detail
    assert "actual=" not in detail


# ---- NaN and Inf ---------------------------------------------------------------------------------


@pytest.mark.parametrize("side", ["actual", "expected"])
@pytest.mark.parametrize(("value", "nan", "inf"), [(NAN, 1, 0), (INF, 0, 1), (-INF, 0, 1)])
@pytest.mark.parametrize("kind", ["allclose", "reldiff"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_nan_and_inf_of_either_side_fail_at_any_share(side, value, nan, inf, kind, dtype):
    pair = {name: torch.zeros(5, dtype=dtype) for name in ("actual", "expected")}
    pair[side][3] = value
    made = ratio_allclose(1.0, 1.0, 1.0) if kind == "allclose" else ratio_reldiff(1.0, 1.0)
    ok, detail = judge(made, **pair)
    assert not ok
    assert "illegal values in comparison" in detail
    assert f"{side}: NaN={nan} Inf={inf}" in detail
    assert "[3]" in detail


def test_equal_infinities_and_nans_are_illegal_too():
    both = torch.tensor([1.0, INF, NAN])
    detail = judge(ratio_allclose(1.0, 1.0, 1.0), both, both.clone())[1]
    assert "actual: NaN=1 Inf=1; expected: NaN=1 Inf=1" in detail


@pytest.mark.parametrize("residue", [1e9, NAN, INF, -INF])
def test_ignore_nan_lets_anything_stand_where_the_golden_is_nan(residue):
    actual, expected = torch.tensor([1.0, residue, 3.0]), torch.tensor([1.0, NAN, 3.0])
    ok, detail = judge(ratio_allclose(1e-3, 1e-3, 0.0, ignore_nan=True), actual, expected)
    assert ok
    assert "1/3 NaN golden pts ignored" in detail
    assert not judge(ratio_allclose(1e-3, 1e-3, 0.0), actual, expected)[0]


@pytest.mark.parametrize(
    ("actual", "expected", "words"),
    [
        ([NAN, 2.0], [1.0, NAN], "illegal values in comparison: actual: NaN=1 Inf=0;"),
        ([1.0, 2.0], [INF, NAN], "expected: NaN=0 Inf=1"),
        ([1.0, 9.0, 3.0], [1.0, NAN, 3.5], "error_count=1/2"),
        ([1.0, 2.0], [NAN, NAN], "golden is entirely NaN"),
    ],
)  # fmt: skip
def test_ignore_nan_forgives_nothing_else(actual, expected, words):
    made = ratio_allclose(1e-3, 1e-3, 0.0, ignore_nan=True)
    ok, detail = judge(made, torch.tensor(actual), torch.tensor(expected))
    assert not ok
    assert words in detail


def test_the_share_is_of_what_is_not_ignored():
    """4 bad of 10 compared; over all 20 they would pass."""
    actual, expected = with_bad(20, 4)
    expected[10:] = NAN
    ok, detail = judge(ratio_allclose(1e-3, 1e-3, 0.25, ignore_nan=True), actual, expected)
    assert not ok
    assert "error_count=4/10" in detail
    assert "10/20 NaN golden pts ignored" in detail


def test_ignore_nan_comes_after_valid_rows():
    actual = torch.tensor([[1.0, 2.0], [3.0, 4.0], [9.0, 9.0]])
    expected = torch.tensor([[1.0, NAN], [3.0, 4.0], [0.0, NAN]])
    made = ratio_allclose(1e-3, 1e-3, 0.0, valid_rows=2, ignore_nan=True)
    ok, detail = judge(made, actual, expected)
    assert ok
    assert "1/4 NaN golden" in detail


# ---- rows ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [ratio_allclose, ratio_reldiff])
class TestValidRows:
    @pytest.mark.parametrize(("axis", "shape"), [(0, (10, 4)), (1, (3, 10, 4)), (-2, (3, 10, 4))])
    def test_only_the_first_rows_count(self, make, axis, shape):
        actual, expected = torch.ones(shape), torch.ones(shape)
        actual.narrow(axis, 5, 5).fill_(99.0)
        assert not judge(make(), actual, expected)[0]
        ok, detail = judge(make(valid_rows=5, valid_axis=axis), actual, expected)
        assert ok
        assert detail.compared == actual.numel() // 2
        actual.narrow(axis, 4, 1).fill_(99.0)
        assert not judge(make(valid_rows=5, valid_axis=axis), actual, expected)[0]

    def test_no_rows_pass(self, make):
        actual, expected = torch.full((4, 2), 99.0), torch.zeros(4, 2)
        assert judge(make(valid_rows=0), actual, expected)[0]

    @pytest.mark.parametrize(
        ("rows", "axis", "words"),
        [
            (9, 0, "valid_rows=9 out of range for axis 0"),
            (1, 2, "valid_axis=2 out of range"),
            (1, -3, "valid_axis=-3 out of range"),
        ],
    )
    def test_rows_that_are_not_there_fail(self, make, rows, axis, words):
        ok, detail = judge(make(valid_rows=rows, valid_axis=axis), *(torch.zeros(4, 2),) * 2)
        assert not ok
        assert words in detail

    @pytest.mark.parametrize("value", [1.0, NAN, INF])
    def test_zero_tail_refuses_what_was_written_behind_them(self, make, value):
        actual, expected = torch.zeros(10, 4), torch.zeros(10, 4)
        made = make(valid_rows=5, zero_tail=True)
        assert judge(made, actual, expected)[0]
        actual[7, 2] = value
        ok, detail = judge(made, actual, expected)
        assert not ok
        assert "inactive tail contains 1 nonzero values" in detail
        assert judge(make(valid_rows=5), actual, expected)[0]

    def test_zero_tail_is_looked_at_though_no_rows_count(self, make):
        ok, _ = judge(make(valid_rows=0, zero_tail=True), torch.ones(4), torch.zeros(4))
        assert not ok


# ---- relative differences ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("actual", "expected", "threshold", "bad"),
    [
        (100.5, 100.0, 0.01, False),
        (102.0, 100.0, 0.01, True),
        (1e-6, 5e-3, 0.01, False),  # below the threshold: no division
        (2.0, 1.0, 0.6, False),  # by the larger of both
        (1.0, 2.0, 0.6, False),
        (1.0, -1.0, 1.5, True),
        (0.02, 0.0, 0.01, True),
        (3.0, 0.0, 2.0, False),
        (5e-5, 0.0, 1e-5, False),  # the floor: 2^-14 / threshold
        (7e-5, 0.0, 1e-5, True),
        (99.0, 100.0, 0.01, False),  # exactly the threshold, as fp32 divides
        (3e38, -3e38, 0.5, True),  # the difference overflows
    ],
)
def test_a_relative_difference_is_of_the_larger_value(actual, expected, threshold, bad):
    made = ratio_reldiff(threshold, 0.0)
    ok, detail = judge(made, torch.tensor([actual]), torch.tensor([expected]))
    assert ok is not bad, detail


def test_one_point_may_not_reach_max_diff_hd():
    actual, expected = torch.full((100,), 100.0), torch.full((100,), 100.0)
    actual[0] = 200.0  # off by half
    for cap, passes in ((0.1, False), (0.5, False), (0.51, True), (INF, True)):
        ok, detail = judge(ratio_reldiff(0.01, 0.05, cap), actual, expected)
        assert ok is passes
        assert ("max_diff_hd" in detail) is not passes
    actual[0] = 100.05  # no bad point: the cap is about bad ones
    assert judge(ratio_reldiff(0.01, 0.05, 1e-4), actual, expected)[0]


def test_both_reasons_are_named():
    actual, expected = torch.full((100,), 100.0), torch.full((100,), 100.0)
    actual[:10] = 200.0
    ok, detail = judge(ratio_reldiff(0.01, 0.05, 0.1), actual, expected)
    assert not ok
    assert "ratio_reldiff fail: error_count=10/100" in detail
    assert " AND worst rdiff=0.5 >= max_diff_hd=0.1" in detail
    assert "[0] actual=200, expected=100, abs_diff=100, rdiff=0.5" in detail


# ---- dtypes, shapes, sizes -----------------------------------------------------------------------


def test_more_than_2_to_24_bad_points_are_counted(engine):
    """fp32 stops at 2^24: a share just above the allowed one would pass."""
    if engine == "plain":
        pytest.skip("counts alike, ten times slower")
    n = (1 << 24) + (1 << 21)
    actual, expected = torch.ones(n, dtype=torch.bfloat16), torch.zeros(n, dtype=torch.bfloat16)
    actual[0] = 0
    ok, detail = judge(ratio_allclose(0, 0, (n - 2) / n), actual, expected)
    assert not ok
    assert f"error_count={n - 1}/{n}" in detail
    assert judge(ratio_allclose(0, 0, (n - 1) / n), actual, expected)[0]


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        (torch.int32, 2**24),
        (torch.int64, 2**53),
        (torch.uint64, 2**63 + 8),
        (torch.int16, 30000),
        (torch.uint8, 200),
    ],
)
@pytest.mark.parametrize("make", [ratio_allclose, lambda **_: ratio_reldiff(1e-30, 0.0)])
def test_integers_differ_by_one_whatever_their_size(dtype, value, make):
    """A run's rtol is for rounding errors, which integers have not."""
    expected = torch.tensor([value, 5], dtype=dtype)
    actual = torch.tensor([value + 1, 5], dtype=dtype)
    ok, detail = judge(make(max_error_ratio=0.0), actual, expected, rtol=1e-2)
    if not ok:
        assert str(value + 1) in detail or make is not ratio_allclose
    else:
        assert make is not ratio_allclose  # the floor of relative differences is above all integers
    assert judge(make(max_error_ratio=0.0), expected, expected.clone())[0]


def test_a_tolerance_of_ones_own_holds_for_integers():
    expected = torch.tensor([100, -7], dtype=torch.int8)
    actual = torch.tensor([101, -7], dtype=torch.int8)
    assert judge(ratio_allclose(atol=1, max_error_ratio=0), actual, expected)[0]
    assert judge(ratio_allclose(rtol=0.02, max_error_ratio=0), actual, expected)[0]
    assert judge(ratio_allclose(max_error_ratio=0), actual, expected, atol=1)[0]
    assert not judge(ratio_allclose(max_error_ratio=0), actual, expected, rtol=0.02)[0]


@pytest.mark.parametrize("make", [ratio_allclose, ratio_reldiff])
@pytest.mark.parametrize(
    ("actual", "expected", "words"),
    [
        (torch.zeros(1), torch.zeros(1000), "shape mismatch: actual=(1,) expected=(1000,)"),
        (torch.zeros(3, 1), torch.zeros(3, 4), "shape mismatch"),
        (torch.zeros(0), torch.zeros(4), "shape mismatch"),
        (torch.zeros(4).bfloat16(), torch.zeros(4), "dtype mismatch: actual=torch.bfloat16"),
    ],
)
def test_unlike_tensors_fail_and_are_never_broadcast(make, actual, expected, words):
    ok, detail = judge(make(), actual, expected)
    assert not ok
    assert words in detail


def test_empty_tensors_match():
    ok, detail = judge(ratio_allclose(), torch.zeros(0, 3), torch.zeros(0, 3))
    assert ok
    assert detail.compared == 0


def test_what_is_no_tensor_is_a_type_error():
    with pytest.raises(TypeError, match="actual is a list"):
        judge(ratio_allclose(), [1.0], torch.ones(1))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float8_e4m3fn, torch.complex64])
def test_other_dtypes_are_decoded(dtype):
    expected = torch.ones(64).to(dtype)
    actual = torch.ones(64)
    actual[5] = 2.0
    ok, detail = judge(ratio_allclose(0.1, 0.1, 0.0), actual.to(dtype), expected)
    assert not ok
    assert "error_count=1/64" in detail
    assert "[5]" in detail
    assert judge(ratio_allclose(0.1, 0.1, 0.0), expected.clone(), expected)[0]


def test_fp64_is_compared_in_fp64():
    expected, actual = torch.ones(2, dtype=torch.float64), torch.ones(2, dtype=torch.float64)
    actual[0] += 1e-12
    assert not judge(ratio_allclose(1e-13, 0.0, 0.0), actual, expected)[0]


# ---- names, parameters, use elsewhere ------------------------------------------------------------


def test_names_spell_out_every_parameter():
    assert ratio_allclose(valid_rows=5, valid_axis=1).__name__ == (
        "ratio_allclose(atol=None, rtol=None, max_error_ratio=0.005, "
        "valid_rows=5, valid_axis=1, zero_tail=False, ignore_nan=False)"
    )
    assert ratio_reldiff(valid_rows=5, zero_tail=True).__name__ == (
        "ratio_reldiff(diff_thd=0.01, pct_thd=0.05, max_diff_hd=inf, "
        "valid_rows=5, valid_axis=0, zero_tail=True)"
    )


@pytest.mark.parametrize(
    ("make", "name", "values"),
    [
        (ratio_allclose, "max_error_ratio", (1.5, -0.1, NAN, True, "half")),
        (ratio_allclose, "atol", (-1.0, NAN, INF, "1")),
        (ratio_allclose, "rtol", (-1e-9, True)),
        (ratio_allclose, "max_show", (-1, 2.5)),
        (ratio_allclose, "valid_rows", (-1, 2.5, True)),
        (ratio_allclose, "valid_axis", (0.5, None)),
        (ratio_allclose, "ignore_nan", (1, "yes")),
        (ratio_allclose, "zero_tail", (True, 1)),  # without valid_rows
        (ratio_reldiff, "diff_thd", (0.0, -1.0, NAN, INF)),
        (ratio_reldiff, "pct_thd", (1.5, -0.1)),
        (ratio_reldiff, "max_diff_hd", (0.0, -1.0, NAN)),
    ],
)
def test_parameters_without_a_meaning_are_refused_by_name(make, name, values):
    for value in values:
        with pytest.raises(ValueError, match=name) as error:
            make(**{name: value})
        assert repr(value) in str(error.value)


def test_details_are_strings_with_counts():
    detail = judge(ratio_allclose(), *with_bad(1000, 2))[1]
    assert isinstance(detail, Detail)
    assert str(detail).startswith("error_count=2/1000")


class TestInCheckAllclose:
    """The reference comes first there, the candidate first here."""

    def test_a_pass_with_outliers_is_a_near_miss_with_its_share(self):
        candidate, reference = with_bad(1000, 2)
        err = checkAllclose(reference, candidate, comparator=ratio_allclose(1e-3, 1e-3))
        assert err == 0.002
        assert err.status == "near"
        assert "error_count=2/1000" in err.reason

    def test_a_failure_says_what_the_comparator_says(self, caplog):
        candidate, reference = with_bad(100, 10)
        with expect_failure():
            err = checkAllclose(reference, candidate, comparator=ratio_reldiff(), msg="y")
        assert err == 0.1
        assert err.status == "fail"
        assert "ratio_reldiff fail: error_count=10/100" in caplog.text

    def test_a_nan_is_a_failure_though_its_share_is_small(self):
        candidate = torch.zeros(1000)
        candidate[7] = NAN
        with expect_failure():
            err = checkAllclose(torch.zeros(1000), candidate, comparator=ratio_allclose())
        assert err.status == "fail"
        assert err == 0.001

    def test_tolerances_are_those_of_the_call(self):
        a, b = torch.ones(4), torch.full((4,), 1.5)
        strict = ratio_allclose(max_error_ratio=0)
        assert checkAllclose(a, b, rtol=0, atol=0.6, comparator=strict).passed
        with expect_failure():
            assert not checkAllclose(a, b, rtol=0, atol=0.4, comparator=strict).passed


def test_the_best_engine_is_the_compiled_one_where_there_is_a_compiler(engine, monkeypatch):
    """Otherwise the tests above would hold one engine to itself."""
    used = []
    for module in (gate_compiled, gate_plain):
        monkeypatch.setattr(module, "scan", lambda gate, m=module: used.append(m))
    from optest import native
    from optest.checking.gate import Allclose, Gate

    gate_engines.scan(Gate.of(torch.ones(3), torch.ones(3), Allclose(0, 0)))
    best = gate_compiled if native.available() else gate_plain
    assert used == [gate_plain if engine == "plain" else best]
