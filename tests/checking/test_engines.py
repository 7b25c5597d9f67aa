"""Every engine against the oracle: dtypes, layouts, NaN and Inf, sizes around a block's border.

Faults these would catch: a NaN lost in a maximum, a stride read as contiguous, the tail of a vector
skipped or counted twice, a bound rounded differently, int arithmetic in floats.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from optest import native as libraries
from optest.checking import Tolerance, compare, engines, fallback, native, triton_compare
from optest.checking.domain import domain_of
from optest.checking.pair import Pair
from optest.checking.table import Bounds
from optest.errors import BuildError
from optest.native import library

FLOATS = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
CODED = tuple(
    getattr(torch, f"float8_{kind}")
    for kind in ("e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz", "e8m0fnu")
)
SMALL = (torch.int8, torch.uint8, torch.bool)
WIDE = (
    torch.int16, torch.uint16, torch.int32, torch.uint32, torch.int64, torch.uint64,
)  # fmt: skip
SPECIAL = (
    0.0, -0.0, 1.0, 1.004, 1.03, 1.3, -1.0, 2.5, -117.0, 1e-3, 1e-8, 3e-39, 6e4, 1e18, 1e30,
    math.nan, math.inf, -math.inf,
)  # fmt: skip
QUIET = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)


def _native_or_skip():
    if not libraries.available():
        pytest.skip("no compiler")


@st.composite
def tensors(draw, dtype):
    """Two tensors of one shape: mostly equal, laid out alike or not."""
    shape = draw(st.lists(st.integers(1, 9), max_size=4))
    if draw(st.integers(0, 4)) == 0:
        shape = [draw(st.sampled_from([31, 32, 33, 1023, 1025, 2100]))]
    reference = _values(draw, dtype, shape)
    changes = _values(draw, dtype, shape)
    rate = draw(st.sampled_from([0.0, 0.02, 0.3, 1.0]))
    seed = draw(st.integers(0, 2**31))
    chosen = torch.rand(shape, generator=torch.Generator().manual_seed(seed)) < rate
    candidate = _bits(reference).clone()
    candidate[chosen] = _bits(changes)[chosen]
    candidate = candidate.view(dtype).reshape(shape)
    layouts = st.sampled_from(["plain", "transposed", "sliced", "expanded"])
    return _laid_out(reference, draw(layouts)), _laid_out(candidate, draw(layouts))


def _values(draw, dtype, shape):
    n = math.prod(shape)
    seed = draw(st.integers(0, 2**31))
    generator = torch.Generator().manual_seed(seed)
    if dtype in CODED:
        codes = torch.randint(0, 256, (n,), generator=generator, dtype=torch.uint8)
        return codes.view(dtype).reshape(shape)
    if dtype == torch.bool:
        return (torch.rand(n, generator=generator) < 0.5).reshape(shape)
    if dtype in FLOATS:
        values = torch.randn(n, generator=generator, dtype=torch.float64)
        special = torch.tensor(draw(st.lists(st.sampled_from(SPECIAL), max_size=6)))
        if len(special):
            places = torch.randint(0, n, (len(special),), generator=generator)
            values[places] = special.double()
        return values.to(dtype).reshape(shape)
    low, high = torch.iinfo(dtype).min, torch.iinfo(dtype).max
    pool = [low, high, 0, 1, 100, 101, high - 1, 7, high // 2 + 1]
    picks = draw(st.lists(st.sampled_from(pool), min_size=1, max_size=12))
    return torch.tensor((picks * n)[:n], dtype=dtype).reshape(shape)


def _bits(tensor):
    kinds = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    return tensor.contiguous().view(kinds[tensor.dtype.itemsize])


def _laid_out(tensor, layout):
    if layout == "transposed" and tensor.ndim > 1:
        return tensor.transpose(0, -1).contiguous().transpose(0, -1)
    if layout == "sliced" and tensor.ndim:
        room = _bits(tensor).repeat_interleave(2, dim=-1).view(tensor.dtype)
        return room[..., ::2]
    if layout == "expanded":
        return tensor.unsqueeze(0).expand(3, *tensor.shape)[1]
    return tensor


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of 96 positions, so that small tensors have several and a short last one."""
    for module in (fallback, native, triton_compare):
        monkeypatch.setattr(module, "block_of", lambda *_: 96)
    return 96


BOUNDS = st.builds(
    Bounds,
    rtol=st.sampled_from([0.0, 1e-2, 0.3]),
    atol=st.sampled_from([0.0, 1e-2, 1.0]),
    equal_nan=st.booleans(),
    gross_floor=st.sampled_from([math.inf, 0.25, 0.0]),
    peak=st.just(True),
)


def _same(got, want):
    assert got.rows.shape == want.rows.shape
    # Squares of what is tiny beside the rest of its block may vanish; no rule looks that low.
    close = torch.isclose(got.rows, want.rows, rtol=1e-5, atol=1e-28, equal_nan=True)
    assert bool(close.all()), (got.rows[~close], want.rows[~close], torch.nonzero(~close))


@pytest.mark.parametrize("dtype", [*FLOATS, *CODED, *SMALL, *WIDE], ids=str)
def test_compiled_and_plain_passes_agree(dtype, small_blocks):
    """In every column of every block, whatever the layout."""
    _native_or_skip()

    @settings(QUIET, max_examples=25)
    @given(pair=tensors(dtype), bounds=BOUNDS)
    def agree(pair, bounds):
        paired = Pair.of(*pair)
        domain = domain_of(dtype, dtype)
        _same(native.scan(paired, bounds), fallback.scan(paired, domain, bounds))

    agree()


