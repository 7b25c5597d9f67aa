"""What only a GPU makes possible: other streams, launches put off, events, graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from subjects.fused_add import FUSED_ADD
from subjects.gemm import GEMM
from subjects.rmsnorm import RMSNORM
from subjects.silu import SILU

from cheats import undo
from cheats.adversary import CHECK, RAISED, Adversary, each
from cheats.lazy import deferred, filled
from cheats.memoising import SEEN, memoised
from cheats.patching import patches

if TYPE_CHECKING:
    from subjects.subject import Kernel, Subject

LONG = 50_000_000  # device cycles, some 30 ms: longer than anything waits by chance


def on_a_side_stream(subject: Subject) -> Kernel:
    """Launches on a stream that nobody waits for; the answer arrives late."""
    streams = []

    def kernel(*args):
        if not streams:
            streams.append(torch.cuda.Stream())
            undo.later(streams[0].synchronize)
        outputs = [args[at] for at in subject.written] or [torch.empty_like(args[0])]
        streams[0].wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(streams[0]):
            torch.cuda._sleep(LONG)
            answer = subject.right(*args)
            if not subject.written:
                outputs[0].copy_(answer)
        return None if subject.written else outputs[0]

    return kernel


def leaves_a_stream(subject: Subject) -> Kernel:
    """Right, and makes another stream the current one for everybody after it."""

    def kernel(*args):
        before = torch.cuda.current_stream()
        undo.later(lambda: torch.cuda.set_stream(before))
        data = subject.right(*args)
        torch.cuda.synchronize()
        torch.cuda.set_stream(torch.cuda.Stream())
        return data

    return kernel


def stale_graph(subject: Subject) -> Kernel:
    """A graph of the first call, on copies of its inputs that later calls do not update."""
    captured = []

    def kernel(*args):
        if not captured:
            copies = [tensor.clone() for tensor in args]
            subject.right(*[tensor.clone() for tensor in copies])
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                answer = subject.right(*copies)
            captured.extend((graph, copies, answer))
        graph, copies, answer = captured
        graph.replay()
        for at in subject.written:
            args[at].copy_(copies[at])
        return None if subject.written else answer

    return kernel


def nothing(self, *args):
    return None


def a_microsecond(self, other):
    return 0.001


LATER = "still running", "poison", CHECK, RAISED
NAMED = ("patched names",)

ADVERSARIES = [
    *each("on a side stream", on_a_side_stream, (RMSNORM, SILU, FUSED_ADD), *LATER),
    *each("on a side stream", on_a_side_stream, (GEMM,), *LATER, mode="run"),
    *each("launched at the first look", deferred, (RMSNORM, GEMM), "plain tensors"),
    *each("launched into its memory at the first look", filled, (RMSNORM,), "plain tensors"),
    *each("leaves another stream", leaves_a_stream, (RMSNORM,), "process state"),
    *each("a graph of the first inputs", stale_graph, (RMSNORM, SILU), *SEEN),
    *each(
        "memoised by shape",
        memoised(lambda x: x.shape),
        (RMSNORM, SILU),
        "fresh inputs",
        "memoised",
    ),
    Adversary(
        "replaces Event.elapsed_time",
        patches(torch.cuda.Event, "elapsed_time", a_microsecond),
        RMSNORM,
        NAMED,
    ),
    Adversary("replaces Event.record", patches(torch.cuda.Event, "record", nothing), SILU, NAMED),
    Adversary(
        "replaces torch.cuda.synchronize",
        patches(torch.cuda, "synchronize", lambda *_: None),
        GEMM,
        NAMED,
    ),
]
