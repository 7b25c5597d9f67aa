"""``topk_pair_compare``: what a tie explains passes, a miss does not, on either engine.

Faults these would catch: values looked at where indices agree, an order asked of the wrong
dimension, ties refused, indices of any kind beside sorted values accepted, a row lost between
blocks.
"""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from optest import native
from optest.checking import gate_compiled, gate_plain
from optest.checking.topk import topk_pair_compare


@pytest.fixture(autouse=True, params=["best", "plain"])
def engine(request, monkeypatch):
    for module in (gate_compiled, gate_plain):
        monkeypatch.setattr(module, "block_of", lambda *_: 64)
    if request.param == "plain":
        monkeypatch.setattr(gate_compiled, "can_scan", lambda _: False)


def judge(actual, expected, vals, golden=None, tolerance=1e-3, **options):
    golden = vals.clone() if golden is None else golden
    return topk_pair_compare("vals", **options)(
        actual,
        expected,
        actual_outputs={"idx": actual, "vals": vals},
        expected_outputs={"idx": expected, "vals": golden},
        inputs={},
        rtol=tolerance,
        atol=tolerance,
    )


def ints(*rows, dtype=torch.int32):
    return torch.tensor(rows, dtype=dtype)


def reals(*rows):
    return torch.tensor(rows)


# ---- as upstream ---------------------------------------------------------------------------------


def test_equal_indices_pass_whatever_the_values_are():
    idx = ints([0, 1, 2])
    assert judge(idx, idx.clone(), reals([3.0, 5.0, 4.0]), reals([100.0, -1.0, float("nan")]))[0]


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.int16, torch.uint8])
@pytest.mark.parametrize("vals", [torch.float32, torch.bfloat16, torch.float16, torch.int32])
def test_tied_indices_may_change_places(dtype, vals):
    actual, expected = ints([4, 2, 7], dtype=dtype), ints([2, 4, 7], dtype=dtype)
    assert judge(actual, expected, torch.tensor([[5, 5, 2]]).to(vals))[0]


def test_a_tie_at_the_border_may_pick_another():
    assert judge(ints([0, 9]), ints([0, 1]), reals([3.0, 1.0]))[0]


def test_a_break_of_the_order_fails_where_indices_differ():
    ok, detail = judge(ints([0, 1, 2]), ints([0, 1, 3]), reals([3.0, 0.5, 1.0]))
    assert not ok
    assert "top-k idx mismatch via 'vals' (dim=-1 order=descending): 1 position(s)" in detail
    assert "[0,2] actual_idx=2 expected_idx=3 actual_score=1 actual_vals[1:3]=[0.5, 1]" in detail
    assert "breaks descending order" in detail
    assert (detail.mismatched, detail.compared) == (1, 3)


def test_the_order_is_exact():
    """No tolerance: one bit out of order fails."""
    above = torch.nextafter(torch.tensor(1.0), torch.tensor(2.0)).item()
    assert not judge(ints([1, 0]), ints([0, 1]), reals([1.0, above]))[0]
    assert judge(ints([1, 0]), ints([0, 1]), reals([above, 1.0]))[0]


@pytest.mark.parametrize(("vals", "passes"), [([1.0, 1.0, 3.0], True), ([1.0, 3.0, 2.0], False)])
def test_ascending_order(vals, passes):
    actual = ints([1, 0, 2]) if passes else ints([0, 1, 2])
    expected = ints([0, 1, 2]) if passes else ints([0, 1, 3])
    ok, detail = judge(actual, expected, reals(vals), descending=False)
    assert ok is passes
    assert passes or "ascending" in detail


def test_rows_do_not_mix():
    actual, expected = ints([1, 0], [0, 1]), ints([0, 1], [0, 1])
    assert judge(actual, expected, reals([5.0, 5.0], [2.0, 9.0]))[0]


def test_places_are_those_of_the_tensor():
    actual, expected = ints([[0, 1, 2]], [[0, 1, 2]]), ints([[0, 1, 2]], [[0, 1, 3]])
    vals = reals([[3.0, 2.0, 1.0]], [[3.0, 0.5, 1.0]])
    assert "[1,0,2] actual_idx=2" in judge(actual, expected, vals)[1]


