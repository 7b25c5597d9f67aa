"""``error_distribution``: figures as torch gives them over whole tensors, printed, and a pass.

Faults these would catch: a quantile of the wrong rank or side, a threshold by another rule than
``ratio_reldiff``'s, fp32 sums that overflow or stop growing, NaN in a figure.
"""

from __future__ import annotations

import math
import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from optest import expect_failure
from optest.checking import gate_plain, spread
from optest.checking.distribution import error_distribution
from optest.checking.gate import Gate, RelativeDifference
from optest.checking.gate_engines import scan
from optest.test_common import checkAllclose

NAN, INF = math.nan, math.inf
QUANTILES = (0.5, 0.9, 0.99, 0.999, 0.9999, 1.0)


@pytest.fixture(autouse=True, params=["best", "plain"])
def engine(request, monkeypatch):
    if request.param == "plain":
        monkeypatch.setattr(spread, "_can_run_compiled", lambda _: False)
    return request.param


def judge(comparator, actual, expected):
    return comparator(
        actual,
        expected,
        actual_outputs={"out": actual},
        expected_outputs={"out": expected},
        inputs={},
        rtol=0.0,
        atol=0.0,
    )


def noisy(n, size=0.01, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    expected = torch.randn(n, generator=generator)
    actual = expected * (1 + size * torch.randn(n, generator=generator))
    return actual.to(dtype), expected.to(dtype)


def figures(out, label):
    """``{50.0: 0.003, …}`` of a line of percentiles."""
    line = next(line for line in out.splitlines() if line.strip().startswith(f"{label} perc"))
    return {float(p): float(v) for p, v in re.findall(r"p([\d.]+)=(\S+)", line)}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_prints_what_torch_computes_over_whole_tensors(dtype, capsys):
    actual, expected = noisy(6000, dtype=dtype)
    ok, detail = judge(error_distribution(), actual, expected)
    assert ok
    out = capsys.readouterr().out
    a, e = actual.double(), expected.double()
    d = (a - e).abs()
    relative = float(d.norm() / e.norm())
    cosine = float(torch.nn.functional.cosine_similarity(a, e, dim=0))
    assert f"rel-L2 = {relative:.4%}  cosine = {cosine:.7f}  numel=6000" in out
    assert str(detail) in out
    assert f"|golden| mean={float(e.abs().mean()):.4g}" in out
    sides = {
        "rel-diff": d / torch.maximum(a.abs(), e.abs()).clamp(min=1e-6),
        "abs-diff": d,
        "|golden|": e.abs(),
    }
    for label, values in sides.items():
        printed = figures(out, label)
        for q in QUANTILES:
            want = float(torch.quantile(values, q))
            assert printed[q * 100] == pytest.approx(want, rel=2**-7 + 5e-3), (label, q)


def test_thresholds_follow_the_rule_of_ratio_reldiff(capsys):
    actual, expected = noisy(20_000, 0.05)
    levels = (1e-3, 3e-3, 5e-3, 1e-2, 3e-2, 5e-2)
    judge(error_distribution(), actual, expected)
    out = capsys.readouterr().out
    for level in levels:
        table = scan(Gate.of(expected, actual, RelativeDifference(level)))
        share = table.count("bad") / 20_000
        assert f"diff_thd={level:.0e}  frac>thd={share:.4%}  worst={table.worst:.3g}" in out


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_thresholds_of_any_size_follow_that_rule_where_values_are_small_too(dtype):
    """Below a threshold's floor its own denominator counts; so does where the largest share is."""
    actual, expected = noisy(20_000, 0.3)
    scale = 10 ** torch.empty(20_000).uniform_(-9, 3)
    actual, expected = (actual * scale).to(dtype), (expected * scale).to(dtype)
    levels = (1e-42, 1e-7, 1e-5, 6.1e-5, 2**-14, 6.2e-5, 1e-4, 2**-13, 1e-3, 7e-3, 2**-6.5, 0.3, 70)
    for part in (slice(None), slice(7)):
        pair = expected[part].contiguous(), actual[part].contiguous()
        found = spread.measure(*pair, levels)
        for level in levels:
            table = gate_plain.scan(Gate.of(*pair, RelativeDifference(level)))
            assert found.above[level] == (table.count("bad"), table.worst), level


def test_thresholds_may_come_in_any_order_and_more_than_once(capsys):
    actual, expected = noisy(5000)
    judge(error_distribution(diff_thds=(5e-2, 1e-3, 1e-3)), actual, expected)
    lines = [line for line in capsys.readouterr().out.splitlines() if "frac>thd" in line]
    assert [line.split()[0] for line in lines] == [
        f"diff_thd={t}" for t in ("5e-02", *["1e-03"] * 2)
    ]
    assert lines[1] == lines[2]


@settings(deadline=None, max_examples=25)
@given(
    seed=st.integers(0, 9999),
    n=st.integers(1, 3000),
    size=st.sampled_from([0.0, 1e-4, 0.1, 3.0]),
    q=st.sampled_from([0.0, 0.1, 0.5, 0.9, 0.99, 1.0]),
)
def test_quantiles_are_within_the_resolution_that_is_promised(seed, n, size, q):
    """2^-7 of the value between the two neighbours of the rank."""
    actual, expected = noisy(n, size, seed=seed)
    found = spread.measure(expected, actual, ())
    values = (actual - expected).abs().sort().values
    rank = q * (n - 1)
    low, high = float(values[math.floor(rank)]), float(values[math.ceil(rank)])
    assert low * (1 - 2**-7) <= found.quantile("absolute", q) <= high * (1 + 2**-7)
    assert found.quantile("absolute", 1.0) == float(values[-1])


def test_equal_tensors_have_no_error(capsys):
    actual, _ = noisy(1000)
    ok, _ = judge(error_distribution(), actual, actual.clone())
    out = capsys.readouterr().out
    assert ok
    assert "rel-L2 = 0.0000%  cosine = 1.0000000" in out
    assert set(figures(out, "abs-diff").values()) == {0.0}


@pytest.mark.parametrize(
    ("actual", "expected", "l2", "cosine"),
    [
        ([0.0, 0.0], [0.0, 0.0], "0.0000%", "1.0000000"),
        ([1.0, 0.0], [0.0, 0.0], "inf%", "0.0000000"),
        ([0.0, 0.0], [3.0, 4.0], "100.0000%", "0.0000000"),
        ([-3.0, -4.0], [3.0, 4.0], "200.0000%", "-1.0000000"),
        ([1e30, 1e30], [1e30, 2e30], "44.7214%", "0.9486833"),  # squares overflow fp32
        ([1e-30, 1e-30], [1e-30, 2e-30], "44.7214%", "0.9486833"),  # and vanish
    ],
)
def test_norms_at_the_edges(actual, expected, l2, cosine, capsys):
    judge(error_distribution(), torch.tensor(actual), torch.tensor(expected))
    assert f"rel-L2 = {l2}  cosine = {cosine}" in capsys.readouterr().out


def test_nan_and_inf_are_counted_and_left_out(capsys):
    actual, expected = noisy(1000)
    clean = spread.measure(expected[3:], actual[3:], (1e-2,))
    actual[0], actual[1], expected[1], expected[2] = NAN, INF, NAN, -INF
    ok, detail = judge(error_distribution(), actual, expected)
    assert ok
    words = "illegal values: actual: NaN=1 Inf=1; expected: NaN=1 Inf=1, left out"
    out = capsys.readouterr().out
    assert words in out
    assert words in detail
    found = spread.measure(expected, actual, (1e-2,))
    assert (found.values, found.finite) == (1000, 997)
    assert found.above == clean.above
    assert found.relative_l2 == pytest.approx(clean.relative_l2, rel=1e-12)
    assert all(torch.equal(found.bins[side], clean.bins[side]) for side in clean.bins)


def test_nothing_finite_is_said(capsys):
    assert judge(error_distribution(), torch.full((3,), NAN), torch.ones(3))[0]
    assert "abs-diff percentiles: (no finite values)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("actual", "expected", "passes"),
    [([5.0, 1.0], [1.0, 1.0], True), ([NAN, 1.0], [1.0, 1.0], False),
     ([INF, 1.0], [INF, 1.0], False), ([1.0, 1.0], [NAN, 1.0], True)],
)  # fmt: skip
def test_always_pass_false_fails_on_illegal_actual_values_only(actual, expected, passes):
    pair = torch.tensor(actual), torch.tensor(expected)
    ok, detail = judge(error_distribution(always_pass=False), *pair)
    assert ok is passes
    assert passes or "error_distribution fail: actual: NaN=" in detail
    assert judge(error_distribution(), *pair)[0]


