"""The golden outputs: what the caller's function makes of clones of the inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from optest.errors import UsageError
from optest.golden import faults, threads
from optest.golden.scalar import ScalarSpec
from optest.tensors import bits, same_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from optest.golden.kernel import Spec
    from optest.golden.spec import TensorSpec


@dataclass(frozen=True)
class Golden:
    """What a golden function made.

    Attributes:
        outputs: by name, on the CPU.
        unfilled: names of outputs that nothing seems to have filled.
        unasked: names of tensors that it filled although the kernel does not write them. A kernel
            that leaves an output unwritten looks like one that has no such output.
    """

    outputs: Mapping[str, torch.Tensor]
    unfilled: Sequence[str] = ()
    unasked: Sequence[str] = ()


def compute(
    golden_fn: Callable[[dict[str, Any]], object],
    specs: Sequence[Spec],
    tensors: Mapping[str, torch.Tensor],
) -> Golden:
    """Call ``golden_fn`` on clones: what it changes is its own, and the kernel's results too.

    Args:
        golden_fn: fills the outputs of the dict it gets, in place or by putting tensors there.
        specs: stamped with their directions.
        tensors: what the inputs hold, and the outputs that have an ``init_value``; pure outputs
            without are zeros.

    Raises:
        Stopped: an output that is no tensor, or has another shape or dtype; a bad
            OPTEST_GOLDEN_NUM_THREADS.
        Exception: whatever ``golden_fn`` raises.
    """
    with faults.setting_up():
        count = threads.wanted()
    values = {spec.name: _value(spec, tensors) for spec in specs}
    outputs = [spec for spec in specs if not isinstance(spec, ScalarSpec) and spec.is_output]
    blank = {
        spec.name: (values[spec.name], values[spec.name]._version)  # noqa: SLF001 - no public name
        for spec in outputs
        if not spec.is_input
    }
    with threads.reference_threads(count):
        golden_fn(values)
    unfilled = [name for name, before in blank.items() if _untouched(values.get(name), *before)]
    with faults.setting_up():
        kept = {spec.name: _checked(spec, values.get(spec.name)) for spec in outputs}
    read = [s for s in specs if not isinstance(s, ScalarSpec) and not s.is_output]
    unasked = [s.name for s in read if _unasked(s, values.get(s.name), tensors[s.name])]
    return Golden(kept, unfilled, unasked)


def _unasked(spec: TensorSpec, value: object, before: torch.Tensor) -> bool:
    """Whether the golden function takes for an output what the kernel was not seen to write.

    Where a kernel declares an input, and the spec gives it values, the clone is the golden
    function's own to work in.
    """
    if spec.declared and spec.init_value is not None:
        return False
    return not isinstance(value, torch.Tensor) or not same_bytes(value, before)


def _value(spec: Spec, tensors: Mapping[str, torch.Tensor]) -> Any:  # noqa: ANN401 - a tensor or a number
    if isinstance(spec, ScalarSpec):
        return spec.to_python()
    held = tensors.get(spec.name)
    return spec.create_tensor().cpu() if held is None else held.clone()


def _untouched(value: object, before: torch.Tensor, version: int) -> bool:
    # Writes through NumPy leave the version as it is, so what it holds has a say too.
    same = value is before and before._version == version  # noqa: SLF001
    return same and not bool(bits(before).any())


def _checked(spec: TensorSpec, value: object) -> torch.Tensor:
    if isinstance(value, torch.Tensor):
        if tuple(value.shape) == tuple(spec.shape) and value.dtype == spec.dtype:
            return value.detach().cpu()
        found = f"{value.dtype} {list(value.shape)}"
    else:
        found = f"a {type(value).__name__}"
    raise UsageError(
        f"golden_fn put {found} in place of {spec.name}, which is {spec.dtype} "
        f"{list(spec.shape)}: fill the tensor that is there, as values[{spec.name!r}][:] = …"
    )
