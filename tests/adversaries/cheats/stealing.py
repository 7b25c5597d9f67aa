"""The reference taken from where the harness or the test keeps it."""

from __future__ import annotations

import gc
import inspect
import sys
import threading
import types
from typing import TYPE_CHECKING

import torch
from subjects import fused_add as fused_add_test
from subjects import rmsnorm as rmsnorm_test
from subjects import silu as silu_test
from subjects.fused_add import FUSED_ADD
from subjects.rmsnorm import RMSNORM, RMSNORM_BUNDLED, RMSNORM_CLOSURE, RMSNORM_GLOBAL
from subjects.silu import SILU

from aiter_ref import activation, norm
from cheats import undo
from cheats.adversary import Adversary, each, unseen

if TYPE_CHECKING:
    from collections.abc import Callable

    from subjects.subject import Kernel, Subject


def stealing(find: Callable[[tuple], object]) -> Callable[[Subject], Kernel]:
    """Hands out what ``find`` finds, a tensor or several, as its own."""

    def make(subject):
        # Not the subject: what a kernel can reach from its own closure it has not stolen.
        written = subject.written

        def kernel(*args):
            found = find(args)
            wants = found if isinstance(found, tuple) else (found,)
            if not written:
                return wants[0].clone()
            for at, want in zip(written, wants, strict=True):
                args[at].copy_(want)
            return None

        return kernel

    return make


def in_frames(args):
    """A local variable of a caller that is called want or wants."""
    frame = sys._getframe(1)
    while frame is not None:
        for name in ("want", "wants"):
            if name in frame.f_locals:
                return frame.f_locals[name]
        frame = frame.f_back
    raise LookupError("no reference in any frame")


def in_stack(args):
    for info in inspect.stack():
        found = info.frame.f_locals
        if "want" in found:
            return found["want"]
    raise LookupError("no reference on the stack")


def on_heap(args):
    """Of all tensors in the process the one whose first row is right: one row is cheap to make."""
    x, weight = args
    row = rmsnorm_test.right(x[:1], weight)
    for value in gc.get_objects():
        alike = type(value) is torch.Tensor and value.shape == x.shape and value.dtype == x.dtype
        if alike and value is not x and torch.allclose(value[:1], row, rtol=1e-4, atol=1e-5):
            return value
    return torch.zeros_like(x)


def by_referrers(args):
    for holder in gc.get_referrers(args[0]):
        if isinstance(holder, dict) and "want" in holder:
            return holder["want"]
    return torch.zeros_like(args[0])


def in_globals(args):
    return sys.modules["subjects.rmsnorm"].WANT


def calls_run_torch(test):
    return lambda args: test.run_torch(*args)


def calls_run_torch_of_the_caller(args):
    frame = sys._getframe(1)
    while "run_torch" not in frame.f_globals:
        frame = frame.f_back
    return frame.f_globals["run_torch"](*args)


def a_copy_of_run_torch(args):
    """Another function object with the reference's code."""
    original = rmsnorm_test.run_torch
    return types.FunctionType(original.__code__, original.__globals__)(*args)


def silu_reference(args):
    return silu_test.run_torch(args[0])


def fused_add_reference(args):
    return fused_add_test.run_torch(*args)


def overwrites_reference(subject: Subject) -> Kernel:
    """Finds the reference and makes it agree, which is less work than the operator."""

    def kernel(*args):
        in_frames(args).zero_()
        return torch.zeros_like(args[0])

    return kernel


def on_a_thread(find):
    """The same on a thread of its own, where a hook of this thread does not look."""

    def found(args):
        held = []
        thread = threading.Thread(target=lambda: held.append(find(args)))
        thread.start()
        thread.join()
        return held[0]

    return found


def behind_a_hook(find):
    """Takes the place of the profiler's hook first, so that nobody else's can be there."""

    def found(args):
        undo.later(lambda: sys.setprofile(None))
        sys.setprofile(lambda *_: None)
        return find(args)

    return found


def unless_watched(subject: Subject) -> Kernel:
    """Calls the reference where no hook is installed; else hands out what it had last."""
    last = []

    def kernel(*args):
        if sys.getprofile() is None or not last:
            last[:] = [rmsnorm_test.run_torch(*args)]
        return last[0]

    return kernel


# What is stolen does not follow the inputs either.
TAKEN = "fresh inputs", "reference", "memoised"

ADVERSARIES = [
    *each("reads the callers' frames", stealing(in_frames), (RMSNORM, SILU, FUSED_ADD), *TAKEN),
    *each("reads the callers' frames", stealing(in_frames), (RMSNORM,), *TAKEN, mode="run"),
    *each("reads inspect.stack", stealing(in_stack), (RMSNORM, RMSNORM_CLOSURE), *TAKEN),
    *each("searches the heap", stealing(on_heap), (RMSNORM, RMSNORM_CLOSURE), *TAKEN),
    *each("asks who holds the input", stealing(by_referrers), (RMSNORM_BUNDLED,), *TAKEN),
    *each("reads the test's globals", stealing(in_globals), (RMSNORM_GLOBAL,), *TAKEN),
    *each("calls run_torch", stealing(calls_run_torch(rmsnorm_test)), (RMSNORM,), "reference"),
    *each("calls run_torch", stealing(silu_reference), (SILU,), "reference"),
    *each("calls run_torch", stealing(fused_add_reference), (FUSED_ADD,), "reference"),
    *each(
        "calls the caller's run_torch",
        stealing(calls_run_torch_of_the_caller),
        (RMSNORM, RMSNORM_CLOSURE),
        "reference",
    ),
    *each("calls run_torch's code", stealing(a_copy_of_run_torch), (RMSNORM,), "reference"),
    *each("overwrites the reference", overwrites_reference, (RMSNORM,), *TAKEN),
    *each(
        "calls run_torch on a thread",
        stealing(on_a_thread(calls_run_torch(rmsnorm_test))),
        (RMSNORM,),
        "reference",
    ),
    *each(
        "calls run_torch behind a hook",
        stealing(behind_a_hook(calls_run_torch(rmsnorm_test))),
        (RMSNORM,),
        "reference",
        "process state",
        "patched names",
    ),
    *unseen(
        "it looks for the hook that watches it, and hands out what it has while it is there",
        Adversary("calls run_torch unless watched", unless_watched, RMSNORM, TAKEN),
    ),
    Adversary(
        "calls aiter_ref",
        stealing(lambda args: norm.rmsnorm(*args, rmsnorm_test.EPS)),
        RMSNORM,
        ("reference",),
    ),
    Adversary(
        "calls aiter_ref",
        stealing(lambda args: activation.silu_and_mul(args[0])),
        SILU,
        ("reference",),
    ),
]