@pytest.mark.parametrize("always_pass", [True, False])
def test_unlike_tensors_fail_whatever_is_passed(always_pass):
    for pair in ((torch.ones(1), torch.ones(4)), (torch.ones(4).half(), torch.ones(4))):
        assert not judge(error_distribution(always_pass=always_pass), *pair)[0]


def test_more_than_2_to_24_elements_are_counted(engine):
    """As fp32 sums of ones, all of these would stop at 2^24."""
    if engine == "plain":
        pytest.skip("counts alike, ten times slower")
    n = (1 << 24) + 1000
    actual, expected = torch.full((n,), 2.0).bfloat16(), torch.full((n,), 1.0).bfloat16()
    found = spread.measure(expected, actual, (0.1,))
    assert found.above == {0.1: (n, 0.5)}
    assert found.relative_l2 == 1.0
    assert found.mean_magnitude == 1.0
    assert int(found.bins["expected"].sum()) == n


@pytest.mark.parametrize("dtype", [torch.int8, torch.int64, torch.uint64, torch.float8_e4m3fn])
def test_other_dtypes_are_decoded(dtype, capsys):
    expected, actual = torch.ones(50).to(dtype), torch.ones(50).to(dtype)
    actual[3:8] = torch.full((5,), 2.0).to(dtype)
    assert judge(error_distribution((0.4,), (0.5, 1.0)), actual, expected)[0]
    out = capsys.readouterr().out
    assert "frac>thd=10.0000%  worst=0.5" in out
    assert figures(out, "abs-diff") == {50.0: 0.0, 100.0: 1.0}