def test_another_dimension():
    actual = ints([0, 0, 0, 0], [1, 1, 1, 1], [2, 2, 2, 2])
    expected = ints([0, 0, 0, 0], [2, 1, 1, 1], [1, 2, 2, 2])
    vals = reals([9.0, 9, 9, 9], [8.0, 8, 8, 8], [8.0, 7, 7, 7])
    assert judge(actual, expected, vals, dim=0)[0]
    vals[2, 0] = 8.5
    ok, detail = judge(actual, expected, vals, dim=0)
    assert not ok
    assert "[1,0]" in detail
    assert "[2,0]" in detail


def test_a_single_row_without_other_dimensions():
    assert judge(ints(1, 0, 2), ints(0, 1, 2), reals(3.0, 3.0, 1.0))[0]
    ok, detail = judge(ints(1, 0, 2), ints(0, 1, 2), reals(3.0, 4.0, 1.0))
    assert not ok
    assert "[1] actual_idx=0" in detail


def test_a_missing_output_of_values_is_called_misconfigured():
    idx = ints([0, 1])
    for here, there in (({}, {"vals": 1}), ({"vals": 1}, {})):
        ok, detail = topk_pair_compare("vals")(
            idx, idx, actual_outputs=here, expected_outputs=there, inputs={}, rtol=0, atol=0
        )
        assert not ok
        assert "misconfigured" in detail
        assert "'vals'" in detail


def test_the_name():
    assert topk_pair_compare("vals").__name__ == "topk_pair_compare"


# ---- what upstream accepts and should not --------------------------------------------------------


def test_sorted_values_beside_wrong_indices_fail():
    """The golden gives index 2 the value 3, the kernel gives it 1: no tie explains that."""
    vals = reals([3.0, 2.0, 1.0])
    ok, detail = judge(ints([0, 1, 2]), ints([2, 1, 0]), vals)
    assert not ok
    assert detail.mismatched == 2
    assert "not the value of that index" in detail


def test_an_index_that_the_golden_left_out_has_no_better_value_than_its_last():
    ok, detail = judge(ints([77, 1, 2]), ints([0, 1, 2]), reals([3.0, 2.0, 1.0]))
    assert not ok
    assert "[0,0] actual_idx=77" in detail


def test_an_index_picked_twice_fails():
    ok, detail = judge(ints([0, 1, 1]), ints([0, 1, 2]), reals([3.0, 2.0, 2.0]))
    assert not ok
    assert "picked twice" in detail
    assert judge(ints([5, 1, 1]), ints([4, 1, 1]), reals([3.0, 3.0, 3.0]))[0]  # the golden's own


@pytest.mark.parametrize(
    ("actual", "vals", "passes"),
    [
        ([3, -1, -1], [2.0, -9.0, -9.0], True),  # as many as the golden has
        ([0, -1, -1], [2.0, float("-inf"), float("-inf")], True),
        ([-1, -1, -1], [2.0, 1.0, 1.0], False),
        ([-5, 1, -1], [2.0, 2.0, 1.0], False),
    ],
)
def test_negative_indices_are_padding(actual, vals, passes):
    expected = ints([0, -1, -1]) if passes else ints([0, 1, -1])
    golden = reals(vals)
    ok, detail = judge(ints(actual), expected, reals(vals), golden)
    assert ok is passes, detail
    assert passes or "no index" in detail


def test_near_ties_pass():
    """Scores that differ by a kernel's rounding may change places, though no tolerance is given."""
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(50, 400, generator=generator).bfloat16().float()
    noisy = scores + 1e-3 * torch.randn(50, 400, generator=generator)
    golden, expected = scores.topk(32)
    vals, actual = noisy.topk(32)
    assert (actual != expected).any(1).sum() > 25
    ok, detail = judge(actual, expected, vals, golden, tolerance=1e-5)
    assert ok, detail


