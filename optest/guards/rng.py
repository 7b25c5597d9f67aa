"""The random generators: what a candidate draws from them, and whether it seeds them."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from optest.guards.finding import Finding


@dataclass(frozen=True)
class Generators:
    """The state of torch's, NumPy's and Python's global generators at one moment."""

    seeds: tuple[int, ...]
    torch_states: tuple[torch.Tensor, ...]
    numpy_state: dict[str, Any]
    python_state: tuple[Any, ...]

    @classmethod
    def now(cls) -> Generators:
        """Their state now (60 us)."""
        each = _of_torch()
        return cls(
            tuple(generator.initial_seed() for generator in each),
            tuple(generator.get_state() for generator in each),
            np.random.get_state(legacy=False),  # noqa: NPY002
            random.getstate(),
        )

    def put_back(self) -> None:
        """Make them draw again what they would have drawn at that moment."""
        for generator, state in zip(_of_torch(), self.torch_states, strict=True):
            generator.set_state(state)
        np.random.set_state(self.numpy_state)  # noqa: NPY002
        random.setstate(self.python_state)

    def finding(self, *, deterministic: bool) -> Finding | None:
        """What became of them since: seeding is never a kernel's work, drawing must be declared."""
        after = Generators.now()
        if after.seeds != self.seeds:
            return Finding(
                "random state",
                f"the candidate seeded torch's generator with {_changed(self.seeds, after.seeds)}",
                "inputs that are drawn after that are numbers it knows",
            )
        names = self._advanced(after)
        if names and deterministic:
            return Finding(
                "random state",
                f"the candidate drew from, or set, the generator of {' and '.join(names)}",
                "write @benchmark(deterministic=False) if it rounds or drops at random",
                declarable=True,
            )
        return None

    def _advanced(self, after: Generators) -> list[str]:
        pairs = zip(self.torch_states, after.torch_states, strict=True)
        ours, theirs = self.numpy_state["state"], after.numpy_state["state"]
        same_numpy = ours["pos"] == theirs["pos"] and np.array_equal(ours["key"], theirs["key"])
        changed = {
            "torch": not all(torch.equal(a, b) for a, b in pairs),
            "numpy": not same_numpy,
            "random": self.python_state != after.python_state,
        }
        return [name for name, differs in changed.items() if differs]


def _of_torch() -> tuple[torch.Generator, ...]:
    if not (torch.cuda.is_available()):
        return (torch.default_generator,)
    return torch.default_generator, *torch.cuda.default_generators


def _changed(before: tuple[int, ...], after: tuple[int, ...]) -> int:
    return next(b for a, b in zip(before, after, strict=True) if a != b)
