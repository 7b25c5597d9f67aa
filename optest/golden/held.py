"""Pure inputs of a kernel, held against what they were: a kernel must not change them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from optest.golden.kernel import Spec
from optest.golden.spec import TensorSpec
from optest.tensors import Snapshot


class HeldInputs:
    """Remembers the tensors whose direction is In; made before the kernel runs."""

    def __init__(self, specs: Sequence[Spec], tensors: Mapping[str, torch.Tensor]) -> None:
        self._names = {
            id(tensors[spec.name]): spec.name
            for spec in specs
            if isinstance(spec, TensorSpec) and not spec.is_output
        }
        self._snapshot = Snapshot(t for t in tensors.values() if id(t) in self._names)

    def changed(self) -> list[str]:
        """Names of those that no longer hold, bit for bit, what they held; in the specs' order."""
        changed = {id(tensor) for tensor in self._snapshot.changed()}
        return [name for key, name in self._names.items() if key in changed]
