"""Right results, and a process that is no longer what it was."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import numpy as np
import torch
from subjects.rmsnorm import RMSNORM
from subjects.silu import SILU

from cheats import undo
from cheats.adversary import Adversary

if TYPE_CHECKING:
    from collections.abc import Callable

    from subjects.subject import Kernel, Subject


def changing(
    change: Callable[[], object], *, first_only: bool = False
) -> Callable[[Subject], Kernel]:
    """Right, and changes something; every time, or in the first call alone."""

    def make(subject):
        calls = []

        def kernel(*args):
            data = subject.right(*args)
            if not (first_only and calls):
                change()
            calls.append(1)
            return data

        return kernel

    return make


def flush_denormal():
    torch.set_flush_denormal(True)
    undo.later(lambda: torch.set_flush_denormal(False))


def no_mkldnn():
    undo.later(lambda: torch._C._set_mkldnn_enabled(True))
    torch._C._set_mkldnn_enabled(False)


PROCESS = ("process state",)
NUMBERS = ("random state",)
CHANGES = [
    ("sets the default dtype", lambda: torch.set_default_dtype(torch.float64), PROCESS),
    ("sets the threads", lambda: torch.set_num_threads(1), PROCESS),
    ("switches gradients off", lambda: torch._C._set_grad_enabled(False), PROCESS),
    ("sets the default device", lambda: torch.set_default_device("meta"), PROCESS),
    (
        "asks for deterministic algorithms",
        lambda: torch.use_deterministic_algorithms(True),
        PROCESS,
    ),
    ("lowers the matmul precision", lambda: torch.set_float32_matmul_precision("medium"), PROCESS),
    ("sets OMP_NUM_THREADS", lambda: os.environ.update(OMP_NUM_THREADS="1"), PROCESS),
    ("sets OPTEST_GUARDS", lambda: os.environ.update(OPTEST_GUARDS="off"), PROCESS),
    ("changes the folder", lambda: os.chdir("/"), PROCESS),
    ("flushes denormals", flush_denormal, PROCESS),
    ("switches oneDNN off", no_mkldnn, PROCESS),
    ("reseeds torch", lambda: torch.manual_seed(0), NUMBERS),
    ("draws from torch's generator", lambda: torch.rand(1), NUMBERS),
    ("reseeds numpy", lambda: np.random.seed(0), NUMBERS),
    ("draws from numpy's generator", lambda: np.random.rand(), NUMBERS),
    ("reseeds random", lambda: random.seed(0), NUMBERS),
    ("draws from random", random.random, NUMBERS),
]

ADVERSARIES = [
    *(Adversary(name, changing(change), RMSNORM, expected) for name, change, expected in CHANGES),
    Adversary("reseeds torch", changing(lambda: torch.manual_seed(0)), SILU, NUMBERS),
    Adversary("reseeds torch", changing(lambda: torch.manual_seed(0)), RMSNORM, NUMBERS, "run"),
    Adversary(
        "sets the threads", changing(lambda: torch.set_num_threads(1)), RMSNORM, PROCESS, "run"
    ),
    Adversary(
        "sets the threads in the first call",
        changing(lambda: torch.set_num_threads(1), first_only=True),
        SILU,
        PROCESS,
    ),
]
