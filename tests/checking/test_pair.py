"""The walk: every position once, in order, whatever the strides, and no full copy of anything."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from optest.checking import Tolerance, compare, engines
from optest.checking.pair import Pair

PEAK = Path("/proc/self/clear_refs")  # writing 5 resets the peak of resident memory
EXACT = Tolerance(rtol=0.0, atol=0.0)


@st.composite
def strided(draw):
    """An integer tensor of distinct values with permuted, sliced or expanded dimensions."""
    shape = draw(st.lists(st.integers(1, 6), min_size=1, max_size=6))
    steps = [draw(st.integers(1, 2)) for _ in shape]
    room = torch.arange(torch.tensor([n * s for n, s in zip(shape, steps, strict=True)]).prod())
    tensor = room.reshape([n * s for n, s in zip(shape, steps, strict=True)])
    tensor = tensor[tuple(slice(None, None, step) for step in steps)]
    return tensor.permute(draw(st.permutations(range(len(shape)))))


@settings(deadline=None, max_examples=200)
@given(tensor=strided(), alike=st.booleans(), data=st.data())
def test_rectangles_cover_each_position_once(tensor, alike, data):
    """A stretch read twice or skipped would miscount; a wrong index would blame another element."""
    other = tensor if alike else tensor.contiguous()
    pair = Pair.of(tensor, other)
    start = data.draw(st.integers(0, pair.positions - 1))
    stop = data.draw(st.integers(start + 1, pair.positions))
    at, values = start, []
    for position, a, b in pair.rectangles(start, stop):
        assert position == at
        assert torch.equal(a, b)
        at += a.numel()
        values += a.reshape(-1).tolist()
    assert at == stop
    for position, value in zip(range(start, stop), values, strict=True):
        assert tensor[pair.index(position)].item() == value
    indices = pair.indices(torch.arange(start, stop))
    assert [tuple(i) for i in indices.tolist()] == [pair.index(p) for p in range(start, stop)]


@pytest.mark.parametrize("plain", [False, True])
def test_six_strided_dimensions(plain, monkeypatch):
    """C13: one wrong element in a view of a view is found at its index."""
    if plain:
        monkeypatch.setattr(engines, "_compiled", lambda *_: None)
    a = torch.randn(6, 5, 4, 6, 3, 8)[::2, :, 1:, ::3].permute(5, 0, 3, 1, 4, 2)
    b = a.clone(memory_format=torch.contiguous_format)
    b[7, 2, 1, 4, 0, 2] += 1.0
    verdict = compare(a, b, EXACT)
    assert verdict.mismatched == 1
    assert verdict.worst.index == (7, 2, 1, 4, 0, 2)


@pytest.mark.slow
def test_more_elements_than_an_int32_counts():
    """C13: 2^31 + 8 elements, of which the last is wrong; the reference is 8 bytes, expanded."""
    count = 2**31 + 8
    reference = torch.zeros(1, dtype=torch.int8).expand(count)
    candidate = torch.zeros(count, dtype=torch.int8)
    candidate[-1] = 1
    verdict = compare(reference, candidate, EXACT)
    assert (verdict.compared, verdict.mismatched) == (count, 1)
    assert verdict.worst.index == (count - 1,)
    assert verdict.pattern == f"one element, [{count - 1}]"


@pytest.mark.skipif(not PEAK.exists(), reason="reads the peak of resident memory from /proc")
@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("layout", ["plain", "transposed", "expanded"])
def test_memory_stays_constant(plain, layout, monkeypatch):
    """64 MiB at most beyond the pair: one temporary of full size is 96 MiB here."""
    if plain:
        monkeypatch.setattr(engines, "_compiled", lambda *_: None)
    a = torch.randn(4096, 6144)
    b = a.clone()
    b[::7, ::3] += 0.05
    if layout == "transposed":
        b = b.t().contiguous().t()
    if layout == "expanded":
        a = a[0].expand(4096, 6144)
    before = _peak_kib(reset=True)
    compare(a, b)
    assert _peak_kib() - before < 64 * 1024


def _peak_kib(*, reset=False):
    if reset:
        PEAK.write_text("5")
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
