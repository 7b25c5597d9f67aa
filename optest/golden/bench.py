"""Timing a kernel after it was validated, and the line that CI reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from optest import stats
from optest.errors import UsageError
from optest.golden import rounds
from optest.golden.rounds import Rounds
from optest.golden.scalar import ScalarSpec
from optest.golden.stages import detail
from optest.tensors import Snapshot, tensors_in
from optest.timing import Plan, Timing, measure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optest.golden.kernel import Artifact, Spec


@dataclass(frozen=True)
class Bench:
    """What the timing of a run gave.

    Attributes:
        rounds: timed calls.
        warmup: untimed calls before.
        timing: all that was measured, in microseconds.
    """

    rounds: int
    warmup: int
    timing: Timing

    def per_round(self) -> list[float]:
        """Net time of each round in microseconds, in the order made."""
        return list(self.timing.samples_us)

    def headline(self) -> str:
        """``effective_us (100 rounds) min= median= mean= max=``."""
        kept = [us for us in self.timing.samples_us if us > 0] or [float("nan")]
        return (
            f"effective_us ({self.rounds} rounds) min={min(kept):.2f} "
            f"median={stats.median(kept):.2f} mean={stats.mean(kept):.2f} max={max(kept):.2f}"
        )


class Stepping:
    """Calls a kernel; scalars that step get their next value with every call.

    Dispatch ``i``, warm-up and control calls included, gets ``value + i * benchmark_step``.
    """

    def __init__(
        self, launch: Callable[..., object], specs: Sequence[Spec], stepped: Sequence[ScalarSpec]
    ) -> None:
        positions = {spec.name: at for at, spec in enumerate(specs)}
        self._launch = launch
        self._stepped = [(positions[spec.name], spec) for spec in stepped]
        self.dispatches = 0

    def __call__(self, *args: Any) -> object:  # noqa: ANN401 - the kernel's own
        """One dispatch."""
        given = list(args)
        for at, spec in self._stepped:
            given[at] = spec.value_for_benchmark_dispatch(self.dispatches).item()
        self.dispatches += 1
        return self._launch(*given)


def require_range(stepped: Sequence[ScalarSpec], dispatches: int) -> None:
    """Refuse steps that leave their dtype before the last dispatch.

    Raises:
        UsageError: (a ValueError) naming the scalar and the value.
    """
    for spec in stepped:
        try:
            spec.value_for_benchmark_dispatch(dispatches - 1)
        except ValueError as error:
            raise UsageError(
                f"benchmark_step leaves the range of its dtype within {dispatches} dispatches: "
                f"{error}. Ask for fewer rounds, or a smaller step."
            ) from None


def callee(artifact: Artifact) -> Callable[..., Any]:
    """What is timed: an operator itself where the specs are its arguments, else ``launch``."""
    own = getattr(artifact, "fn", None)
    direct = not getattr(artifact, "results", 1) and not getattr(artifact, "by_keyword", ("x",))
    if isinstance(own, torch._ops.OpOverload) and direct:  # noqa: SLF001 - no public name
        return own
    return getattr(artifact, "launch", artifact.dispatch)


@dataclass(frozen=True)
class Calls:
    """The benchmark asked for.

    Attributes:
        rounds: timed calls.
        warmup: untimed calls before.
        reachable: tensors besides its arguments that the kernel could reach before its first call;
            what it has kept since, an answer perhaps, is not among them.
    """

    rounds: int
    warmup: int
    reachable: Sequence[torch.Tensor] = ()

    @classmethod
    def wanted(cls, bench: bool | Rounds | None, fn: object) -> Calls | None:
        """What the config or the environment asks for; None where that is nothing.

        Raises:
            SettingError: (a ValueError) a variable that holds what its row does not allow.
        """
        times = Rounds.wanted(bench)
        return None if times is None else cls(*times, tensors_in(fn))


def run(artifact: Artifact, arguments: Sequence[Any], specs: Sequence[Spec], calls: Calls) -> Bench:
    """Time a kernel and print the headline.

    Tensors that the kernel writes are given back what they held between rounds.

    Args:
        artifact: the kernel.
        arguments: one for each spec, in order.
        specs: for the scalars that step.
        calls: how often, and what the kernel could reach before it ran.

    Raises:
        UsageError: (a ValueError) a scalar that steps out of its range.
        RefusedError: the number would not be the kernel's, as that of one that remembers answers.
        ClockError: readings that no kernel can have.
    """
    stepped = [s for s in specs if isinstance(s, ScalarSpec) and s.has_benchmark_step]
    require_range(stepped, calls.rounds + calls.warmup)
    call = callee(artifact)
    func = Stepping(call, specs, stepped) if stepped else call
    # A kernel that steps is given a new value with every call: it has no same call to repeat.
    plan = Plan(num_iters=calls.rounds, num_warmup=calls.warmup, controls=not stepped)
    held = Snapshot(tensors_in(list(calls.reachable), arguments))
    _, timing = measure(func, arguments, plan=plan, snapshot=held)
    bench = Bench(calls.rounds, calls.warmup, timing)
    _tell(bench, [*timing.notes, *_interpreted(artifact, arguments)])
    return bench


def _interpreted(artifact: Artifact, arguments: Sequence[Any]) -> list[str]:
    on_gpu = any(isinstance(a, torch.Tensor) and a.is_cuda for a in arguments)
    if on_gpu or getattr(artifact, "kind", "") != "triton kernel":
        return []
    return ["Triton's interpreter ran the kernel: the time is the interpreter's"]


def _tell(bench: Bench, notes: Sequence[str]) -> None:
    detail(bench.headline())
    if rounds.raw_wanted():
        for at, us in enumerate(bench.per_round()):
            detail(f"eff_us round {at}: {us:.2f}")
    for note in notes:
        detail(f"note: {note}")
