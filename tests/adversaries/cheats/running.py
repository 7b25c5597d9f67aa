"""Work that goes on after the kernel has returned."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from subjects.fused_add import FUSED_ADD
from subjects.rmsnorm import RMSNORM
from subjects.silu import SILU

from cheats import undo
from cheats.adversary import CHECK, each
from optest import native

if TYPE_CHECKING:
    from subjects.subject import Kernel, Subject

LATE_S = 0.02


def started(action) -> threading.Thread:
    thread = threading.Thread(target=action, daemon=True)
    thread.start()
    undo.later(thread.join)
    return thread


def blank(subject: Subject, args) -> list[torch.Tensor]:
    """The buffers to fill later: the caller's, or fresh ones."""
    return [args[at] for at in subject.written] or [torch.empty_like(args[0])]


def late(subject: Subject) -> Kernel:
    """Returns at once; a thread writes the right answer."""

    def kernel(*args):
        outputs = blank(subject, args)

        def work():
            time.sleep(LATE_S)
            answer = subject.right(*args)
            if not subject.written:
                outputs[0].copy_(answer)

        started(work)
        return None if subject.written else outputs[0]

    return kernel


def row_by_row(subject: Subject) -> Kernel:
    """Returns at once; a thread begins at once, and is done with the last row after some 50 ms."""

    def kernel(*args):
        outputs = blank(subject, args)
        before = [tensor.clone() for tensor in outputs]
        answer = subject.right(*args)
        right = [tensor.clone() for tensor in subject.outputs(args, answer)]
        for out, was in zip(outputs, before, strict=True):
            out.copy_(was)

        def work():
            for row in range(len(right[0])):
                time.sleep(0.001)
                for out, want in zip(outputs, right, strict=True):
                    out[row] = want[row]

        started(work)
        return None if subject.written else outputs[0]

    return kernel


def pooled(subject: Subject) -> Kernel:
    """The same from a pool of threads, the future forgotten."""
    pool = ThreadPoolExecutor(1)
    undo.later(pool.shutdown)

    def kernel(x, y):
        pool.submit(lambda: (time.sleep(LATE_S), subject.right(x, y)))

    return kernel


def spoils(subject: Subject) -> Kernel:
    """Right when it returns; zeros a moment later."""

    def kernel(*args):
        data = subject.right(*args)
        outputs = subject.outputs(args, data)
        started(lambda: (time.sleep(LATE_S), [tensor.zero_() for tensor in outputs]))
        return data

    return kernel


def waits(subject: Subject) -> Kernel:
    """Right, and leaves a thread that does nothing until the test ends."""

    def kernel(*args):
        done = threading.Event()
        started(done.wait)
        undo.later(done.set)
        return subject.right(*args)

    return kernel


def native_thread(subject: Subject) -> Kernel:
    """A thread that Python does not know copies the answer into the output."""
    ops = native.load("adversary_thread", Path(__file__).parent / "thread.cpp")
    undo.later(ops.wait)

    def kernel(*args):
        outputs = blank(subject, args)
        before = [tensor.clone() for tensor in outputs]
        answer = subject.right(*args)
        right = [answer] if not subject.written else [tensor.clone() for tensor in outputs]
        for out, was, want in zip(outputs, before, right, strict=True):
            out.copy_(was)
            ops.copy_later(out, want, LATE_S)
        return None if subject.written else outputs[0]

    return kernel


LATER = "still running", CHECK

ADVERSARIES = [
    *each("a thread writes later", late, (RMSNORM, SILU), *LATER),
    *each("a thread writes row by row", row_by_row, (RMSNORM, SILU, FUSED_ADD), *LATER),
    # What one call leaves undone may be done in the middle of the next.
    *each("a pool writes later", pooled, (SILU,), *LATER, "repeatability"),
    *each("spoilt later", spoils, (RMSNORM, SILU, FUSED_ADD), "still running"),
    *each("a thread is left", waits, (RMSNORM, FUSED_ADD), "still running"),
    *(each("a native thread writes later", native_thread, (RMSNORM, SILU), *LATER)
      if native.available() else []),
]  # fmt: skip
