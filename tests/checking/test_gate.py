"""The passes of a gate against each other and against rules written out in Python.

Faults these would catch: the tail of a vector skipped or counted twice, a NaN taken for a number, a
stride read as contiguous, a share decided by a rounded product, fp32 used as a counter, a narrowed
view read beyond its border.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
import textwrap

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from optest import native
from optest.checking import gate_compiled, gate_plain, spread
from optest.checking.gate import (
    COLUMNS,
    Allclose,
    Gate,
    RelativeDifference,
    Rows,
    SameBits,
)
from optest.checking.narrowing import Narrowing, count_nonzero
from optest.checking.pair import Pair

FLOATS = (torch.float32, torch.bfloat16, torch.float16)
SPECIAL = (0.0, -0.0, 1.0, 1.01, 0.99, -1.0, 1e-3, 6.1e-5, 3e-39, 100.0, 1e18, 3e38, -3e38,
           math.nan, math.inf, -math.inf)  # fmt: skip
QUIET = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
RULES = st.one_of(
    st.builds(
        Allclose, atol=st.sampled_from([0.0, 1e-2, 1.0]), rtol=st.sampled_from([0.0, 1e-2, 0.3])
    ),
    st.builds(RelativeDifference, threshold=st.sampled_from([1e-5, 1e-3, 1e-2, 0.5, 100.0])),
    st.just(SameBits()),
)


def _compiled_or_skip():
    if not native.available():
        pytest.skip("no compiler")


@st.composite
def pairs(draw, dtype):
    """Two tensors of one shape: equal but for some elements, special values in both."""
    shape = draw(st.lists(st.integers(1, 9), max_size=3))
    if draw(st.integers(0, 3)) == 0:
        shape = [draw(st.sampled_from([31, 32, 33, 65, 1023, 1025, 2100]))]
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    n = math.prod(shape)
    expected = torch.randn(n, generator=generator)
    actual = expected.clone()
    rate = draw(st.sampled_from([0.0, 0.1, 1.0]))
    hit = torch.rand(n, generator=generator) < rate
    size = draw(st.sampled_from([1e-3, 0.02, 2.0]))
    actual[hit] *= 1 + size * torch.randn(int(hit.sum()), generator=generator)
    for side in (expected, actual):
        special = draw(st.lists(st.sampled_from(SPECIAL), max_size=4))
        places = torch.randint(0, n, (len(special),), generator=generator)
        side[places] = torch.tensor(special, dtype=torch.float32)
    layouts = st.sampled_from(["plain", "transposed", "sliced", "narrowed"])
    return tuple(
        _laid_out(side.to(dtype).reshape(shape), draw(layouts)) for side in (expected, actual)
    )


def _laid_out(tensor, layout):
    if layout == "transposed" and tensor.ndim > 1:
        return tensor.transpose(0, -1).contiguous().transpose(0, -1)
    if layout == "sliced" and tensor.ndim:
        return tensor.repeat_interleave(2, dim=-1)[..., ::2]
    if layout == "narrowed" and tensor.ndim:
        return torch.cat((tensor, tensor.flip(-1)), dim=-1).narrow(-1, 0, tensor.shape[-1])
    return tensor


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of 96 positions, so that small tensors have several and a short last one."""
    for module in (gate_compiled, gate_plain):
        monkeypatch.setattr(module, "block_of", lambda *_: 96)
    monkeypatch.setattr(spread, "_BLOCK", 960)


