"""A candidate called again: the same inputs before each call, the same bits after it."""

from __future__ import annotations

import gc
import itertools
import random
import threading
import time
import types
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from optest.guards import poison, repeat
from optest.guards.repeat import Repeats, Subject, unwritten
from optest.tensors import Snapshot, tensors_in

MOST_CALLS = 12


@pytest.fixture(scope="module", autouse=True)
def _few_objects():
    """What pytest and torch hold is not walked through at each look for cycles."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def repeats_of(func, *args, blank=(), deterministic=True, unsure=()):
    """After a first call, as a case makes it."""
    snapshot = Snapshot(tensors_in(func, args))
    with poison.fresh_memory_poisoned(poison.FIRST):
        data = func(*args)
    subject = Subject(
        func,
        (args, {}),
        lambda: None,
        snapshot,
        "test_op.py",
        blank,
        deterministic,
    )
    return Repeats(subject, data, unsure)


def findings(func, *args, **options):
    return repeats_of(func, *args, **options).findings()


def names(found):
    return [finding.guard for finding in found]


def poisoned(*shape):
    tensor = torch.empty(shape)
    poison.fill(tensor, poison.BUFFERS)
    return tensor


def print_of(tensors):
    return hash(tuple(value for tensor in tensors for value in tensor.flatten().tolist()))


class Counted:
    """A kernel, how often it was called, and prints of what its tensors held each time."""

    def __init__(self, kernel):
        self.kernel, self.given = kernel, []

    def __call__(self, *args):
        self.given.append(print_of(args))  # copies would be a leak
        return self.kernel(*args)


def value(x, y):
    return x + y


def out_parameter(x, y, out):
    return torch.add(x, y, out=out)


def writes_and_returns_nothing(x, y, out):
    torch.add(x, y, out=out)


def in_place(x, y):
    x.add_(y)


def cache(x, rows):
    rows[3] = x
    return rows.sum(0)


KERNELS = {
    "returns": (value, lambda: (torch.randn(64), torch.randn(64))),
    "out-parameter": (out_parameter, lambda: (*torch.randn(2, 64), torch.zeros(64))),
    "writes": (writes_and_returns_nothing, lambda: (*torch.randn(2, 64), torch.zeros(64))),
    "in place": (in_place, lambda: (torch.randn(64), torch.randn(64))),
    "a row of a cache": (cache, lambda: (torch.randn(64), torch.randn(8, 64))),
    "integers": (value, lambda: (torch.arange(64), torch.arange(64))),
    "views": (in_place, lambda: (torch.randn(128)[::2], torch.randn(128)[::2])),
    "complex": (value, lambda: tuple(torch.randn(2, 64, dtype=torch.complex64))),
}


@pytest.mark.parametrize(("kernel", "make"), KERNELS.values(), ids=KERNELS)
def test_an_honest_kernel_meets_the_same_inputs_and_no_finding(kernel, make):
    """In-out tensors that are not given back make the second call's result another."""
    counted, args = Counted(kernel), make()
    base = print_of(args)
    assert findings(counted, *args) == []
    # All but the one on changed inputs; a caller's output, given back, counts as well.
    assert counted.given.count(base) >= len(counted.given) - 1
    assert len(counted.given) >= 4


@pytest.mark.parametrize(("kernel", "make"), KERNELS.values(), ids=KERNELS)
def test_tensors_end_as_after_a_single_call(kernel, make):
    """The test's check would compare an in-place result that was added to five times."""
    args = make()
    once = [tensor.clone() for tensor in args]
    kernel(*once)
    findings(kernel, *args)
    assert _same(args, once)


@pytest.mark.parametrize(("kernel", "make"), KERNELS.values(), ids=KERNELS)
def test_the_number_of_calls_is_bounded(kernel, make):
    counted = Counted(kernel)
    findings(counted, *make())
    # A first call in doubt, and the second pass with its own, come on top in a case.
    assert len(counted.given) <= MOST_CALLS - 4


def _same(some, others):
    return all(torch.equal(a, b) for a, b in zip(some, others, strict=True))


# --- the same bits ---------------------------------------------------------------------


class Nth:
    """A kernel whose nth call is off by one in one element."""

    def __init__(self, nth):
        self.nth, self.calls = nth, 0

    def __call__(self, x):
        self.calls += 1
        out = x * 2
        if self.calls == self.nth:
            out[7] += 1
        return out


# Of the integer kernel's calls; none goes to a control call, for want of floats to change.
@pytest.mark.parametrize("nth", [2, 3, 4])
def test_a_later_call_with_other_bits_is_found_whichever_it_is(nth):
    (finding,) = findings(Nth(nth), torch.arange(64, dtype=torch.int32))
    assert (finding.guard, finding.declarable) == ("repeatability", True)
    assert "1 of 64 places" in finding.evidence
    assert "deterministic=False" in finding.meaning


def with_zero(x, zero):
    out = x * 2
    out[5] = zero
    return out


