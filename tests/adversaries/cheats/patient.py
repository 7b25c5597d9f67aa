"""Honest as long as a guard would look; the trick begins with the calls that are timed."""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING

import torch
from subjects.fused_add import FUSED_ADD
from subjects.rmsnorm import RMSNORM, RMSNORM_REFERENCE_LAST
from subjects.silu import SILU

from cheats import lazy, memory, running, state
from cheats.adversary import CHECK, Adversary, each
from cheats.patching import patches, slowed
from cheats.stealing import in_frames, stealing

if TYPE_CHECKING:
    from collections.abc import Callable

    from subjects.subject import Kernel, Subject

HONEST_CALLS = 13  # one more than full guards may make


def patient(make: Callable[[Subject], Kernel]) -> Callable[[Subject], Kernel]:
    """The right kernel at first, what ``make`` gives from then on."""

    def made(subject):
        calls, cheat = itertools.count(), make(subject)

        def kernel(*args):
            chosen = subject.right if next(calls) < HONEST_CALLS else cheat
            return chosen(*args)

        return kernel

    return made


def run(name: str, make, subjects: tuple[Subject, ...], *expected: str) -> list[Adversary]:
    return each(f"once timed, {name}", patient(make), subjects, *expected, mode="run")


STATE = "process state"
ADVERSARIES = [
    *run("zeroes the input", memory.overwrites_x, (RMSNORM_REFERENCE_LAST,), "inputs", "memoised"),
    *run("changes one element of the input", memory.changes_input(memory.one_element), (SILU,),
         "inputs"),
    *run("the result in the input's memory", memory.returns_view, (RMSNORM,), "alias", "inputs"),
    *run("writes past the end", memory.overrun(0, 1), (RMSNORM, SILU, FUSED_ADD), "guard bytes"),
    *run("half written", memory.unwritten(lambda y: y[: len(y) // 2]), (RMSNORM, SILU, FUSED_ADD),
         "poison", "memoised", CHECK),
    *run("points the buffer elsewhere", memory.other_memory, (SILU,), "alias", "inputs"),
    *run("a subclass that does nothing", lazy.named, (RMSNORM,), "plain tensors"),
    *run("memory filled at the first look", lazy.filled, (RMSNORM,), "plain tensors"),
    *run("a thread writes later", running.late, (SILU,), "still running", "memoised",
         "fresh inputs", CHECK),
    *run("slows the clock", patches(time, "perf_counter_ns", slowed(time.perf_counter_ns)),
         (RMSNORM, SILU), "patched names"),
    *run("replaces torch.allclose", patches(torch, "allclose", lambda *_, **__: True), (RMSNORM,),
         "patched names"),
    *run("sets the threads", state.changing(lambda: torch.set_num_threads(1)), (RMSNORM,), STATE),
    *run("sets the default dtype", state.changing(lambda: torch.set_default_dtype(torch.float64)),
         (SILU,), STATE),
    *run("reseeds torch", state.changing(lambda: torch.manual_seed(0)), (RMSNORM,), "random state"),
    *run("reads the callers' frames", stealing(in_frames), (RMSNORM, SILU), "reference",
         "memoised"),
]  # fmt: skip
