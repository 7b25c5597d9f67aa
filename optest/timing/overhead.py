"""The no-op that shows what the harness itself costs: as near to the timed function as is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch._ops import OpOverload, OpOverloadPacket

from optest import native
from optest.timing.clock import Target

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class NoOp:
    """What costs as much as a call does and does nothing.

    Attributes:
        target: the no-op, with its arguments.
        words: what to call it in a Timing.
        wake: other no-ops of the same binding. Called after a flush, which evicts the interpreter
            and the dispatcher too, they bring back what all calls share. The one that is timed is
            not among them, so that what each operator has to itself is cold for both, and cancels.
    """

    target: Target
    words: str
    wake: Callable[[], object]


def no_op(target: Target) -> NoOp:
    """The no-op nearest to a target.

    For an operator of ours it is one behind the same dispatcher that takes a tensor, a number or
    both, as the operator does; for anything else an empty Python function with the same arguments.
    """
    if isinstance(target.func, (OpOverload, OpOverloadPacket)):
        found = _operator(target.func, target)
        if found is not None:
            return found
    return NoOp(Target(_nothing, target.sets), "an empty Python call", _nothing_else)


def _nothing(*_args: object, **_kwargs: object) -> None:
    """Do nothing, when timed."""


def _nothing_else() -> None:
    """Do nothing, to wake the interpreter."""


def _operator(func: OpOverload | OpOverloadPacket, target: Target) -> NoOp | None:
    args, kwargs = target.sets[0]
    values = (*args, *kwargs.values())
    tensor = next((v for v in values if isinstance(v, torch.Tensor)), None)
    number = next((v for v in values if isinstance(v, float)), None)
    on_cpu = tensor is None or tensor.device.type == "cpu"
    if not str(func).startswith("optest.") or not on_cpu or (tensor is None and number is None):
        return None
    harness = native.csrc_or_none("harness", "what a call costs is taken from an empty one")
    if harness is None:
        return None

    def binding(name: str) -> Any:  # noqa: ANN401 - an operator
        packet = getattr(harness, name)
        return packet.default if isinstance(func, OpOverload) else packet

    plain = tuple(value for value in (tensor, number) if value is not None)
    name = "noop_on" if len(plain) > 1 else "noop_us" if tensor is None else "noop"
    small = torch.zeros(1)
    arguments = {"noop": (small,), "noop_us": (0.0,), "noop_on": (small, 0.0)}
    others = [(binding(each), arguments[each]) for each in arguments if each != name]

    def wake() -> None:
        for other, given in others:
            other(*given)

    return NoOp(Target(binding(name), ((plain, {}),)), f"optest::{name}", wake)
