"""The comparators of paged pools: mapped rows by a rule, all others bit by bit, on either engine.

Faults these would catch: a row of another rank, a mapping taken on trust, NaN in an unmapped row
called a change, an unmapped change forgiven by the share, a share over unmapped elements.
"""

from __future__ import annotations

import math

import pytest
import torch

from optest.checking import gate_compiled
from optest.checking.pool import mapped_pool_ratio_allclose, mapped_pool_ratio_reldiff

MAKERS = [mapped_pool_ratio_allclose, mapped_pool_ratio_reldiff]
both = pytest.mark.parametrize("make", MAKERS)


@pytest.fixture(autouse=True, params=["best", "plain"])
def engine(request, monkeypatch):
    if request.param == "plain":
        monkeypatch.setattr(gate_compiled, "can_scan", lambda _: False)


def judge(comparator, actual, expected, mapping, **inputs):
    return comparator(
        actual,
        expected,
        actual_outputs={"pool": actual},
        expected_outputs={"pool": expected},
        inputs={"mapping": mapping, **inputs},
        rtol=0.0,
        atol=0.0,
    )


def rows(*entries, dtype=torch.int64):
    return torch.tensor(entries, dtype=dtype)


def pool(*shape, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(5)).to(dtype)


@both
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("mapped", [torch.int32, torch.int64, torch.int16])
def test_equal_pools_pass(make, dtype, mapped):
    expected = pool(3, 4, 2, 8, dtype=dtype)
    mapping = rows(11, 0, -1, 5, dtype=mapped)
    ok, detail = judge(
        make("mapping", mapping_shape=(4,), block_size=4), expected.clone(), expected, mapping
    )
    assert ok, detail
    assert (detail.mismatched, detail.compared) == (0, 3 * 16)


def test_mapped_rows_are_within_the_bound_and_no_others_need_be_near():
    expected = torch.zeros(2, 2, 10)
    actual = expected.clone()
    actual[0, 1, :3] = 0.5
    for ratio, passes in ((0.1, False), (0.15, True)):  # 3 of 20 mapped elements
        made = mapped_pool_ratio_allclose(
            "mapping", mapping_shape=(2,), block_size=2, atol=0.1, max_error_ratio=ratio
        )
        ok, detail = judge(made, actual, expected, rows(1, 3))
        assert ok is passes
        assert "error_count=3/20" in detail
        assert passes or "[0,1,0] actual=0.5, expected=0" in detail
    made = mapped_pool_ratio_allclose("mapping", mapping_shape=(2,), block_size=2, atol=0.5)
    assert judge(made, actual, expected, rows(1, 3))[0]


def test_tolerances_left_out_are_those_of_the_run():
    expected = torch.zeros(1, 1, 1)
    made = mapped_pool_ratio_allclose("mapping", mapping_shape=(1,), block_size=1)
    outputs = {"actual_outputs": {}, "expected_outputs": {}, "inputs": {"mapping": rows(0)}}
    for atol, passes in ((0.4, False), (0.6, True)):
        assert made(expected + 0.5, expected, **outputs, rtol=0.0, atol=atol)[0] is passes


@both
@pytest.mark.parametrize("residue", [math.nan, -math.inf, 7.0])
def test_unmapped_rows_hold_anything_that_stays(make, residue):
    expected = torch.zeros(2, 2, 2)
    expected[1] = residue
    made = make("mapping", mapping_shape=(1,), block_size=2)
    assert judge(made, expected.clone(), expected, rows(0))[0]


@both
@pytest.mark.parametrize("value", [1e-30, -0.0, math.nan])
def test_an_unmapped_row_may_not_change_by_a_bit(make, value):
    expected = torch.zeros(2, 2, 3)
    actual = expected.clone()
    actual[1, 1, 2] = value
    made = make("mapping", mapping_shape=(3,), block_size=2)
    ok, detail = judge(made, actual, expected, rows(0, 1, 2))
    assert not ok
    assert "unmapped physical pool row changed: row=3 (1 elements" in detail
    assert detail.mismatched == 1


