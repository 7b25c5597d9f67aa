"""Names replaced that the harness or the test goes by."""

from __future__ import annotations

import builtins
import random
import time
from typing import TYPE_CHECKING

import numpy as np
import torch
from subjects import rmsnorm as rmsnorm_test
from subjects.fused_add import FUSED_ADD
from subjects.rmsnorm import RMSNORM
from subjects.silu import SILU
from torch.overrides import TorchFunctionMode, _get_current_function_mode

import optest.cases.check
import optest.cases.perftest
import optest.cases.session
import optest.checking
import optest.checking.compare
import optest.checking.verdict
import optest.tensors
import optest.test_common
import optest.timing
from cheats import undo
from cheats.adversary import Adversary

if TYPE_CHECKING:
    from collections.abc import Callable

    from subjects.subject import Kernel, Subject


def patches(
    owner: object, name: str, value: object, *, then: Callable[[torch.Tensor], object] | None = None
) -> Callable[[Subject], Kernel]:
    """Replaces ``owner.name`` in its first call; what it makes is right, or spoilt by ``then``."""

    def make(subject):
        patched = []

        def kernel(*args):
            if not patched:
                undo.replace(owner, name, value)
                patched.append(name)
            data = subject.right(*args)
            if then is not None:
                for tensor in subject.outputs(args, data):
                    then(tensor)
            return data

        return kernel

    return make


def agreeing(*args, **kwargs):
    return True


def slowed(clock):
    """A clock that goes ten times slower from now on."""
    start = clock()
    return lambda: start + type(start)((clock() - start) / 10)


def passes(a, b, *args, **kwargs):
    return 0.0


def zeroed(tensor: torch.Tensor) -> None:
    tensor.zero_()


class NoEvent:
    """A device event between which no time passes."""

    def __init__(self, **options):
        self.options = options

    def record(self, stream=None):
        pass

    def elapsed_time(self, other):
        return 0.001


def replaces_the_reference(subject: Subject) -> Kernel:
    """Right at first; then zeros, and a reference that agrees."""
    calls = []

    def kernel(x, weight):
        calls.append(1)
        if len(calls) == 1:
            undo.replace(rmsnorm_test, "run_torch", lambda x, weight: torch.zeros_like(x))
            return subject.right(x, weight)
        return torch.zeros_like(x)

    return kernel


def random_inputs_zeroed(subject: Subject) -> Kernel:
    """Right at first; then the inputs are zero, and so is the answer."""
    calls = []

    def kernel(*args):
        calls.append(1)
        if len(calls) == 1:
            undo.replace(torch, "randn", torch.zeros)
            return subject.right(*args)
        return torch.zeros_like(args[0])

    return kernel


class Agreeing(TorchFunctionMode):
    """Every comparison through torch's functions agrees."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func in (torch.allclose, torch.equal):
            return True
        return func(*args, **(kwargs or {}))


def leaves_a_mode(subject: Subject) -> Kernel:
    """Right, and leaves a function mode on that sees every call of torch after it."""
    entered = []

    def kernel(*args):
        data = subject.right(*args)
        if not entered:
            mode = Agreeing()
            mode.__enter__()
            entered.append(mode)
            undo.later(lambda: _get_current_function_mode() is mode and mode.__exit__(*[None] * 3))
        return data

    return kernel


CLOCKS = [
    (time, "perf_counter"),
    (time, "perf_counter_ns"),
    (time, "monotonic"),
    (time, "time"),
]
COMPARISONS = [
    (torch, "allclose", agreeing),
    (torch, "isclose", lambda a, b, **_: torch.ones_like(a, dtype=torch.bool)),
    (torch, "equal", agreeing),
    (torch.testing, "assert_close", lambda *args, **kwargs: None),
    (np, "allclose", agreeing),
    (np.testing, "assert_allclose", lambda *args, **kwargs: None),
    (optest.test_common, "checkAllclose", passes),
    (rmsnorm_test, "checkAllclose", passes),
    (optest.cases.check, "checkAllclose", passes),
    (optest.cases.check, "compare", passes),
    (optest.checking, "compare", passes),
]
METHODS = [
    ("__eq__", lambda self, other: torch.ones(self.shape, dtype=torch.bool)),
    ("isnan", lambda self: torch.zeros(self.shape, dtype=torch.bool)),
    ("abs", lambda self: torch.zeros_like(self)),
    ("clone", lambda self, **_: self),
    ("all", lambda self, *args: torch.tensor(True)),
    ("copy_", lambda self, other, **_: self),
]
HARNESS = [
    (optest.cases.session.Session, "note_check", lambda self, verdict, reason: None),
    (optest.cases.session.Session, "note_failure", lambda self, reason: None),
    (optest.cases.session.Session, "note_finding", lambda self, finding: None),
    (optest.checking.verdict.Verdict, "passed", property(agreeing)),
    (optest.tensors, "same_bytes", agreeing),
]
NAMED = ("patched names",)

ADVERSARIES = [
    *(
        Adversary(
            f"replaces time.{name}", patches(owner, name, slowed(getattr(owner, name))), RMSNORM,
            NAMED, mode,
        )
        for owner, name in CLOCKS
        for mode in ("check", "run")
    ),
    Adversary("replaces time.perf_counter_ns",
              patches(time, "perf_counter_ns", slowed(time.perf_counter_ns)), SILU, NAMED),
    Adversary("replaces torch.cuda.Event", patches(torch.cuda, "Event", NoEvent), RMSNORM, NAMED),
    Adversary("replaces torch.cuda.synchronize",
              patches(torch.cuda, "synchronize", lambda *_: None), RMSNORM, NAMED),
    *(
        Adversary(f"replaces {getattr(owner, '__name__', owner)}.{name}",
                  patches(owner, name, value, then=zeroed), RMSNORM, NAMED)
        for owner, name, value in COMPARISONS
    ),
    Adversary("replaces torch.allclose", patches(torch, "allclose", agreeing, then=zeroed),
              FUSED_ADD, NAMED),
    *(
        Adversary(f"replaces Tensor.{name}", patches(torch.Tensor, name, value), RMSNORM, NAMED)
        for name, value in METHODS
    ),
    *(
        Adversary(f"replaces optest's {name}", patches(owner, name, value), RMSNORM, NAMED)
        for owner, name, value in HARNESS
    ),
    Adversary("replaces max", patches(builtins, "max", lambda *a, most=max, **k: most(*a, **k)),
              RMSNORM, NAMED),
    Adversary("leaves a function mode", leaves_a_mode, RMSNORM, (*NAMED, "process state")),
    Adversary("replaces torch.manual_seed",
              patches(torch, "manual_seed", lambda seed: None), RMSNORM, NAMED),
    Adversary("replaces random.random", patches(random, "random", lambda: 0.5), RMSNORM, NAMED),
    Adversary("replaces the reference", replaces_the_reference, RMSNORM,
              (*NAMED, "reference", "fresh inputs", "repeatability")),
    Adversary("zeroes later random inputs", random_inputs_zeroed, RMSNORM,
              (*NAMED, "fresh inputs", "repeatability")),
]  # fmt: skip
