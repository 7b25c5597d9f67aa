"""Blocks shared out among threads.

Faults these would catch: a block that is left out or done twice, torch's number of threads changed
for good, here or in threads to come, an error that is lost, threads for what is done in no time.
"""

from __future__ import annotations

import threading

import pytest
import torch

from optest.checking import Tolerance, compare, engines
from optest.checking.workers import Workers


def threads_of_a_new_thread() -> int:
    found: list[int] = []
    other = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
    other.start()
    other.join()
    return found[0]


@pytest.fixture
def four_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("workers", [Workers(1, 4), Workers(2, 2), Workers(4, 1)])
def test_each_block_is_taken_once_with_a_share_of_torchs_threads(workers, four_threads):
    taken: list[int] = []
    shares: list[int] = []

    def work(numbers):
        for number in numbers:
            taken.append(number)
            shares.append(torch.get_num_threads())

    workers.run(work, 500)
    assert sorted(taken) == list(range(500))
    assert set(shares) == {workers.threads}
    assert (torch.get_num_threads(), threads_of_a_new_thread()) == (4, 4)


def test_an_error_is_raised_and_torchs_threads_are_given_back(four_threads):
    def work(numbers):
        next(numbers)
        raise ValueError("block 0")

    with pytest.raises(ValueError, match="block 0"):
        Workers(2, 2).run(work, 8)
    assert (torch.get_num_threads(), threads_of_a_new_thread()) == (4, 4)


def test_what_is_done_in_no_time_starts_no_thread_and_few_threads_start_no_more(four_threads):
    assert Workers.of(1 << 20) == Workers(1, 4)
    assert Workers.of(1 << 40) == Workers(4, 1)
    torch.set_num_threads(3)
    assert Workers.of(1 << 40) == Workers(3, 1)
    torch.set_num_threads(9)
    assert Workers.of(1 << 40) == Workers(4, 2)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_a_pair_of_many_blocks_is_judged_as_in_one_thread(dtype, four_threads, monkeypatch):
    monkeypatch.setattr(engines, "_compiled", lambda *_: None)
    a = torch.randn(5_000_001).to(dtype)
    b = a.clone()
    b[1_000_000::7919] *= 1.5
    b[4_999_999] = torch.nan
    shared = compare(a, b, Tolerance())
    torch.set_num_threads(1)
    alone = compare(a, b, Tolerance())
    assert shared.finding.counts == alone.finding.counts
    assert (shared.finding.max_abs, shared.status) == (alone.finding.max_abs, alone.status)
    assert [seen.index for seen in shared.finding.shown] == [
        seen.index for seen in alone.finding.shown
    ]