def _same(got, want):
    assert got.block == want.block
    close = torch.isclose(got.rows, want.rows, rtol=1e-6, atol=0)
    assert bool(close.all()), (got.rows[~close.all(1)], want.rows[~close.all(1)], COLUMNS)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_compiled_and_plain_passes_agree(dtype, small_blocks):
    """In every column of every block, whatever rule and layout."""
    _compiled_or_skip()

    @settings(QUIET, max_examples=120)
    @given(pair=pairs(dtype), rule=RULES, ignore_nan=st.booleans())
    def agree(pair, rule, ignore_nan):
        ignore_nan &= not isinstance(rule, SameBits)
        gate = Gate.of(*pair, rule, ignore_nan=ignore_nan)
        assert gate_compiled.can_scan(gate)
        _same(gate_compiled.scan(gate), gate_plain.scan(gate))

    agree()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_both_passes_agree_on_pools(dtype, monkeypatch):
    """Rows that the rule judges among rows that must not change."""
    _compiled_or_skip()

    @settings(QUIET, max_examples=60)
    @given(pair=pairs(dtype), rule=RULES, seed=st.integers(0, 99))
    def agree(pair, rule, seed):
        a, b = (side.reshape(-1) for side in pair)
        width = next(w for w in (7, 5, 3, 2, 1) if len(a) % w == 0)
        a, b = a.reshape(-1, width), b.reshape(-1, width)
        generator = torch.Generator().manual_seed(seed)
        mapped = (torch.rand(len(a), generator=generator) < 0.5).to(torch.uint8)
        made = Gate.of(a, b, rule)
        rows = None if isinstance(rule, SameBits) else Rows(mapped, width)
        gate = Gate(Pair(a, b, tuple(a.shape), (0, 1), 1), made.domain, rule, rows=rows)
        monkeypatch.setattr(gate_compiled, "block_of", lambda *_: 96)
        monkeypatch.setattr(gate_plain, "block_of", lambda *_: 96 // width * width)
        got, want = gate_compiled.scan(gate), gate_plain.scan(gate)
        for name in COLUMNS[:6]:
            assert got.count(name) == want.count(name), name
        assert got.count("changed") == want.count("changed")
        assert got.worst == pytest.approx(want.worst, rel=1e-6)

    agree()


@pytest.mark.parametrize("engine", ["compiled", "plain"])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_counts_are_those_of_the_rules_in_torch(dtype, engine):
    """The rules once more, over whole tensors in the words of the documents."""
    if engine == "compiled":
        _compiled_or_skip()
    scan = gate_compiled.scan if engine == "compiled" else gate_plain.scan

    @settings(QUIET, max_examples=60)
    @given(pair=pairs(dtype), rule=RULES.filter(lambda r: not isinstance(r, SameBits)))
    def agree(pair, rule):
        e, a = (side.float() for side in pair)
        d = (a - e).abs()
        finite = e.isfinite() & a.isfinite()
        if isinstance(rule, Allclose):
            bad, measure = d > rule.atol + rule.rtol * e.abs(), d
        else:
            floor = torch.full_like(a, (1 / 2**14) / rule.threshold)
            size = torch.maximum(torch.maximum(a.abs(), e.abs()), floor) + 1e-9
            measure = torch.where(d < rule.threshold, d, d / size)
            bad = measure > rule.threshold
        bad &= finite
        table = scan(Gate.of(*pair, rule))
        assert table.count("bad") == int(bad.sum())
        assert table.count("nan_actual") == int(a.isnan().sum())
        assert table.count("inf_expected") == int(e.isinf().sum())
        counted = measure[finite] if isinstance(rule, Allclose) else measure[bad]
        worst = float(counted.max()) if counted.numel() else 0.0
        assert table.worst == pytest.approx(worst, rel=1e-6)

    agree()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_both_passes_find_one_distribution(dtype, small_blocks):
    """Counts and bins exactly, sums to fp64's rounding."""
    _compiled_or_skip()
    levels = (1e-3, 1e-2, 5e-2, 2.0)

    @settings(QUIET, max_examples=40)
    @given(pair=pairs(dtype))
    def agree(pair):
        got = spread.measure(*pair, levels)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(spread, "_can_run_compiled", lambda _: False)
            want = spread.measure(*pair, levels)
        for name in ("values", "finite", "nan_actual", "inf_actual", "nan_expected"):
            assert getattr(got, name) == getattr(want, name), name
        for side in ("absolute", "relative", "expected"):
            assert torch.equal(got.bins[side], want.bins[side]), side
            assert int(got.bins[side].sum()) == got.finite
            assert got.largest[side] == want.largest[side]
        assert got.above == want.above
        for name in ("relative_l2", "cosine", "mean_magnitude"):
            assert getattr(got, name) == pytest.approx(getattr(want, name), rel=1e-9), name

    agree()


@pytest.mark.parametrize(
    "dtype",
    [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint64, torch.float64,
     torch.float8_e4m3fn, torch.bool],
    ids=str,
)  # fmt: skip
def test_bits_are_compared_in_every_dtype(dtype):
    """Whichever engine reads it: the places that were changed, and no others."""
    a = torch.zeros(700, dtype=torch.uint8).to(dtype)
    b = a.clone()
    b.view(torch.uint8).view(700, -1)[::97, -1] = 1
    changed = len(b[::97])
    gate = Gate.of(a, b, SameBits())
    assert gate_plain.scan(gate).count("changed") == changed
    if native.available():
        assert gate_compiled.scan(gate).count("changed") == changed


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.int32, torch.uint16, torch.float8_e5m2], ids=str
)
@pytest.mark.parametrize("compiled", [True, False])
def test_nonzero_values_of_a_tail_are_counted(dtype, compiled, monkeypatch):
    """-0.0 is zero, NaN is not; of a strided view only what it shows."""
    if not compiled:
        monkeypatch.setattr(gate_compiled, "can_scan", lambda _: False)
    room = torch.ones(40, 30).to(dtype)
    view = room[:, 10:20]
    view[...] = 0
    assert count_nonzero(view) == 0
    view[3, 4] = 1
    view[39, 9] = 1
    wanted = 2
    if dtype.is_floating_point:
        view[5, 5] = -0.0
        view[6, 6] = math.nan
        wanted = 3
    assert count_nonzero(view) == wanted
    assert count_nonzero(view[:0]) == 0


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_narrowed_views_are_read_within_their_borders(axis):
    """Garbage beyond the border is not counted, whatever the axis."""
    generator = torch.Generator().manual_seed(0)
    expected = torch.randn(6, 7, 40, generator=generator)
    actual = expected + 5
    narrowing = Narrowing(4, axis)
    narrowing.of(actual).copy_(narrowing.of(expected))
    gate = Gate.of(narrowing.of(expected), narrowing.of(actual), Allclose(0.0, 0.0))
    assert gate_plain.scan(gate).count("bad") == 0
    if native.available():
        assert gate_compiled.scan(gate).count("bad") == 0


