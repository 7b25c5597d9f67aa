"""A golden run as a case: its kernel's name, and its specs in place of arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optest.cases import text
from optest.golden.scalar import ScalarSpec
from optest.golden.spec import TensorSpec
from optest.line import escaped

if TYPE_CHECKING:
    from collections.abc import Sequence

_NAMES = ("__name__", "name", "_name", "kernel", "fn")
_DEEPEST = 4


def kernel_name(fn: Any) -> str:  # noqa: ANN401 - of many kinds
    """What the kernel is called: by its own name, or that of what it wraps."""
    found = fn
    for _ in range(_DEEPEST):
        inner = next((getattr(found, n) for n in _NAMES if getattr(found, n, None)), None)
        if isinstance(inner, str):
            return escaped(inner)
        if inner is None:
            break
        found = inner
    return type(fn).__name__


def columns(specs: Sequence[object]) -> dict[str, str]:
    """Each spec by name: ``16x128:bf16``, or the value of a scalar."""
    return {
        spec.name: _described(spec) for spec in specs if isinstance(spec, (TensorSpec, ScalarSpec))
    }


def _described(spec: TensorSpec | ScalarSpec) -> str:
    if isinstance(spec, ScalarSpec):
        return str(spec.to_python())
    return f"{'x'.join(map(str, spec.shape)) or 'scalar'}:{text.of_dtype(spec.dtype)}"
