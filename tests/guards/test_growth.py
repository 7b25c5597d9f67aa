"""Memory that every call leaves behind, told from what a call may well keep."""

from __future__ import annotations

import ctypes
import gc
import threading
import time

import pytest
import torch

from optest.guards import growth
from optest.guards.growth import Growth

CALLS = 3
ELEMENTS = 50_000


@pytest.fixture(scope="module", autouse=True)
def _few_objects():
    """What pytest and torch hold is not walked through at each look for cycles."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def watched(kernel):
    watch = Growth()
    for _ in range(CALLS):
        kernel()
        watch.read()
    return watch.finding(kernel)


class Kernel:
    """Keeps what it is told to keep."""

    def __init__(self):
        self.kept = []
        self.calls = 0

    def every_result(self):
        self.kept.append(torch.ones(ELEMENTS))

    def small_results(self):
        self.kept.append(torch.ones(1_000))

    def native_memory(self):
        libc = ctypes.CDLL(None)
        libc.malloc.restype = ctypes.c_void_p
        self.kept.append(libc.malloc(ctypes.c_size_t(4 * ELEMENTS)))

    def large_native_memory(self):
        # Past the threshold of mmap, where the C library counts it apart.
        libc = ctypes.CDLL(None)
        libc.malloc.restype = ctypes.c_void_p
        self.kept.append(libc.malloc(ctypes.c_size_t(64 << 20)))

    def a_view_of_every_result(self):
        self.kept.append(torch.ones(ELEMENTS)[:1])

    def nothing(self):
        return torch.ones(ELEMENTS)

    def a_workspace(self):
        if not self.kept:
            self.kept.append(torch.ones(ELEMENTS))

    def a_larger_workspace_now_and_then(self):
        self.calls += 1
        if self.calls in (1, 3):
            self.kept = [torch.ones(ELEMENTS * self.calls)]

    def the_last_result(self):
        self.kept = [torch.ones(ELEMENTS)]

    def a_counter(self):
        self.calls += 1
        self.kept.append(self.calls)

    def cycles(self):
        cycle = [torch.ones(ELEMENTS)]
        cycle.append(cycle)


LEAKS = [
    *("every_result", "small_results", "native_memory", "large_native_memory"),
    "a_view_of_every_result",
]
NONE = [
    *("nothing", "a_workspace", "a_larger_workspace_now_and_then", "the_last_result"),
    *("a_counter", "cycles"),
]


@pytest.fixture
def kernel():
    made = Kernel()
    yield made
    for pointer in made.kept:
        if isinstance(pointer, int) and pointer > CALLS + 1:
            ctypes.CDLL(None).free(ctypes.c_void_p(pointer))


@pytest.mark.parametrize("name", LEAKS)
def test_what_every_call_keeps_is_found(kernel, name):
    finding = watched(getattr(kernel, name))
    assert finding is not None
    assert (finding.guard, finding.declarable) == ("memory", False)
    assert finding.evidence.startswith(f"{CALLS} calls on the same inputs left ")


@pytest.mark.parametrize("name", NONE)
def test_what_a_call_may_keep_is_none(kernel, name):
    """A workspace made once, and cycles that wait for the collector, are honest habits."""
    assert watched(getattr(kernel, name)) is None


@pytest.mark.parametrize(("name", "calls"), [("every_result", CALLS + 4), ("cycles", CALLS + 2)])
def test_two_calls_more_are_made_where_it_looks_like_a_leak_and_two_where_it_is_one(
    kernel, name, calls
):
    made = []

    def counted():
        made.append(1)
        getattr(kernel, name)()

    watched(counted)
    assert len(made) == calls


def test_no_call_more_is_made_where_it_does_not(kernel):
    made = []
    watched(lambda: made.append(1))
    assert len(made) == CALLS


def test_the_bytes_are_those_that_were_left(kernel):
    finding = watched(kernel.every_result)
    assert finding is not None
    left = int(finding.evidence.split("left ")[1].split()[0])
    assert CALLS * ELEMENTS * 4 <= left < 1.2 * CALLS * ELEMENTS * 4


def test_a_tensor_is_counted_as_long_as_it_lives():
    before = growth.in_use()
    tensor = torch.ones(ELEMENTS)
    assert growth.in_use() - before >= 4 * ELEMENTS
    del tensor
    assert growth.in_use() - before < 4 * ELEMENTS


def test_a_c_library_that_does_not_count_is_said_once_and_nothing_found(monkeypatch, kernel):
    told = []
    monkeypatch.setattr(growth, "once", told.append)
    monkeypatch.setattr(growth.ctypes, "CDLL", lambda name: object())
    growth._mallinfo.cache_clear()
    try:
        assert watched(kernel.every_result) is None
    finally:
        growth._mallinfo.cache_clear()
    assert len(told) == 1
    assert "not watched" in told[0]


def test_what_another_thread_takes_meanwhile_is_not_the_kernels(kernel):
    """A progress display, a log that is kept: the process grows, whatever is called."""
    kept, ends = [], threading.Event()

    def takes():
        while not ends.wait(0.001):
            kept.append(torch.ones(ELEMENTS))

    def slow():
        time.sleep(0.02)
        return kernel.nothing()

    other = threading.Thread(target=takes)
    other.start()
    try:
        assert watched(slow) is None
    finally:
        ends.set()
        other.join()
    assert len(kept) > CALLS


def test_what_was_freed_is_not_in_use():
    """The C library counts a thread's cache of freed blocks as in use: a kernel's first calls
    fill it, some blocks each, and would look like a leak."""
    libc = growth._heap()
    sizes = [*range(100, 1_000, 100), 5_000, 1 << 20]
    libc_blocks = [libc.malloc(size) for size in range(24, 1_040, 16)]
    for block in libc_blocks:  # what is there is not what was there at a reading
        libc.free(block)
    before = growth.in_use()
    for block in [libc.malloc(size) for size in sizes for _ in range(6)]:
        libc.free(block)
    assert growth.in_use() - before < growth._LEAST_BYTES


def test_what_a_few_calls_leave_in_a_cache_of_freed_blocks_is_no_leak():
    libc = growth._heap()
    calls = []

    def kernel():
        calls.append(1)
        taken = [libc.malloc(size) for size in range(24, 1_040, 16) for _ in range(len(calls))]
        for block in taken:
            libc.free(block)

    # From an empty cache: seven of each size are taken out and kept meanwhile.
    held = [libc.malloc(size) for size in range(24, 1_040, 16) for _ in range(7)]
    found = watched(kernel)
    for block in held:
        libc.free(block)
    assert found is None


def test_what_a_thread_frees_as_it_ends_is_not_kept(monkeypatch):
    """A thread that was joined, in Python's eyes, goes on for a moment."""
    monkeypatch.setattr(growth, "_THREADS_END_S", 0.3)

    def call():
        block = torch.empty(1 << 16)
        threading.Timer(0.01, block.untyped_storage().resize_, (0,)).start()

    call()  # the first thread makes an arena
    time.sleep(0.3)
    assert growth._kept_beyond_cycles(call) < growth._LEAST_BYTES
