"""Answers remembered, and found again by something cheaper than the work."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import torch
from subjects.fused_add import FUSED_ADD
from subjects.kv_cache import KV_CACHE
from subjects.quant import QUANT
from subjects.rmsnorm import RMSNORM, RMSNORM_CLOSURE
from subjects.silu import SILU
from subjects.sort import SORT

from cheats.adversary import Adversary, each

if TYPE_CHECKING:
    from collections.abc import Callable

    from subjects.subject import Kernel, Subject


def memoised(key: Callable[[torch.Tensor], object]) -> Callable[[Subject], Kernel]:
    """A kernel that works once for every ``key`` of its first argument."""

    def make(subject):
        seen = {}

        def kernel(*args):
            found = key(args[0])
            if found not in seen:
                seen[found] = subject.answer(args)
            return seen[found].replay(args)

        return kernel

    return make


def ends(x):
    flat = x.reshape(-1)
    return flat[:4].tolist(), flat[-4:].tolist()


def few(x):
    return float(x.reshape(-1)[:: x.numel() // 7].sum())


def borders(x):
    return str([x[0].tolist(), x[-1].tolist(), x[:, 0].tolist(), x[:, -1].tolist()])


def everything(x):
    """Not one float's bits go unseen: two inputs with one key are one in billions."""
    values = x.numpy()
    return float(values.sum()), float(values[::2].sum())


def to_text(key):
    return lambda x: str(key(x))


def in_bytes(subject: Subject) -> Kernel:
    """Remembers in a bytes object, where nobody who looks for tensors finds it."""
    kept = {}

    def kernel(*args):
        key = tuple(args[0].shape)
        if key not in kept:
            data = subject.right(*args)
            kept[key] = [t.numpy().tobytes() for t in subject.outputs(args, data)]
            return data
        outputs = [args[at] for at in subject.written] or [torch.empty_like(args[0])]
        for out, raw in zip(outputs, kept[key], strict=True):
            out.copy_(torch.frombuffer(bytearray(raw), dtype=out.dtype).view(out.shape))
        return None if subject.written else outputs[0]

    return kernel


def by_count(subject: Subject) -> Kernel:
    """The n-th call of a run gets the n-th answer of the first run, whatever it is asked."""
    answers, calls = [], itertools.count()

    def kernel(*args):
        if next(calls) % 8 == 0 or not answers:
            answers.append(subject.answer(args))
        return answers[0].replay(args)

    return kernel


def in_the_argument(subject: Subject) -> Kernel:
    """Remembers on the input tensor itself, as an attribute."""

    def kernel(*args):
        if not hasattr(args[0], "answer"):
            args[0].answer = subject.answer(args)
        return args[0].answer.replay(args)

    return kernel


MAIN = (RMSNORM, SILU, FUSED_ADD)
SEEN = "fresh inputs", "memoised"

ADVERSARIES = [
    *each("memoised by pointer", memoised(lambda x: x.data_ptr()), MAIN, *SEEN),
    *each("memoised by shape", memoised(lambda x: x.shape), (*MAIN, QUANT, KV_CACHE), *SEEN),
    *each("memoised by first and last elements", memoised(to_text(ends)), MAIN, *SEEN),
    *each("memoised by the sum of a few elements", memoised(few), MAIN, *SEEN),
    *each("memoised by the borders", memoised(borders), (RMSNORM, QUANT), "fresh inputs"),
    *each("memoised by seed", memoised(lambda _: torch.initial_seed()), MAIN, *SEEN),
    *each("memoised by object", memoised(id), (RMSNORM, SILU), *SEEN),
    *each("memoised in bytes", in_bytes, (RMSNORM, SILU), *SEEN),
    *each("memoised by call count", by_count, MAIN, *SEEN),
    *each("memoised on the argument", in_the_argument, (RMSNORM, SILU), *SEEN),
    *each("memoised by shape", memoised(lambda x: x.shape), MAIN, *SEEN, mode="run"),
    Adversary("memoised by shape", memoised(lambda x: x.shape), RMSNORM_CLOSURE, SEEN),
    # Never wrong, and never timed: the answer is looked up by sums over all of the input.
    Adversary(
        "memoised by everything",
        memoised(everything),
        SORT,
        ("memoised",),
        "run",
        tries=4,
    ),
    Adversary(
        "memoised by pointer and version",
        memoised(lambda x: (x.data_ptr(), x._version)),
        SORT,
        ("memoised",),
        "run",
    ),
]