@both
@pytest.mark.parametrize(("value", "words"), [(math.nan, "NaN=1 Inf=0"), (math.inf, "NaN=0 Inf=1")])
@pytest.mark.parametrize("side", ["actual", "expected"])
def test_mapped_rows_are_finite(make, value, words, side):
    sides = {"actual": torch.zeros(2, 2, 2), "expected": torch.zeros(2, 2, 2)}
    sides[side][0, 1, 0] = value
    made = make("mapping", mapping_shape=(1,), block_size=2)
    ok, detail = judge(made, **sides, mapping=rows(1))
    assert not ok
    assert "mapped rows" in detail
    assert "non-finite" in detail
    assert f"{side}: {words}" in detail


class TestRanks:
    def test_rows_count_anew_in_every_rank(self):
        expected = torch.zeros(2, 2, 2, 1)
        actual = expected.clone()
        actual[:, 0, 0, 0] = 0.5
        made = mapped_pool_ratio_allclose(
            "mapping", mapping_shape=(2, 1), block_size=2, leading_rank_axis=True, atol=0.5
        )
        ok, detail = judge(made, actual, expected, rows([0], [0]))
        assert ok, detail
        assert detail.compared == 2
        assert not judge(made, actual, expected, rows([0], [1]))[0]

    @both
    def test_a_change_names_rank_and_row(self, make):
        expected = torch.zeros(2, 2, 2, 1)
        actual = expected.clone()
        actual[1, 1, 1, 0] = 1.0
        made = make("mapping", mapping_shape=(2, 1), block_size=2, leading_rank_axis=True)
        ok, detail = judge(made, actual, expected, rows([0], [1]))
        assert not ok
        assert "unmapped physical pool row changed: rank=1 row=3" in detail

    @both
    def test_ranks_of_mapping_and_pool_agree(self, make):
        expected = torch.zeros(2, 2, 2, 1)
        made = make("mapping", mapping_shape=(3, 1), block_size=2, leading_rank_axis=True)
        ok, detail = judge(made, expected.clone(), expected, rows([0], [1], [2]))
        assert not ok
        assert "has 3 ranks" in detail


@both
@pytest.mark.parametrize(
    ("mapping", "words"),
    [
        (rows(-2, 0), "holds -2; only -1 is a negative sentinel"),
        (rows(4, 0), "holds 4, outside the physical row range [0, 4)"),
        (rows(2**40, 0), "outside the physical row range"),
        (rows(1, 1), "duplicate physical row 1"),
        (rows(0.0, 1.0, dtype=torch.float32), "must have an integer dtype, got torch.float32"),
        (rows(True, False, dtype=torch.bool), "must have an integer dtype"),
        (rows(0), "must have shape (2,), got (1,)"),
        (rows([0], [1]), "must have shape (2,)"),
        ([0, 1], "misconfigured"),
    ],
)
def test_a_mapping_is_not_taken_on_trust(make, mapping, words):
    expected = torch.zeros(2, 2, 1)
    made = make("mapping", mapping_shape=(2,), block_size=2)
    ok, detail = judge(made, expected.clone(), expected, mapping)
    assert not ok
    assert words in detail


@both
def test_a_mapping_that_is_no_input_is_called_misconfigured(make):
    expected = torch.zeros(2, 2, 1)
    made = make("slots", mapping_shape=(2,), block_size=2)
    ok, detail = judge(made, expected.clone(), expected, rows(0, 1))
    assert not ok
    assert "misconfigured" in detail
    assert "slots" in detail
    assert "mapping" in detail


@both
def test_no_mapped_row_compares_nothing_but_changes(make):
    expected = torch.zeros(2, 2, 1)
    made = make("mapping", mapping_shape=(2,), block_size=2)
    assert judge(made, expected.clone(), expected, rows(-1, -1))[0]
    actual = expected.clone()
    actual[0] = 1
    assert not judge(made, actual, expected, rows(-1, -1))[0]


@both
@pytest.mark.parametrize("shape", [(4, 3, 2), (4,), (2, 4)])
def test_a_pool_of_another_layout_fails(make, shape):
    expected = torch.zeros(shape)
    ok, detail = judge(
        make("mapping", mapping_shape=(1,), block_size=2), expected.clone(), expected, rows(0)
    )
    assert not ok
    assert "block_size=2" in detail