@pytest.mark.parametrize("dtype", [*FLOATS, *CODED[:1], torch.float8_e8m0fnu, *SMALL], ids=str)
def test_triton_and_plain_passes_agree(dtype, small_blocks):
    """The kernel itself, in Triton's interpreter where there is no GPU."""
    if torch.cuda.is_available():
        pytest.skip("the interpreter is off where there is a GPU")

    # No shrinking: the interpreter takes most of a second.
    @settings(QUIET, max_examples=6, phases=[Phase.explicit, Phase.generate])
    @given(pair=tensors(dtype), bounds=BOUNDS)
    def agree(pair, bounds):
        paired = Pair.of(*pair)
        domain = domain_of(dtype, dtype)
        assume(paired.positions < 1000)
        with np.errstate(all="ignore"):  # the interpreter is numpy, and Inf - Inf its warning
            got = triton_compare.scan(paired, domain, bounds, tile=32)
        _same(got, fallback.scan(paired, domain, bounds))

    agree()


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float8_e4m3fn], ids=str)
def test_gpu_verdict_is_the_cpus(dtype):
    """The kernel as compiled, against the engine that the other tests hold to the oracle."""
    a = torch.randn(300, 700).to(dtype)
    b = a.clone()
    b[37, 5:90] = 3.0
    want, got = compare(a, b), compare(a.cuda(), b.cuda())
    assert got == want
    assert got.finding == want.finding


@pytest.mark.parametrize("engine", ["best", "plain"])
@pytest.mark.parametrize("dtype", [*FLOATS, *CODED, *SMALL, *WIDE], ids=str)
def test_verdict_is_the_oracles(dtype, engine, oracle, monkeypatch):
    """Counts, share and status as the rules of the design give them in Python numbers."""
    if engine == "plain":
        monkeypatch.setattr(engines, "_compiled", lambda *_: None)

    tolerances = st.builds(
        Tolerance,
        rtol=st.sampled_from([0.0, 1e-2, 0.3]),
        atol=st.sampled_from([0.0, 1e-2, 1.0]),
        tol_err_ratio=st.sampled_from([0.0, 0.05, 0.5]),
        equal_nan=st.booleans(),
        max_abs_delta=st.sampled_from([None, 0.4]),
    )

    @settings(QUIET, max_examples=15)
    @given(pair=tensors(dtype), tolerance=tolerances)
    def agree(pair, tolerance):
        want = oracle(*pair, tolerance)
        assume(not want.borderline)
        got = compare(*pair, tolerance)
        assert got.status == want.status, got.reason
        assert got.compared == want.compared
        assert got.counts.nan_reference == want.nan_reference
        assert got.counts.nan_candidate == want.nan_candidate
        assert got.counts.nonfinite == want.nonfinite
        if any("counted without it" in note for note in got.notes):
            assert got.mismatched > want.mismatched
        else:
            assert got.mismatched == want.mismatched
            assert got.gross == want.gross
        assert float(got) == got.mismatched / got.compared
        assert got.max_abs == pytest.approx(want.max_abs, rel=1e-6)
        _shown_are_real(pair, got)

    agree()


def _shown_are_real(pair, verdict):
    want, got = pair
    assert len(verdict.shown) == min(8, verdict.mismatched)
    assert list(verdict.shown) == sorted(verdict.shown, key=lambda e: e.index)
    for element in verdict.shown:
        for value, tensor in ((element.want, want), (element.got, got)):
            stored = (
                tensor[element.index].to(torch.float64)
                if (tensor.is_floating_point())
                else tensor[element.index]
            )
            assert value == stored.item() or math.isnan(stored.item())


@pytest.mark.parametrize("why", ["switched off", "broken compiler"])
def test_without_compiled_loops_the_check_is_the_same(why, monkeypatch):
    """A machine without a compiler still checks; a compiler that fails is run and said once."""
    asked = []

    def broken(family):
        asked.append(family)
        raise BuildError("cc1plus: no such file")

    if why == "switched off":
        monkeypatch.setenv("OPTEST_NATIVE", "off")
    else:
        monkeypatch.setattr(library, "available", lambda: True)
        monkeypatch.setattr(library, "csrc", broken)
        monkeypatch.setattr(library, "_failed", set())
    native._loaded.cache_clear()
    try:
        for _ in range(2):
            assert compare(torch.ones(9), torch.full((9,), 3.0)).status == "fail"
        assert len(asked) == (why == "broken compiler")
    finally:
        native._loaded.cache_clear()


@pytest.mark.parametrize("isa", ["portable", "avx2", "neon"])
def test_every_instruction_set_counts_alike(isa):
    """The set is chosen once a process, so each needs its own; lengths end within a vector."""
    _native_or_skip()
    script = """
        import itertools, math, torch
        from optest.checking import fallback, native
        from optest.checking.domain import domain_of
        from optest.checking.pair import Pair
        from optest.checking.table import Bounds
        generator = torch.Generator().manual_seed(3)
        for dtype, n in itertools.product(
            (torch.float32, torch.bfloat16, torch.float16, torch.int8, torch.float8_e4m3fn),
            (1, 15, 16, 17, 33, 70, 5000),
        ):
            a = (torch.randn(n, generator=generator) * 20).to(dtype)
            b = a.clone()
            b[:: 3 + n % 5] = 7.0
            if dtype.is_floating_point and n > 16:
                b[16] = math.nan
            for step in (1, 2) if n > 1 else (1,):
                pair = Pair.of(a[::step], b[::step])
                for bounds in (Bounds(1e-2, 1e-2, peak=True), Bounds(0, 1, True, 1.0, peak=True)):
                    got = native.scan(pair, bounds).rows
                    want = fallback.scan(pair, domain_of(dtype, dtype), bounds).rows
                    assert torch.allclose(got, want, rtol=1e-5), (dtype, n, got, want)
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
