"""What timers stand on: known durations, operators that do nothing, a flush of all memory."""

from __future__ import annotations

import statistics
import time

import pytest
import torch

from optest import native


@pytest.fixture(scope="module")
def ops():
    return native.csrc("harness")


def elapsed_us(call) -> float:
    begin = time.perf_counter_ns()
    call()
    return (time.perf_counter_ns() - begin) / 1e3


@pytest.mark.parametrize("us", [20.0, 200.0, 2000.0])
def test_spin_takes_its_time(ops, us):
    """Never less, and in the fastest of many calls hardly more; Python's part is the no-op's."""
    samples = [elapsed_us(lambda: ops.spin(us)) for _ in range(60)]
    floor = statistics.median(elapsed_us(lambda: ops.noop_us(us)) for _ in range(200))
    assert us <= min(samples) <= us + 10 * floor + 20


def test_spin_on_a_tensor_matches_its_noop(ops):
    x = torch.zeros(3)
    assert elapsed_us(lambda: ops.spin_on(x, 300.0)) >= 300.0
    assert ops.noop_on(x, 300.0) is None
    assert ops.noop(x) is None


@pytest.mark.parametrize("us", [-1.0, float("nan"), 1e9])
def test_impossible_durations_are_named(ops, us):
    with pytest.raises(ValueError, match=r"us is .*expected microseconds"):
        ops.spin(us)


@pytest.mark.parametrize("nbytes", [0, 1, 4097, 300_000])
def test_flush_gives_every_page_memory_of_its_own(ops, nbytes):
    """Pages that are only read stay the system's one page of zeros: nothing leaves the cache."""
    room = torch.zeros(nbytes + 8, dtype=torch.uint8)
    buffer = room[:nbytes]
    ops.flush(buffer)
    assert torch.equal(buffer[::4096], torch.ones_like(buffer[::4096]))
    assert room.sum() == len(buffer[::4096])


def test_flush_wants_dense_memory(ops):
    with pytest.raises(ValueError, match="buffer has strides"):
        ops.flush(torch.zeros(10, 10)[:, ::2])


def test_flush_says_that_it_writes(ops):
    assert ops.flush.default._schema.arguments[0].alias_info.is_write
