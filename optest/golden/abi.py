"""Specs held against a compiled kernel's parameters, and directions written onto the specs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from optest.errors import UsageError
from optest.golden.kernel import Artifact, Parameter, Spec
from optest.golden.spec import DIRECTIONS, TensorSpec

_ANY_SIZE = -1


def check(artifact: Artifact, specs: Sequence[Spec]) -> None:
    """Hold names, order, kinds, shapes and dtypes of the specs against the kernel's parameters.

    The order is never repaired: arguments go by position.

    Raises:
        UsageError: all that differs, at once.
    """
    parameters: Sequence[Parameter] | None = getattr(artifact, "parameters", None)
    if parameters is None:
        return
    found = differences(parameters, specs)
    if found:
        raise UsageError(mismatch(found))


def mismatch(found: Sequence[str]) -> str:
    """Differences in one line, as upstream words it."""
    return f"compiled parameter ABI mismatch ({'; '.join(found)}); recompile the artifact"


def differences(parameters: Sequence[Parameter], specs: Sequence[Spec]) -> list[str]:
    """What the specs have otherwise than the parameters, one sentence each."""
    by_name = {parameter.name: parameter for parameter in parameters}
    names = [spec.name for spec in specs]
    found = [f"no spec for parameter {p.name}" for p in parameters if p.name not in names]
    found += [f"spec {name} names no parameter" for name in names if name not in by_name]
    shared = [name for name in names if name in by_name]
    wanted = [p.name for p in parameters if p.name in names]
    if shared != wanted:
        found.append(f"order: specs {', '.join(shared)}, parameters {', '.join(wanted)}")
    for spec in specs:
        if spec.name in by_name:
            found += _of_one(by_name[spec.name], spec)
    return found


def _of_one(parameter: Parameter, spec: Spec) -> list[str]:
    kind = "tensor" if isinstance(spec, TensorSpec) else "scalar"
    if parameter.kind not in (None, kind):
        return [f"{spec.name}: the spec is a {kind}, the parameter a {parameter.kind}"]
    found = []
    wanted = parameter.shape
    if wanted is not None and isinstance(spec, TensorSpec) and not _fits(wanted, spec.shape):
        shown = ", ".join("any" if size == _ANY_SIZE else str(size) for size in wanted)
        found.append(f"{spec.name}: shape {list(spec.shape)}, compiled for [{shown}]")
    if parameter.dtype not in (None, spec.dtype):
        found.append(f"{spec.name}: {spec.dtype}, compiled for {parameter.dtype}")
    return found


def _fits(compiled: Sequence[int], given: Sequence[int]) -> bool:
    return len(compiled) == len(given) and all(
        c in (_ANY_SIZE, g) for c, g in zip(compiled, given, strict=True)
    )


def stamp(artifact: Artifact, specs: Sequence[Spec]) -> None:
    """Write the kernel's directions onto the tensor specs.

    Raises:
        UsageError: directions that are missing or none of in, out, inout; or no output at all,
            since nothing could be validated.
    """
    directions: Any = artifact.directions
    tensors = [spec for spec in specs if isinstance(spec, TensorSpec)]
    wrong = [
        f"{spec.name}: {directions.get(spec.name)!r}"
        for spec in tensors
        if directions.get(spec.name) not in DIRECTIONS
    ]
    if wrong:
        raise UsageError(f"the kernel gives no direction for {', '.join(wrong)}")
    known = getattr(artifact, "known", directions)
    for spec in tensors:
        spec.direction = directions[spec.name]
        spec.declared = spec.name in known
    if not any(spec.is_output for spec in tensors):
        names = ", ".join(spec.name for spec in tensors) or "none"
        raise UsageError(
            f"the kernel writes none of its tensors ({names}), so there is nothing to validate. "
            "A tensor that it returns needs a spec of its own, after those of its parameters."
        )