@pytest.mark.parametrize("isa", ["portable", "avx2", "neon"])
def test_every_instruction_set_counts_alike(isa):
    """The set is chosen once a process, so each needs its own; lengths end within a vector."""
    _compiled_or_skip()
    script = """
        import itertools, math, torch
        from optest.checking import gate_compiled, gate_plain, spread
        from optest.checking.gate import Allclose, Gate, RelativeDifference, SameBits
        generator = torch.Generator().manual_seed(3)
        rules = Allclose(1e-2, 1e-2), RelativeDifference(1e-2), SameBits()
        for dtype, n in itertools.product(
            (torch.float32, torch.bfloat16, torch.float16), (1, 15, 16, 17, 33, 70, 5000)
        ):
            e = (torch.randn(n, generator=generator) * 20).to(dtype)
            a = (e.float() * (1 + 0.01 * torch.randn(n, generator=generator))).to(dtype)
            if n > 16:
                a[16], e[3] = math.nan, math.inf
            for step, rule, ignore in itertools.product((1, 2), rules, (False, True)):
                if n == 1 and step == 2 or ignore and rule is rules[2]:
                    continue
                gate = Gate.of(e[::step], a[::step], rule, ignore_nan=ignore)
                got, want = gate_compiled.scan(gate).rows, gate_plain.scan(gate).rows
                assert torch.allclose(got, want, rtol=1e-6), (dtype, n, rule, got, want)
            got = spread.measure(e, a, (1e-3, 1e-2))
            spread._can_run_compiled, kept = lambda _: False, spread._can_run_compiled
            want = spread.measure(e, a, (1e-3, 1e-2))
            spread._can_run_compiled = kept
            assert got.above == want.above and got.finite == want.finite
            assert all(torch.equal(got.bins[s], want.bins[s]) for s in got.bins)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        env={**os.environ, "OPTEST_ISA": isa},
        capture_output=True,
        text=True,
        check=False,
    )
    if "this CPU runs" in done.stderr:
        pytest.skip(f"this CPU has no {isa}")
    assert done.returncode == 0, done.stderr


LAYOUTS = {
    "dense": lambda x: x,
    "rows left out": lambda x: x[:, ::2],
    "columns left out": lambda x: x[..., 1:],
    "every other column": lambda x: x[..., ::2],
    "turned": lambda x: x.transpose(0, 1),
    "turned whole": lambda x: x.permute(2, 0, 1),
    "one row many times": lambda x: x[:1].expand(5, -1, -1),
    "one of a dimension": lambda x: x[:, 2:3],
    "more dimensions": lambda x: x.unflatten(1, (3, 2)).transpose(0, 2),
}


@pytest.mark.parametrize("unequal_rows", [gate_compiled.unequal_rows, gate_plain.unequal_rows])
@pytest.mark.parametrize("dense", ["neither", "actual", "expected"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_unequal_rows_are_told_in_every_layout(layout, dense, unequal_rows):
    """Dimensions walked as one that do not follow on from each other, in either of both, fail."""
    if not native.available() and unequal_rows is gate_compiled.unequal_rows:
        pytest.skip("no compiled pass here")
    generator = torch.Generator().manual_seed(0)
    room = torch.randint(0, 9, (4, 6, 8), dtype=torch.int16, generator=generator)
    other = room.clone()
    other[torch.rand(4, 6, 8, generator=generator) < 0.02] += 1
    actual, expected = LAYOUTS[layout](room), LAYOUTS[layout](other)
    if dense == "actual":
        actual = actual.clone(memory_format=torch.contiguous_format)
    if dense == "expected":
        expected = expected.clone(memory_format=torch.contiguous_format)
    assert torch.equal(unequal_rows(actual, expected), (actual != expected).any(-1))


@pytest.mark.parametrize("part", [0, 1])
def test_a_complex_element_differs_where_one_of_its_parts_does(part):
    a = torch.zeros(50, dtype=torch.complex64)
    b = a.clone()
    torch.view_as_real(b)[7, part] = 1
    assert gate_plain.scan(Gate.of(a, b, SameBits())).count("changed") == 1
