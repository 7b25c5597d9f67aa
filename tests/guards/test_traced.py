"""A candidate that runs the reference, or searches the stack or the heap."""

from __future__ import annotations

import functools
import gc
import inspect
import logging
import sys
import threading
import types
import warnings

import pytest
import torch

from optest.guards.traced import Traced

FILE = "test_traced.py"
X = torch.arange(8.0)


def run_torch(x):
    return x * 2


def run_torch_quant(x):
    return x * 2


def ref_topk(x):
    return x * 2


def quant_ref(x):
    return x * 2


def reference(x):
    return x * 2


def golden_softmax(x):
    return x * 2


def reference_shape(n):
    return (n, n)


def preferred(x):
    return x * 2


def dereference(x):
    return x * 2


def helper(x):
    return run_torch(x)


@functools.wraps(run_torch)
def run_torch_cached(*args):
    return run_torch.__wrapped__(*args) if hasattr(run_torch, "__wrapped__") else run_torch(*args)


def traced(func, call=None):
    watch = Traced(func, FILE)
    watch.call(call or (lambda: func(X)))
    return watch.finding


CALLS_IT = {
    "run_torch": lambda x: run_torch(x),
    "run_torch_…": lambda x: run_torch_quant(x),
    "ref_…": lambda x: ref_topk(x),
    "…_ref": lambda x: quant_ref(x),
    "reference": lambda x: reference(x),
    "golden_…": lambda x: golden_softmax(x),
    "by a helper": lambda x: helper(x),
    "after other work": lambda x: (torch.relu(x), sorted([3, 1]), run_torch(x))[-1],
    "and catches its error": lambda x: _tried(x),
}
HONEST = {
    "computes": lambda x: x * 2,
    "a name that only sounds so": lambda x: preferred(dereference(x)),
    "a shape by a function called so": lambda x: x.new_ones(reference_shape(2)),
    "warns": lambda x: _warned(x),
    "collects garbage": lambda x: (gc.collect(), x)[1],
    "a library that looks at frames": lambda x: (types.SimpleNamespace(a=1), _named(x))[1],
    "asks for a signature": lambda x: (inspect.signature(helper), x)[1],
}
LOOKS = {
    "sys._getframe": lambda x: (sys._getframe(1), x)[1],
    "sys._current_frames": lambda x: (sys._current_frames(), x)[1],
    "gc.get_objects": lambda x: (gc.get_objects(), x)[1],
    "gc.get_referrers": lambda x: (gc.get_referrers(x), x)[1],
    "inspect.currentframe": lambda x: (inspect.currentframe(), x)[1],
    "inspect.stack": lambda x: (inspect.stack(), x)[1],
    "inspect.getouterframes": lambda x: _outer(x),
}


def _tried(x):
    try:
        return run_torch(x)
    finally:
        pass


def _warned(x):
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        warnings.warn("slow", stacklevel=1)
    return x


def _named(x):
    from collections import namedtuple

    namedtuple("Pair", "a b")  # noqa: PYI024 - asks for its caller's frame
    return x


def _outer(x):
    error = ValueError()
    try:
        raise error
    except ValueError:
        inspect.getouterframes(error.__traceback__.tb_frame)
    return x


@pytest.mark.parametrize("func", CALLS_IT.values(), ids=CALLS_IT)
def test_the_reference_in_other_clothes_is_found(func):
    finding = traced(func)
    assert finding is not None
    assert (finding.guard, finding.declarable) == ("reference", False)
    assert "called " in finding.evidence
    assert FILE in finding.evidence


@pytest.mark.parametrize("func", LOOKS.values(), ids=LOOKS)
def test_a_look_at_the_stack_or_the_heap_is_found(func):
    finding = traced(func)
    assert finding is not None
    assert finding.guard == "reference"
    assert "searched the stack or the heap in " in finding.evidence


@pytest.mark.parametrize("func", HONEST.values(), ids=HONEST)
def test_what_honest_kernels_and_their_libraries_do_is_none(func):
    assert traced(func) is None


@pytest.mark.parametrize(
    "func",
    [run_torch, functools.partial(run_torch), functools.partial(functools.partial(run_torch))],
)
def test_a_candidate_that_is_openly_the_reference_is_a_base_line(func):
    assert traced(func) is None


def test_the_references_of_another_file_are_that_files_own():
    """A library's function named ``reference`` is no reference of this test."""
    watch = Traced(CALLS_IT["run_torch"], "test_other.py")
    watch.call(lambda: CALLS_IT["run_torch"](X))
    assert watch.finding is None


def test_every_function_of_the_shared_references_is_one(monkeypatch):
    module = types.ModuleType("aiter_ref.family")
    exec("def quantise(x):\n    return x * 2", vars(module))
    monkeypatch.setitem(sys.modules, "aiter_ref.family", module)
    finding = traced(lambda x: module.quantise(x))
    assert finding is not None
    assert "called quantise" in finding.evidence


def test_a_thread_of_the_candidates_is_watched_and_those_after_it_are_not():
    """Moved into a thread, the reference would be called out of sight."""

    def kernel(x):
        thread = threading.Thread(target=lambda: run_torch(x))
        thread.start()
        thread.join()
        return x * 2

    finding = traced(kernel)
    assert finding is not None
    assert "called run_torch" in finding.evidence
    assert threading.getprofile() is None


def test_a_function_that_is_called_like_one_of_inspects_is_none():
    def stack(x):
        return x * 2

    assert traced(lambda x: stack(x)) is None


def test_a_library_that_looks_at_the_stack_is_none():
    """Loggers and compilers ask who calls them."""
    logger = logging.getLogger("some library")
    assert traced(lambda x: (logger.warning("slow", stack_info=True), torch.stack([x]))[1]) is None
    module = types.ModuleType("some_library")
    code = compile("import inspect\ndef work():\n    inspect.stack()", inspect.__file__, "exec")
    exec(code, vars(module))
    assert traced(lambda x: (module.work(), x)[1]) is None


def test_the_first_finding_is_kept():
    finding = traced(lambda x: (run_torch(x), gc.get_objects(), ref_topk(x)))
    assert finding is not None
    assert "called run_torch " in finding.evidence


def test_what_it_returns_and_raises_comes_through_and_the_hook_is_gone():
    """A hook left in place slows down every call that is timed afterwards."""
    watch = Traced(preferred, FILE)
    assert torch.equal(watch.call(lambda: preferred(X)), X * 2)
    assert sys.getprofile() is None
    with pytest.raises(ZeroDivisionError):
        watch.call(lambda: 1 / 0)
    assert sys.getprofile() is None


def test_another_profiler_stays_at_work():
    """A test run under a coverage tool or cProfile would lose it."""
    seen = []
    hook = lambda *event: seen.append(event)
    sys.setprofile(hook)
    try:
        watch = Traced(CALLS_IT["run_torch"], FILE)
        gave = watch.call(lambda: CALLS_IT["run_torch"](X))
        kept = sys.getprofile()
    finally:
        sys.setprofile(None)
    assert watch.finding is None
    assert torch.equal(gave, X * 2)
    assert kept is hook
