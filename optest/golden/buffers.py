"""The tensors that a kernel gets: on its device, what it shall write poisoned before it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from optest.golden.held import HeldInputs
from optest.golden.scalar import ScalarSpec
from optest.golden.spec import TensorSpec
from optest.guards import poison
from optest.tensors import Snapshot, storage_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from optest.golden.kernel import Spec
_E8M0_NAN = 0xFF


class Buffers:
    """One kernel's arguments.

    A pure output holds poison, not zeros: an element that the kernel does not write then differs
    from any golden one. Where poison is found afterwards, the kernel runs once more on another, and
    what held the one and then the other was written by neither.

    Attributes:
        tensors: by name, on the device.
        unwritten: by output, where the kernel did not write it.
    """

    def __init__(
        self,
        specs: Sequence[Spec],
        host: Mapping[str, torch.Tensor],
        device: torch.device,
        *,
        guarded: bool,
    ) -> None:
        self._specs, self._device, self._guarded = specs, device, guarded
        self.unwritten: dict[str, torch.Tensor] = {}
        self.tensors: dict[str, torch.Tensor] = {}
        self._blank: list[str] = []
        for spec in specs:
            if isinstance(spec, TensorSpec):
                self.tensors[spec.name] = self._tensor(spec, host)
        self._inputs = HeldInputs(specs, self.tensors)
        self._state = Snapshot(self.tensors[name] for name in self._inouts())
        self._memory = {name: storage_of(tensor) for name, tensor in self.tensors.items()}

    def _tensor(self, spec: TensorSpec, host: Mapping[str, torch.Tensor]) -> torch.Tensor:
        if spec.is_input:
            return host[spec.name].to(self._device)
        self._blank.append(spec.name)
        made = torch.empty(list(spec.shape), dtype=spec.dtype, device=self._device)
        self._make_blank(made)
        return made

    def _inouts(self) -> list[str]:
        tensors = (spec for spec in self._specs if isinstance(spec, TensorSpec))
        return [spec.name for spec in tensors if spec.is_input and spec.is_output]

    def arguments(self) -> list[Any]:
        """One for each spec, in their order: tensors, and Python numbers."""
        return [
            spec.to_python() if isinstance(spec, ScalarSpec) else self.tensors[spec.name]
            for spec in self._specs
        ]

    def run(self, dispatch: Callable[..., object]) -> None:
        """Call the kernel, twice where it seems to leave an output unwritten."""
        self.unwritten.clear()
        self._call(dispatch, poison.BUFFERS)
        if not self._guarded:
            return
        first = {name: self._holding(name, poison.BUFFERS) for name in self._blank}
        doubtful = {name: mask for name, mask in first.items() if mask is not None}
        if not doubtful or self._inputs.changed():
            return
        self._state.restore()
        for name in self._blank:
            poison.fill(self.tensors[name], poison.FIRST)
        self._call(dispatch, poison.FIRST)
        for name, mask in doubtful.items():
            second = self._holding(name, poison.FIRST)
            both = mask & second if second is not None else None
            if both is not None and bool(both.any()):
                self.unwritten[name] = both.cpu()

    def _holding(self, name: str, byte: int) -> torch.Tensor | None:
        return poison.holding(self.tensors[name], byte, filled=True)

    def _call(self, dispatch: Callable[..., object], byte: int) -> None:
        if self._guarded:
            with poison.fresh_memory_poisoned(byte, device=self._device.type):
                dispatch(*self.arguments())
                self._wait()
        else:
            dispatch(*self.arguments())
            self._wait()

    def _wait(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)

    def moved(self) -> list[str]:
        """Names of tensors that the kernel gave other memory than they had."""
        return [name for name, was in self._memory.items() if storage_of(self.tensors[name]) != was]

    def changed_inputs(self) -> list[str]:
        """Names of pure inputs that the kernel changed."""
        return self._inputs.changed()

    def outputs(self, expected: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """What the kernel wrote, on the CPU; what it did not write differs from ``expected``."""
        tensors = (spec for spec in self._specs if isinstance(spec, TensorSpec))
        found = {spec.name: self.tensors[spec.name].cpu() for spec in tensors if spec.is_output}
        for name, mask in self.unwritten.items():
            _spoil(found[name], mask, expected[name])
        return found

    def restore(self) -> None:
        """Give every tensor what it held before the kernel ran; outputs are blank again.

        An output that held the right answer already would not be seen to be written.
        """
        self._state.restore()
        for name in self._blank:
            self._make_blank(self.tensors[name])

    def _make_blank(self, tensor: torch.Tensor) -> None:
        poison.fill(tensor, poison.BUFFERS if self._guarded else 0)


def _spoil(actual: torch.Tensor, mask: torch.Tensor, expected: torch.Tensor) -> None:
    """Put NaN where the mask says; in dtypes that have none, something far from ``expected``."""
    if actual.is_complex() or (actual.is_floating_point() and actual.itemsize > 1):
        actual.masked_fill_(mask, torch.nan)
    elif actual.dtype == torch.float8_e8m0fnu:  # a power of two: another one may be as near zero
        actual.view(torch.uint8).masked_fill_(mask, _E8M0_NAN)
    elif actual.dtype == torch.bool:
        actual[mask] = ~expected[mask]
    else:
        seen, wanted = poison.bits(actual), poison.bits(expected)
        assert seen is not None
        assert wanted is not None
        seen[mask] = wanted[mask] ^ (1 << (8 * actual.itemsize - 2))
