"""Poison that waits: pages that nobody has touched get it when asked for, and no others change."""

from __future__ import annotations

import contextlib
import os
import resource
import sys

import pytest
import torch

from optest import native
from optest.guards import memory, poison
from optest.sweep import processes

pytestmark = [
    pytest.mark.skipif(not native.available(), reason=str(native.why_not())),
    pytest.mark.skipif(sys.platform != "linux", reason="Linux alone says which pages exist"),
    pytest.mark.usefixtures("nothing_before"),
]
MIB = 1 << 20
LARGE = 64 * MIB  # more than the C library keeps: fresh from the system each time


def waiting(nbytes=LARGE):
    with poison.fresh_memory_poisoned(waits=True):
        return torch.empty(nbytes, dtype=torch.uint8)


def share_poisoned(block):
    return float((block == poison.BUFFERS).float().mean())


@contextlib.contextmanager
def no_more_files():
    """Nothing can be opened, /proc/self/pagemap neither."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_pages_are_not_met_before_they_are_used():
    before = processes.resident_bytes([os.getpid()])
    block = waiting()
    assert processes.resident_bytes([os.getpid()]) - before < LARGE / 4
    poison.settle()
    assert processes.resident_bytes([os.getpid()]) - before > LARGE * 3 / 4
    assert share_poisoned(block) == 1.0


@pytest.mark.parametrize("extra", [-1, 0, 1, 4095, 4097])
@pytest.mark.parametrize("nbytes", [8 * MIB, 9 * MIB, LARGE])
def test_all_of_a_block_is_poisoned_whether_its_pages_are_new_or_not(nbytes, extra):
    for _ in range(3):  # the C library keeps what was freed, from some size on
        block = waiting(nbytes + extra)
        poison.settle()
        assert share_poisoned(block) == 1.0
        block.fill_(0x11)
        del block
    assert memory.damages() == []


def test_small_blocks_do_not_wait():
    assert share_poisoned(waiting(8 * MIB - 1)) == 1.0


def test_what_was_written_meanwhile_stays():
    block = waiting()
    written = torch.randint(0, LARGE // 8, (100,))  # a page may be of 2 MiB
    block[written] = 0x11
    block[LARGE // 3 : LARGE // 2] = 0x22
    poison.settle()
    assert bool((block[written] == 0x11).all())
    assert bool((block[LARGE // 3 : LARGE // 2] == 0x22).all())
    assert set(block.unique().tolist()) <= {0, poison.BUFFERS, 0x11, 0x22}
    assert share_poisoned(block) > 0.5  # all else but pages that were touched
    assert memory.damages() == []


def test_what_was_read_meanwhile_is_not_taken_for_new():
    block = waiting()
    assert int(block[LARGE // 2]) == 0
    poison.settle()
    assert int(block[LARGE // 2]) == 0
    assert share_poisoned(block) > 0.9


def test_a_block_is_settled_once():
    block = waiting()
    poison.settle()
    block.zero_()
    poison.settle()
    assert share_poisoned(block) == 0.0


def test_a_freed_block_owes_nothing():
    freed, kept = waiting(), waiting()
    del freed
    poison.settle()
    assert share_poisoned(kept) == 1.0


def test_where_the_system_does_not_say_nothing_waits():
    waiting(1)  # builds and installs the allocator
    with no_more_files():
        block = waiting()
    assert share_poisoned(block) == 1.0


def test_the_candidates_own_memory_never_waits():
    with poison.fresh_memory_poisoned(waits=True), poison.fresh_memory_poisoned(poison.FIRST):
        assert bool(torch.empty(LARGE // 4).isnan().all())
    with poison.fresh_memory_poisoned():
        assert share_poisoned(torch.empty(LARGE, dtype=torch.uint8)) == 1.0
