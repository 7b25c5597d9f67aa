"""A torch operator as a kernel: built in, made with torch.library, or compiled from csrc.

Its schema gives names, kinds and directions. ``Tensor(a!) out`` says that ``out`` is written, and
not whether it is read before: keyword-only out-arguments never are, of others observation decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch._library.custom_ops import CustomOpDef

from optest.golden import abi, source
from optest.golden.callable_kernel import CallableKernel, matched
from optest.golden.kernel import Parameter, Spec

if TYPE_CHECKING:
    from optest.golden.config import Config

_SCALARS = ("int", "float", "bool", "number", "Scalar", "SymInt")


def is_operator(fn: object) -> bool:
    """Whether ``fn`` is an operator, one with overloads, or one made with torch.library."""
    packets = (torch._ops.OpOverload, torch._ops.OpOverloadPacket)  # noqa: SLF001 - no public name
    return isinstance(fn, (*packets, CustomOpDef))


def make(
    fn: Any,  # noqa: ANN401 - torch types its operators no better
    specs: Sequence[Spec],
    config: Config,
    work_dir: Path,
) -> CallableKernel:
    """The overload that fits the specs, with what its schema says."""
    overload = _chosen(fn, specs)
    schema = overload._schema  # noqa: SLF001 - the only way to it
    parameters, results = _held(schema, specs)
    own = getattr(fn, "_init_fn", None)  # the Python function of torch.library.custom_op
    text = " ".join(filter(None, (str(schema), source.fingerprint(own) if own else None)))
    made = CallableKernel(overload, specs, config, work_dir, "torch operator", schema.name, text)
    made.parameters, made.results = parameters, results
    made.by_keyword = frozenset(a.name for a in schema.arguments if a.kwarg_only)
    made.known = {p.name: p.direction for p in parameters if p.direction is not None}
    made.written = frozenset(a.name for a in schema.arguments if _is_written(a))
    return made


def _chosen(fn: Any, specs: Sequence[Spec]) -> Any:  # noqa: ANN401
    """The overload that differs least from the specs; of equals the one with most parameters."""

    def misfit(overload: Any) -> tuple[int, int]:  # noqa: ANN401
        parameters, results = _held(overload._schema, specs)  # noqa: SLF001
        return len(abi.differences(parameters, specs)), results

    return min(_overloads(fn), key=misfit)


def _overloads(fn: Any) -> list[Any]:  # noqa: ANN401
    if isinstance(fn, CustomOpDef):
        return [fn._opoverload]  # noqa: SLF001 - the operator that it registered
    if isinstance(fn, torch._ops.OpOverload):  # noqa: SLF001 - no public name
        return [fn]
    return [getattr(fn, name) for name in fn.overloads()]


def _held(schema: Any, specs: Sequence[Spec]) -> tuple[list[Parameter], int]:  # noqa: ANN401
    required = [a.name for a in schema.arguments if not a.has_default_value()]
    parameters, results = matched([_parameter(a) for a in schema.arguments], required, specs)
    fresh = sum(r.alias_info is None for r in schema.returns)
    if results > fresh:  # specs for results that the operator does not return
        del parameters[len(parameters) - results :]
        results = 0
    return parameters, results


def _parameter(argument: Any) -> Parameter:  # noqa: ANN401 - a torch.Argument
    kind = str(argument.type).removeprefix("Optional[").removesuffix("]")
    if kind in _SCALARS:
        return Parameter(argument.name, "scalar")
    if kind != "Tensor":
        return Parameter(argument.name, kind)  # which no spec is
    if not _is_written(argument):
        return Parameter(argument.name, "tensor", "in")
    return Parameter(argument.name, "tensor", "out" if argument.is_out else None)


def _is_written(argument: Any) -> bool:  # noqa: ANN401 - a torch.Argument
    return argument.alias_info is not None and bool(argument.alias_info.is_write)