def test_strided_and_empty_tensors():
    actual, expected = noisy(4000)
    strided = spread.measure(expected[::2], actual[::2], (1e-2,))
    plain = spread.measure(expected[::2].clone(), actual[::2].clone(), (1e-2,))
    assert strided.above == plain.above
    assert strided.relative_l2 == pytest.approx(plain.relative_l2, rel=1e-12)
    assert judge(error_distribution(), torch.ones(0), torch.ones(0))[0]


def test_in_check_allclose_the_summary_is_the_reason(caplog, capsys):
    caplog.set_level("INFO")
    actual, expected = noisy(1000)
    err = checkAllclose(expected, actual, comparator=error_distribution())
    assert err == 0
    assert err.status == "pass"
    assert "rel-L2 = " in err.reason
    assert "rel-L2 = " in capsys.readouterr().out
    actual[0] = NAN
    with expect_failure():
        err = checkAllclose(expected, actual, comparator=error_distribution(always_pass=False))
    assert err.status == "fail"


def test_the_name():
    assert error_distribution((1e-3,)).__name__ == "error_distribution(diff_thds=(0.001,))"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("diff_thds", (0.0,)),
        ("diff_thds", (1e-3, NAN)),
        ("diff_thds", 1e-3),
        ("diff_thds", "12"),
        ("diff_thds", tuple(range(1, 40))),
        ("quantiles", (1.5,)),
        ("quantiles", (-0.1,)),
        ("quantiles", (True,)),
        ("always_pass", 1),
    ],
)
def test_parameters_without_a_meaning_are_refused_by_name(name, value):
    with pytest.raises(ValueError, match=name):
        error_distribution(**{name: value})
