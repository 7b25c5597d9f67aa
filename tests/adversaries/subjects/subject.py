"""One small operator, its op test, and a right kernel for it that is not the reference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

Kernel = Callable[..., Any]

ITERS = 12  # timed calls in run mode: enough for the controls, and quick


@dataclass(frozen=True)
class Answer:
    """What a right call made: the value it returned, copies of what it wrote."""

    data: Any
    written: dict[int, torch.Tensor]

    def replay(self, args: tuple[Any, ...]) -> Any:
        """Hand it out again, for other arguments."""
        for at, kept in self.written.items():
            args[at].copy_(kept)
        return self.data


@dataclass(frozen=True)
class Subject:
    """An operator as a test has it.

    Attributes:
        name: how the table of adversaries calls it.
        run: the op test of these candidates, ``run({"name": kernel}, num_iters)``; returns its row.
        right: a right kernel, written for this suite; it calls neither run_torch nor aiter_ref.
        written: positions of the arguments that a kernel writes.
    """

    name: str
    run: Callable[[dict[str, Kernel], int], Any]
    right: Kernel
    written: tuple[int, ...] = ()

    def answer(self, args: tuple[Any, ...]) -> Answer:
        """Call the right kernel and keep what came of it."""
        data = self.right(*args)
        return Answer(data, {at: args[at].clone() for at in self.written})

    def outputs(self, args: tuple[Any, ...], data: Any) -> list[torch.Tensor]:
        """The tensors that a call made, whichever way it hands them out."""
        if self.written:
            return [args[at] for at in self.written]
        return list(data) if isinstance(data, tuple) else [data]
