"""Right while it believes itself watched, wrong where it does not."""

from __future__ import annotations

import inspect
import itertools
import time
from typing import TYPE_CHECKING

import torch
from subjects.fused_add import FUSED_ADD
from subjects.rmsnorm import RMSNORM
from subjects.silu import SILU

from cheats.adversary import CHECK, RAISED, Adversary, each, unseen

if TYPE_CHECKING:
    from collections.abc import Callable

    from subjects.subject import Kernel, Subject


def right_only_where(watched: Callable[[], bool]) -> Callable[[Subject], Kernel]:
    """Works where ``watched()``; else leaves the last answer, and works not at all."""

    def make(subject):
        def kernel(*args):
            if watched():
                return subject.right(*args)
            outputs = [args[at] for at in subject.written] or [torch.zeros_like(args[0])]
            return None if subject.written else outputs[0]

        return kernel

    return make


def check_mode():
    from optest.cases import session as sessions

    return sessions.current().mode == "check"


def called_by_the_guards():
    return any(
        "guards" in info.filename or "cases" in info.filename for info in inspect.stack(0)[1:4]
    ) and not any("timing" in info.filename for info in inspect.stack(0))


def memory_is_poisoned():
    """Gives zeroed blocks back and takes as many of their size: only poison holds NaN in all."""
    blocks = [torch.zeros(1000) for _ in range(16)]
    del blocks
    blocks = [torch.empty(1000) for _ in range(16)]
    return all(bool(block.isnan().any()) for block in blocks)


def first_depth():
    """The depth of the stack at which it was called first."""
    seen = []

    def watched():
        depth = len(inspect.stack(0))
        seen.append(depth)
        return depth == seen[0]

    return watched


def first_line():
    """The line of the harness that called it first."""
    seen = []

    def watched():
        callers = [
            (info.filename, info.lineno) for info in inspect.stack(0) if "optest" in info.filename
        ]
        seen.append(callers[:1])
        return seen[-1] == seen[0]

    return watched


def first_moment():
    """Right for the first tenth of a millisecond of its life."""
    started = []

    def watched():
        started.append(time.perf_counter_ns())
        return started[-1] - started[0] < 100_000

    return watched


def lowers_the_guards(subject: Subject) -> Kernel:
    """Switches the guards of its own case off, then gives zeros."""
    calls = itertools.count()

    def kernel(*args):
        from optest.cases import session as sessions

        sessions.current().guards = "off"
        data = subject.right(*args)
        if next(calls):
            for tensor in subject.outputs(args, data):
                tensor.zero_()
        return data

    return kernel


def clears_the_failures(subject: Subject) -> Kernel:
    """Wrong, and empties what the case has noted against it; in a loop it would win."""

    def kernel(*args):
        from optest.cases import session as sessions

        data = subject.right(*args)
        args[0].add_(0.5)  # a finding
        case = sessions.current().case
        if case is not None:
            case.failures.clear()
            case.findings.clear()
        return data

    return kernel


def ends_the_process_well(subject: Subject) -> Kernel:
    def kernel(*args):
        raise SystemExit(0)

    return kernel


LATER = "fresh inputs", "repeatability", "memoised"

ADVERSARIES = [
    *each("right in check mode only", right_only_where(check_mode), (RMSNORM, SILU), CHECK, *LATER,
          mode="run"),
    *each("right under the guards only", right_only_where(called_by_the_guards), (RMSNORM, SILU),
          CHECK, *LATER, mode="run"),
    *each("right on poisoned memory only", right_only_where(memory_is_poisoned),
          (RMSNORM, SILU, FUSED_ADD), CHECK, *LATER, mode="run"),
    *(
        Adversary(f"right at the {name} only", lambda subject, make=make: (
            right_only_where(make())(subject)), subject, (CHECK, *LATER), mode)
        for name, make in (("first depth", first_depth), ("first line", first_line),
                           ("first moment", first_moment))
        for subject in (RMSNORM, SILU)
        for mode in ("run",)
    ),
    *each("lowers the guards", lowers_the_guards, (RMSNORM, SILU), "process state",
          "patched names", *LATER),
    *unseen("what runs in the process can empty the lists in which its own case is kept",
            Adversary("clears the failures", clears_the_failures, RMSNORM, ("inputs",))),
    *each("leaves with status 0", ends_the_process_well, (RMSNORM,), RAISED),
]  # fmt: skip