# By the number of the call.
WAVERING = {
    "another result": lambda x, n: x + n,
    "another shape": lambda x, n: x[n:] * 2,
    "a zero of another sign": lambda x, n: with_zero(x, 0.0 if n % 2 else -0.0),
    "in place": lambda x, n: x.add_(n + 1),
    "a tensor more": lambda x, n: [x * 2] + [x * 3] * (n % 2),
    "a tensor less": lambda x, n: [x * 2] + [x * 3] * (1 - n % 2),
    "complex": lambda x, n: torch.complex(x, x * n),
}


@pytest.mark.parametrize("kernel", WAVERING.values(), ids=WAVERING)
def test_wavering_is_told_once_unless_it_is_declared(kernel):
    for deterministic, expected in ((True, ["repeatability"]), (False, [])):
        calls = itertools.count()
        found = findings(
            lambda x, calls=calls: kernel(x, next(calls)),
            torch.randn(64),
            deterministic=deterministic,
        )
        assert names(found) == expected


@pytest.mark.parametrize("deterministic", [True, False])
@pytest.mark.parametrize("nth", [3, 4, 5])
def test_an_input_that_only_a_later_call_changes_is_found_and_given_back(nth, deterministic):
    """The first call is looked at closely; a reference made after the others would agree."""
    x, calls = torch.randn(64), []
    before = x.clone()

    def kernel(x):
        calls.append(1)
        out = x * 2
        if len(calls) == nth:
            x.zero_()
        return out

    finding = findings(kernel, x, deterministic=deterministic)[-1]
    assert finding.guard == "inputs"
    assert "a later call changed a 64 float32 tensor" in finding.evidence
    assert torch.equal(x, before)


def test_nan_in_the_same_place_is_the_same():
    assert findings(lambda x: torch.log(x - 0.5), torch.rand(64)) == []


# --- written in part -------------------------------------------------------------------


def test_what_was_left_unwritten_of_a_result_does_not_count_as_wavering():
    """Fresh memory holds what it holds; that the first call has left it so is told elsewhere."""

    def kernel(x):
        out = torch.empty(64)
        out[:32] = x * 2
        out[32:].random_()  # stands for memory that nobody wrote
        return out

    x = torch.randn(32)
    assert findings(kernel, x, unsure=[0]) == []
    assert names(findings(kernel, x)) == ["repeatability"]


def test_of_two_results_the_other_is_still_compared():
    def kernel(x):
        return torch.empty(8).random_(), x + random.random()

    assert names(findings(kernel, torch.randn(32), unsure=[0])) == ["repeatability"]
    assert names(findings(kernel, torch.randn(32), unsure=[1])) == ["repeatability"]
    assert findings(kernel, torch.randn(32), unsure=[0, 1]) == []


@pytest.mark.parametrize("written", [64, 63, 1])
def test_what_stays_blank_of_a_callers_buffer_is_counted(written):
    """A stale right answer in the rest of the buffer would pass the test's own check."""
    out, x = poisoned(64), torch.randn(64)

    def kernel(x, out):
        out[:written] = x[:written] * 2

    found = findings(kernel, x, out, blank=[out])
    if written == 64:
        assert found == []
        return
    (finding,) = found
    assert (finding.guard, finding.declarable) == ("poison", True)
    assert f"left {64 - written} of the 64 elements" in finding.evidence
    assert torch.equal(out[:written], x[:written] * 2)


def test_a_buffer_that_is_no_output_of_poison_may_be_written_in_part():
    out, x = poisoned(64), torch.randn(64)
    assert findings(lambda x, out: out[:9].copy_(x[:9]), x, out) == []


def test_a_result_that_looks_like_poison_is_none():
    """Each call finds another poison there: what holds the first and then the second was written
    by neither, and what holds the same both times was written."""
    out = poisoned(64)
    right = out.clone()
    assert findings(lambda out: out.copy_(right), out, blank=[out]) == []


def test_unwritten_words():
    finding = unwritten(3, 64)
    assert finding.evidence == "the candidate left 3 of the 64 elements of its result unwritten"
    assert "unwritten=" in finding.meaning


# --- still running ---------------------------------------------------------------------


def writes_later(seconds):
    def kernel(x):
        out = torch.zeros(64)

        def work():
            time.sleep(seconds)
            torch.mul(x, 2, out=out)

        thread = threading.Thread(target=work)
        thread.start()
        kernel.threads.append(thread)
        return out

    kernel.threads = []
    return kernel


def test_a_result_that_is_written_after_return_is_found():
    kernel = writes_later(0.02)
    found = findings(kernel, torch.randn(64), deterministic=False)
    for thread in kernel.threads:
        thread.join()
    assert names(found)[0] == "still running"
    assert "64 elements of its result changed after it had returned" in found[0].evidence
    assert not found[0].declarable


