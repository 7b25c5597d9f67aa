"""Directions of a kernel that does not say: run it on different poisons and see what it does.

A tensor that still holds its poison was not written. One that was written is an output; where the
results depend on what it held before, it is an input too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import torch

from optest.cases import state
from optest.errors import UsageError
from optest.golden.platform import device_of
from optest.golden.scalar import ScalarSpec
from optest.golden.spec import TensorSpec
from optest.golden.trial_poison import poisoned
from optest.log import once
from optest.tensors import bits, same_bytes

if TYPE_CHECKING:
    from optest.golden.config import Config

Tensors: TypeAlias = "dict[str, torch.Tensor]"
_SEED = 20


def directions(
    dispatch: Callable[..., object],
    specs: Sequence[TensorSpec | ScalarSpec],
    config: Config,
    known: Mapping[str, str],
) -> dict[str, str]:
    """The direction of every tensor spec, by two runs, and one more for each output in doubt.

    Args:
        dispatch: takes one argument for each spec, in their order.
        specs: tensors without an ``init_value`` are filled with poison, the others hold theirs.
        config: says on which device.
        known: directions that need no looking at.

    Where a tensor has an ``init_value`` and the kernel leaves a part of it as it was, that part
    belongs to the result, and the tensor is read and written. A kernel that fails on the specs' own
    values will fail again where its run comes; everything counts as read and written until then.

    Raises:
        UsageError: the kernel works on the values of the specs and fails on poison.
    """
    found = dict(known)
    unknown = [s for s in specs if isinstance(s, TensorSpec) and s.name not in found]
    if not unknown:
        return found
    device = device_of(config)
    names = [spec.name for spec in unknown]
    blank = [spec.name for spec in unknown if spec.init_value is None]
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        trial = _Trial(dispatch, specs, device)
        try:
            found |= _observed(trial, names, blank)
            warn_of_zeros(found, specs)
        except _KernelFailedError:
            found |= dict.fromkeys(names, "inout")
    return {s.name: found[s.name] for s in specs if isinstance(s, TensorSpec)}


def warn_of_zeros(directions: Mapping[str, str], specs: Sequence[TensorSpec | ScalarSpec]) -> None:
    """Say which tensors are read and were given nothing to read.

    A kernel that adds to an output where it should write it is right on zeros alone.
    """
    for spec in specs:
        unset = isinstance(spec, TensorSpec) and spec.init_value is None
        if unset and directions[spec.name] == "inout":
            once(
                f"the kernel reads {spec.name} and writes it, and the spec has no init_value: it "
                "starts from zeros. Give it one, or mark it Out if it should not be read."
            )


class _KernelFailedError(Exception):
    """The kernel failed on the values of the specs."""


def _observed(trial: _Trial, names: Sequence[str], blank: Sequence[str]) -> dict[str, str]:
    low = trial.run(dict.fromkeys(blank, 0))
    high = trial.run(dict.fromkeys(blank, 1))
    written = (low.written | high.written).intersection(names)
    doubtful = written if low.differs(high) else written.difference(blank)
    same = _repeatable(low, trial) if doubtful else {}
    found = dict.fromkeys(names, "in") | dict.fromkeys(written, "out")
    for name in doubtful:
        other = trial.run({**low.poisons, name: 1})
        kept = name not in blank and bool((low.kept(name) & other.kept(name)).any())
        if kept or low.differs(other, same):
            found[name] = "inout"
    return found


class _Run:
    """The tensors of one call, before and after."""

    def __init__(self, poisons: Mapping[str, int], before: Tensors, after: Tensors) -> None:
        self.poisons = poisons
        self.before = before
        self.after = after
        self.written = {name for name in after if not same_bytes(after[name], before[name])}

    def kept(self, name: str) -> torch.Tensor:
        """Elements that hold what they held."""
        return bits(self.after[name]) == bits(self.before[name])

    def differs(self, other: _Run, same: Mapping[str, torch.Tensor] | None = None) -> bool:
        """Whether what was written differs, in elements that repeat where ``same`` tells them."""
        names = self.written | other.written
        return any(self._differs_in(name, other, (same or {}).get(name)) for name in names)

    def _differs_in(self, name: str, other: _Run, same: torch.Tensor | None) -> bool:
        if same_bytes(self.after[name], other.after[name]):
            return False  # the rule for outputs, and quickly told of large ones
        written = ~(self.kept(name) & other.kept(name))
        differing = written & (bits(self.after[name]) != bits(other.after[name]))
        # Where nothing repeats nothing can be told, and what cannot be told counts as read.
        if same is not None and bool(same.any()):
            differing &= same
        return bool(differing.any())


class _Trial:
    """One kernel and its arguments, to be called again and again on copies."""

    def __init__(
        self,
        dispatch: Callable[..., object],
        specs: Sequence[TensorSpec | ScalarSpec],
        device: torch.device,
    ) -> None:
        self._dispatch = dispatch
        self._specs = specs
        tensors = (spec for spec in specs if isinstance(spec, TensorSpec))
        self._values = {spec.name: spec.create_tensor().to(device) for spec in tensors}

    def run(self, poisons: Mapping[str, int]) -> _Run:
        """Call the kernel with the first or the second poison in the tensors named."""
        before = {
            name: poisoned(value, at, poisons[name]) if name in poisons else value
            for at, (name, value) in enumerate(self._values.items())
        }
        after = {name: value.clone() for name, value in before.items()}
        try:
            self._call(after)
        except Exception as error:
            self._require_works()
            raise UsageError(
                "the kernel does not say which tensors it writes, and fails when "
                f"{', '.join(poisons)} hold other values than their specs give ({error}). Mark its "
                "parameters with In, Out and InOut, or give those it reads an init_value."
            ) from error
        return _Run(poisons, before, after)

    def _require_works(self) -> None:
        try:
            self._call({name: value.clone() for name, value in self._values.items()})
        except Exception as error:
            raise _KernelFailedError from error

    def _call(self, tensors: Tensors) -> None:
        # The same random numbers for each: what is drawn must not look like what is read.
        state.seed_torch(_SEED)
        self._dispatch(
            *(
                spec.to_python() if isinstance(spec, ScalarSpec) else tensors[spec.name]
                for spec in self._specs
            )
        )


def _repeatable(first: _Run, trial: _Trial) -> Tensors:
    """Elements that a second run like the first writes alike."""
    again = trial.run(first.poisons)
    return {name: bits(first.after[name]) == bits(again.after[name]) for name in first.after}
