"""A candidate called again: the same bits, nothing going on, nothing kept, nothing remembered.

The order of the calls, before each of which the caller's tensors hold what they held at first:

1. its floating-point inputs are changed in place (``optest.guards.memoised``);
2. its outputs are read as it returns and a little later, and its threads are counted;
3. it is watched by a profiler hook (``optest.guards.traced``), on other poison in its outputs;
4. once more. After each of the last three the memory in use is read (``optest.guards.growth``).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from optest.guards import memoised, poison, threads
from optest.guards.finding import Finding
from optest.guards.growth import Growth
from optest.guards.late import LATER_S, changed, differing_elements, running
from optest.guards.moved import later
from optest.guards.traced import Traced
from optest.tensors import Snapshot, storage_of, tensors_in

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from optest.timing.clock import Arguments

_PATIENCE_S = 0.25


@dataclass(frozen=True)
class Subject:
    """A candidate that has been called once, and what is known of it.

    Attributes:
        func: the candidate itself.
        arguments: its positional and its keyword arguments.
        synchronize: waits for the device.
        snapshot: the tensors that it can reach, as they were before its first call.
        test_file: name of the file that it is tested by.
        blank: those of them that held poison throughout: output buffers.
        deterministic: whether the same inputs give the same bits.
        device: where it runs, ``cpu`` or ``cuda``.
    """

    func: Callable[..., Any]
    arguments: Arguments
    synchronize: Callable[[], None]
    snapshot: Snapshot
    test_file: str
    blank: Sequence[torch.Tensor] = ()
    deterministic: bool = True
    device: str = "cpu"

    def call(self) -> Any:  # noqa: ANN401 - what a kernel returns
        """Call it; returns at once where it launches work on a device."""
        args, kwargs = self.arguments
        return self.func(*args, **kwargs)


class Repeats:
    """The repeated calls of one candidate.

    Args:
        subject: what is called.
        data: what its first call returned; the caller's tensors are as that call left them.
        unsure: positions among the result's tensors that were left partly unwritten.

    Attributes:
        notes: what could not be looked at, and why.
    """

    def __init__(self, subject: Subject, data: Any, unsure: Sequence[int] = ()) -> None:  # noqa: ANN401
        self._subject = subject
        self._written = subject.snapshot.changed()
        # One that this candidate does not write is none of its outputs.
        self._blank = [t for t in subject.blank if any(t is each for each in self._written)]
        self._unsure = frozenset(unsure)
        self._data = data
        self.notes: list[str] = []
        self._first = [tensor.detach().clone() for tensor in self._outputs(data)]
        self._told = False
        self._started: frozenset[int] = frozenset()

    def findings(self) -> list[Finding]:
        """Call again and again; the caller's tensors end as after a single call."""
        found = self._changed()
        growth = Growth()
        for look in (self._watched, self._traced, self._last):
            found += look()
            growth.read()
        grown = growth.finding(lambda: self._again(self._synchronised))
        return [*found, *([grown] if grown else []), *later(self._subject.snapshot, self._written)]

    def _outputs(self, data: object) -> list[torch.Tensor]:
        """The tensors that a call returned in memory of its own, then those that it changed."""
        given = {storage_of(tensor) for tensor in self._subject.snapshot.tensors}
        own = [tensor for tensor in tensors_in(data) if storage_of(tensor) not in given]
        return [*own, *self._written]

    def _again(self, call: Callable[[], Any]) -> Any:  # noqa: ANN401 - what a kernel returns
        self._subject.snapshot.restore(self._written)
        with poison.fresh_memory_poisoned(poison.FIRST, device=self._subject.device):
            return call()

    def _watched(self) -> list[Finding]:
        before = threads.alive()
        data = self._again(self._subject.call)
        outputs = self._outputs(data)
        early = [tensor.detach().clone() for tensor in outputs]
        started = threads.alive() - before
        time.sleep(LATER_S)
        # One that it has joined may be listed for a moment yet.
        self._started = started & threads.alive()
        threads.wait_for(self._started, _PATIENCE_S)
        self._subject.synchronize()
        late = changed(early, outputs)
        if late:
            return [late]
        if not outputs and self._writes_later():
            return [running("it changed its outputs after it had returned")]
        return self._compared(data)

    def _writes_later(self) -> bool:
        """Of a call that has neither returned nor changed anything: does it yet?"""
        held = Snapshot(self._subject.snapshot.tensors)
        for _ in range(int(_PATIENCE_S / LATER_S)):
            time.sleep(LATER_S)
            if held.changed():
                return True
        return False

    def _traced(self) -> list[Finding]:
        traced = Traced(self._subject.func, self._subject.test_file)
        before = threads.alive()

        def call() -> Any:  # noqa: ANN401
            for tensor in self._blank:
                poison.fill(tensor, poison.FIRST)
            return traced.call(self._synchronised)

        data = self._again(call)
        found = [traced.finding] if traced.finding else []
        # A pool may start its next thread in the second call too; it idles, and nothing changes.
        if self._started and threads.wait_for(threads.alive() - before, LATER_S):
            found.append(running("each call starts a thread that runs on when it has returned"))
        return [*found, *self._left_blank(), *self._compared(data, self._blank)]

    def _last(self) -> list[Finding]:
        return self._compared(self._again(self._synchronised))

    def _changed(self) -> list[Finding]:
        subject = self._subject
        with poison.fresh_memory_poisoned(poison.FIRST, device=subject.device):
            found, self.notes = memoised.look(
                subject.func, subject.arguments, subject.snapshot, self._data
            )
        return [found] if found else []

    def _left_blank(self) -> list[Finding]:
        """What of the caller's buffers still holds the poison of both calls."""
        left = total = 0
        for tensor, first in zip(self._written, self._first_written(), strict=True):
            if not any(tensor is each for each in self._blank):
                continue
            masks = (
                poison.holding(first, poison.BUFFERS),
                poison.holding(tensor, poison.FIRST, filled=True),
            )
            total += tensor.numel()
            if masks[0] is not None and masks[1] is not None:
                left += int((masks[0] & masks[1]).sum())
        return [unwritten(left, total)] if left else []

    def _first_written(self) -> list[torch.Tensor]:
        return self._first[len(self._first) - len(self._written) :]

    def _synchronised(self) -> Any:  # noqa: ANN401
        data = self._subject.call()
        self._subject.synchronize()
        return data

    def _compared(self, data: object, beside: Sequence[torch.Tensor] = ()) -> list[Finding]:
        """Whether a result is, bit for bit, what the first call's was; told once.

        Not looked at are tensors that were left partly unwritten, and those ``beside``.
        """
        outputs = self._outputs(data)
        if self._told or not self._subject.deterministic:
            return []
        differing = sum(
            differing_elements(first, now)
            for at, (first, now) in enumerate(zip(self._first, outputs, strict=False))
            if at not in self._unsure and not any(now is each for each in beside)
        )
        if not differing and len(self._first) == len(outputs):
            return []
        self._told = True
        total = sum(tensor.numel() for tensor in self._first)
        return [
            Finding(
                "repeatability",
                f"a later call on the same inputs gave other bits in {differing} of {total} places",
                "it does not compute the same each time; write @benchmark(deterministic=False) if "
                "it is not meant to",
                declarable=True,
            )
        ]


def unwritten(left: int, total: int) -> Finding:
    """``left`` of ``total`` elements of a result hold what they held before the call."""
    return Finding(
        "poison",
        f"the candidate left {left} of the {total} elements of its result unwritten",
        "they hold whatever was in memory; name the variable in @benchmark(unwritten=(…,)) if the "
        "operator leaves them so",
        declarable=True,
    )