def test_a_golden_out_of_order_is_not_held_against_anyone():
    vals, golden = reals([3.0, 3.0, 1.0]), reals([1.0, 3.0, 2.0])
    assert judge(ints([1, 0, 2]), ints([0, 1, 2]), vals, golden)[0]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"actual": ints([0, 1], dtype=torch.int64)}, "dtype mismatch"),
        ({"actual": ints([0])}, "shape mismatch"),
        ({"vals": reals([1.0])}, "vals 'vals': shape mismatch"),
        ({"vals": reals([1.0]), "golden": reals([1.0])}, "vals shape mismatch"),
        ({"actual": reals([0.0, 1]), "expected": reals([0.0, 1])}, "must have an integer dtype"),
        ({"dim": 2}, "dim=2 out of range"),
        ({"dim": -3}, "dim=-3 out of range"),
    ],
)
def test_what_does_not_fit_fails_in_words(change, words):
    given_ = {"actual": ints([0, 1]), "expected": ints([0, 1]), "vals": reals([2.0, 1.0])}
    if "golden" not in change and "vals" in change:
        change = {**change, "golden": reals([2.0, 1.0])}
    ok, detail = judge(**{**given_, **change})
    assert not ok
    assert words in detail


def test_only_so_many_failures_are_shown():
    n = 300
    actual = torch.arange(n, dtype=torch.int32).repeat(3, 1)
    vals = torch.zeros(3, n)
    vals[:, 1::2] = 1.0
    ok, detail = judge(actual, actual + 1, vals, max_show=4)
    assert not ok
    assert detail.mismatched == 3 * n
    assert detail.count("actual_idx=") == 4
    assert f"... and {3 * n - 4} more" in detail


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("layout", ["plain", "transposed", "sliced"])
def test_every_row_is_found_in_any_layout(dim, layout):
    """One broken place, in the last row of a tensor of several blocks."""
    shape = (6, 7, 8)
    scores = torch.randn(shape, generator=torch.Generator().manual_seed(dim))
    vals, expected = scores.sort(dim=dim, descending=True)
    actual = expected.clone()
    last = [size - 1 for size in shape]
    other = list(last)
    other[dim] = 0
    actual[tuple(last)], actual[tuple(other)] = expected[tuple(other)], expected[tuple(last)]
    if layout == "transposed":
        actual = actual.transpose(0, 2).contiguous().transpose(0, 2)
    if layout == "sliced":
        actual = actual.repeat_interleave(2, dim=2)[..., ::2]
    ok, detail = judge(actual, expected, vals, dim=dim)
    assert not ok
    assert detail.mismatched == 2
    assert f"[{','.join(map(str, last))}]" in detail


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 9999),
    rows=st.integers(1, 5),
    n=st.integers(4, 40),
    levels=st.sampled_from([2, 5, 1000]),
    descending=st.booleans(),
)
def test_every_legal_top_k_passes_and_a_changed_pick_does_not(seed, rows, n, levels, descending):
    """Of scores with many ties: another order of equal ones is legal, a worse candidate is not."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randint(0, levels, (rows, n), generator=generator).float()
    k = max(1, n // 2)
    golden, expected = scores.topk(k, largest=descending)
    shuffled = torch.randperm(n, generator=generator)
    vals, places = scores[:, shuffled].topk(k, largest=descending)
    actual = shuffled[places]
    ok, detail = judge(actual, expected, vals, golden, tolerance=1e-6, descending=descending)
    assert ok, detail
    worst = scores.argmin(1) if descending else scores.argmax(1)
    wrong = actual.clone()
    wrong[0, 0] = worst[0]  # the best place, beside the best value
    # Where all picks tie, nothing tells a candidate that was left out from another of the tie.
    if golden[0, 0] != golden[0, -1] and wrong[0, 0] != expected[0, 0]:
        assert not judge(wrong, expected, vals, golden, tolerance=1e-6, descending=descending)[0]


# ---- rows that only tie --------------------------------------------------------------------------


def bits(value):
    """Zeros of either sign apart."""
    return value, math.copysign(1.0, value)


def only_ties(row, descending):
    """Whether ``unlike_rows`` leaves out a row of (index, golden's, value, golden's), slowly."""
    apart = [pick for pick in row if pick[0] != pick[1]]
    if any(math.isnan(value) for _, _, value, _ in apart):
        return False
    ours = sorted((index, bits(value)) for index, _, value, _ in apart)
    if ours != sorted((index, bits(value)) for _, index, _, value in apart):
        return False
    values = [pick[2] if descending else -pick[2] for pick in row]
    at = [i for i, pick in enumerate(row) if pick[0] != pick[1]]
    before = all(values[i - 1] >= values[i] for i in at if i)
    return before and all(values[i] >= values[i + 1] for i in at if i + 1 < len(row))


@pytest.mark.skipif(not native.available(), reason="no compiled pass here")
@settings(deadline=None, max_examples=80)
@given(
    seed=st.integers(0, 9999),
    k=st.integers(1, 9),
    dtype=st.sampled_from([torch.float32, torch.bfloat16, torch.float16]),
    index=st.sampled_from([torch.int8, torch.int16, torch.int32, torch.int64]),
    descending=st.booleans(),
)
def test_rows_that_only_tie_are_those_and_no_others(seed, k, dtype, index, descending):
    """Ties in any order, then some changed: misses, repeats, NaN and signs of zero meet them."""
    generator = torch.Generator().manual_seed(seed)

    def changed(tensor, to, share):
        other = to[torch.randint(0, len(to), tensor.shape, generator=generator)]
        return other.where(torch.rand(tensor.shape, generator=generator) < share, tensor)

    levels = torch.tensor([-1.5, -0.0, 0.0, 2.0, torch.inf, torch.nan])
    ranks = torch.randint(0, 5, (60, k), generator=generator).sort(1, descending=descending).values
    expected = torch.randint(-1, 12, (60, k), generator=generator).to(index)
    keys = ranks + torch.rand(60, k, generator=generator)
    actual = expected.gather(1, keys.argsort(1, descending=descending))
    actual = changed(actual, torch.arange(12).to(index), 0.03)
    golden = changed(levels[ranks], levels, 0.05).to(dtype)
    vals = changed(golden, levels.to(dtype), 0.05)
    flags = (actual != expected).any(1)
    want = [
        flag and not only_ties(list(zip(*row, strict=True)), descending)
        for flag, *row in zip(
            *(side.tolist() for side in (flags, actual, expected, vals, golden)), strict=True
        )
    ]
    unlike = gate_compiled.unlike_rows((actual, expected), (vals, golden), descending)
    assert unlike.tolist() == want


@pytest.mark.skipif(not native.available(), reason="no compiled pass here")
@pytest.mark.parametrize("layout", ["dense", "expanded", "turned", "of columns", "not joined"])
def test_rows_that_only_tie_in_every_layout(layout):
    """Rows that no view joins are left for the judge; all others are told."""
    shape = (4, 6, 8)
    expected = torch.arange(8).expand(shape).contiguous()
    actual = expected.clone()
    actual[1, 2, 3], actual[1, 2, 4] = 4, 3  # a tie
    actual[3, 5, 0] = 9  # and none
    vals = torch.zeros(shape)
    if layout == "expanded":
        vals = torch.zeros(1, 1, 1).expand(shape)
    if layout == "turned":
        vals = vals.permute(2, 0, 1).contiguous().permute(1, 2, 0)
    if layout == "of columns":
        actual = actual.repeat_interleave(2, dim=2)[..., ::2]
    if layout == "not joined":
        actual = actual.transpose(0, 1).contiguous().transpose(0, 1)
    unlike = gate_compiled.unlike_rows((actual, expected), (vals, vals), descending=True)
    left = [[1, 2], [3, 5]] if layout == "not joined" else [[3, 5]]
    assert torch.nonzero(unlike).tolist() == left


@pytest.mark.skipif(not native.available(), reason="no compiled pass here")
def test_rows_with_more_ties_than_are_told_quickly_are_judged_all_the_same():
    expected = torch.arange(500)[None]
    actual, vals = expected.flip(1), torch.zeros(1, 500)
    unlike = gate_compiled.unlike_rows((actual, expected), (vals, vals), descending=True)
    assert unlike.tolist() == [True]
    assert judge(actual, expected, vals)[0]


@pytest.mark.parametrize(
    ("name", "value"),
    [("vals_name", ""), ("vals_name", 3), ("dim", 0.5), ("descending", 1), ("max_show", -1)],
)
def test_parameters_without_a_meaning_are_refused_by_name(name, value):
    with pytest.raises(ValueError, match=name) as error:
        topk_pair_compare(**{"vals_name": "vals", name: value})
    assert repr(value) in str(error.value)