@both
@pytest.mark.parametrize(
    ("actual", "words"),
    [(torch.zeros(2, 2, 2), "shape mismatch"), (torch.zeros(2, 2, 1).half(), "dtype mismatch")],
)
def test_unlike_pools_fail(make, actual, words):
    made = make("mapping", mapping_shape=(1,), block_size=2)
    ok, detail = judge(made, actual, torch.zeros(2, 2, 1), rows(0))
    assert not ok
    assert words in detail


def test_relative_differences_of_mapped_rows():
    expected = torch.ones(1, 1, 100)
    actual = expected.clone()
    actual[0, 0, :6] = 1.1
    made = mapped_pool_ratio_reldiff("mapping", mapping_shape=(1,), block_size=1)
    ok, detail = judge(made, actual, expected, rows(0))
    assert not ok
    assert "error_count=6/100" in detail
    actual[0, 0, 5] = 1.0
    assert judge(made, actual, expected, rows(0))[0]
    capped = mapped_pool_ratio_reldiff(
        "mapping", mapping_shape=(1,), block_size=1, max_diff_hd=0.05
    )
    assert "max_diff_hd" in judge(capped, actual, expected, rows(0))[1]


@both
@pytest.mark.parametrize("layout", ["plain", "room between rows", "transposed"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8], ids=str)
def test_every_row_is_told_from_its_neighbours(make, layout, dtype):
    """A random half of 600 rows is mapped; then one row more changes, mapped or not."""
    generator = torch.Generator().manual_seed(0)
    expected = torch.randint(-9, 9, (150, 4, 6), generator=generator).to(dtype)
    actual = _laid_out(expected, layout)
    order = torch.randperm(600, generator=generator)
    mapping = order[:300].reshape(30, 10)
    made = make("mapping", mapping_shape=(30, 10), block_size=4)
    assert judge(made, actual, expected, mapping)[0]
    for row, words in ((int(order[10]), "error_count=6/1800"), (int(order[310]), "unmapped")):
        changed = actual.clone()
        changed[row // 4, row % 4] += 40
        strict = {"max_error_ratio": 0} if make is mapped_pool_ratio_allclose else {"pct_thd": 0}
        made = make("mapping", mapping_shape=(30, 10), block_size=4, **strict)
        ok, detail = judge(made, _laid_out(changed, layout), expected, mapping)
        assert not ok
        assert words in detail
        place = f"[{row // 4},{row % 4},0]" if words != "unmapped" else f"row={row} "
        assert place in detail


def _laid_out(tensor, layout):
    if layout == "room between rows":
        return torch.cat((tensor, tensor), dim=2)[:, :, :6]
    if layout == "transposed":
        return tensor.transpose(0, 2).contiguous().transpose(0, 2)
    return tensor.clone()


def test_names_say_which_pool():
    for make in MAKERS:
        name = make("slots", mapping_shape=(2, 3), block_size=16, pool_name="kv").__name__
        assert name.startswith(f"{make.__name__}(kv, mapping=slots, mapping_shape=(2, 3)")
        assert "block_size=16" in name


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("mapping_name", ""),
        ("pool_name", 3),
        ("mapping_shape", 4),
        ("mapping_shape", "22"),
        ("mapping_shape", (2, -1)),
        ("block_size", 0),
        ("block_size", 2.0),
        ("leading_rank_axis", 1),
    ],
)
def test_parameters_without_a_meaning_are_refused_by_name(make, name, value):
    given = {"mapping_name": "mapping", "mapping_shape": (2,), "block_size": 2, name: value}
    with pytest.raises(ValueError, match=name):
        make(**given)


@pytest.mark.parametrize(
    ("make", "name", "value"),
    [
        (mapped_pool_ratio_allclose, "max_error_ratio", 2),
        (mapped_pool_ratio_allclose, "atol", -1),
        (mapped_pool_ratio_allclose, "rtol", math.nan),
        (mapped_pool_ratio_reldiff, "diff_thd", 0),
        (mapped_pool_ratio_reldiff, "pct_thd", -0.5),
        (mapped_pool_ratio_reldiff, "max_diff_hd", 0),
    ],
)
def test_bounds_without_a_meaning_are_refused_by_name(make, name, value):
    with pytest.raises(ValueError, match=name):
        make("mapping", mapping_shape=(2,), block_size=2, **{name: value})