def test_a_worker_that_was_there_before_and_writes_later_is_found(monkeypatch):
    """No thread is started by the call that is watched; its result is looked at a while later."""
    looked = threading.Event()
    with ThreadPoolExecutor(1) as pool:

        def kernel(x):
            out = torch.zeros(64)

            def work():
                looked.wait(0.1)
                torch.mul(x, 2, out=out)

            kernel.done = pool.submit(work)
            return out

        def a_while(_seconds):
            looked.set()
            kernel.done.result()

        monkeypatch.setattr(repeat, "time", types.SimpleNamespace(sleep=a_while))
        found = findings(kernel, torch.randn(64), deterministic=False)
    assert "64 elements of its result changed after it had returned" in found[0].evidence


def test_the_device_is_waited_for_before_results_are_compared():
    """A launch returns at once: read too early, each result would differ from the first."""
    x, out, queue = torch.arange(64), torch.zeros(64, dtype=torch.int64), []

    def synchronize():
        while queue:
            queue.pop()()

    def launch(x, out):
        queue.append(lambda: torch.mul(x, 2, out=out))

    snapshot = Snapshot([x, out])
    launch(x, out)
    synchronize()
    subject = Subject(launch, ((x, out), {}), synchronize, snapshot, "test_op.py")
    found = Repeats(subject, None).findings()
    assert "repeatability" not in names(found)
    assert torch.equal(out, x * 2)


def test_an_output_that_is_written_after_return_is_found(monkeypatch):
    """The call has returned nothing and changed nothing yet: there is nothing to be compared."""
    x, out, sleeps = torch.randn(64), torch.zeros(64), itertools.count(1)

    def a_while(_seconds):
        if next(sleeps) == 3:
            torch.mul(x, 2, out=out)

    monkeypatch.setattr(repeat, "time", types.SimpleNamespace(sleep=a_while))
    found = findings(lambda x, out: None, x, out)
    assert names(found)[0] == "still running"
    assert "changed its outputs after it had returned" in found[0].evidence


def test_a_thread_of_every_call_that_runs_on_is_found():
    stop = threading.Event()
    threads = []

    def kernel(x):
        threads.append(threading.Thread(target=stop.wait))
        threads[-1].start()
        return x * 2

    found = findings(kernel, torch.randn(64))
    stop.set()
    for thread in threads:
        thread.join()
    assert names(found) == ["still running"]
    assert "starts a thread" in found[0].evidence


@pytest.mark.parametrize("first", [1, 2, 3])
def test_a_pool_that_starts_a_thread_once_is_none(first):
    """Torch's own pool starts on first use; it idles, and nothing changes."""
    stop, threads, calls = threading.Event(), [], []

    def kernel(x):
        calls.append(1)
        if len(calls) == first:
            threads.append(threading.Thread(target=stop.wait))
            threads[-1].start()
        return x * 2

    found = findings(kernel, torch.randn(64))
    stop.set()
    for thread in threads:
        thread.join()
    assert found == []


def test_threads_that_are_joined_are_none():
    def kernel(x):
        out = torch.zeros(64)
        thread = threading.Thread(target=lambda: torch.mul(x, 2, out=out))
        thread.start()
        thread.join()
        return out

    assert findings(kernel, torch.randn(64)) == []


# --- kept, remembered, looked for --------------------------------------------------------


def test_results_that_are_kept_are_found():
    kept = []
    found = findings(lambda x: kept.append(x.repeat(1000)) or kept[-1].clone(), torch.randn(64))
    assert names(found) == ["memory"]


def test_answers_that_are_remembered_are_found():
    kept = {}
    found = findings(lambda x: kept.setdefault(x.data_ptr(), x * 2).clone(), torch.randn(64))
    assert names(found) == ["memoised"]


def test_a_search_of_the_stack_is_found():
    import sys

    def kernel(x):
        sys._getframe(0)
        return x * 2

    assert names(findings(kernel, torch.randn(64))) == ["reference"]


def test_what_could_not_be_looked_at_is_noted():
    repeats = repeats_of(lambda x: x * 2, torch.arange(64))
    assert repeats.findings() == []
    assert "no floating-point input" in repeats.notes[0]


@pytest.mark.parametrize("nth", range(2, 6))
def test_a_candidate_that_raises_on_a_later_call_is_no_silence(nth):
    """It works on new inputs only, or once: its exception reaches the case, or a note does."""
    calls = []

    def kernel(x):
        calls.append(1)
        if len(calls) == nth:
            raise ZeroDivisionError("once only")
        return x * 2

    repeats = repeats_of(kernel, torch.randn(64))
    try:
        repeats.findings()
    except ZeroDivisionError:
        return
    assert any("ZeroDivisionError" in note for note in repeats.notes)


def test_a_buffer_that_a_candidate_does_not_write_is_left_alone():
    """Beside one that writes it stands one that allocates: its call has the buffer all the same."""
    x, y = torch.randn(64), poisoned(64)
    before = y.clone()
    assert findings(lambda x, _y: x * 2, x, y, blank=[y]) == []
    assert torch.equal(y.view(torch.int32), before.view(torch.int32))
