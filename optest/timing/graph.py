"""Graph replay: what a kernel takes when launching it costs next to nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from optest import stats
from optest.errors import RefusedError
from optest.timing.clock import Reading
from optest.timing.event import timing_event
from optest.units import US_PER_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from optest.timing.clock import Before, Target

_LEAST_CALLS = 10


class Graph(Protocol):
    """The part of ``torch.cuda.CUDAGraph`` that is used here."""

    def replay(self) -> None:
        """Run the captured work."""


@dataclass(frozen=True)
class GraphClock:
    """The difference between replaying a graph of many calls and a graph of one.

    Dividing one replay by the calls in it would spread the cost of a launch over them, and would
    believe in calls that launched nothing. The difference holds neither: launches cancel, and a
    function that launched its kernel once differs by nothing, which is refused.

    Attributes:
        capture: captures what a function does; returns the graph and what the function returned.
        make_event: a new ``torch.cuda.Event`` that takes times.
        sync: waits until the device is idle.
    """

    capture: Callable[[Callable[[], Any]], tuple[Graph, Any]]
    make_event: Callable[[], Any]
    sync: Callable[[], object]
    name: str = "graph"
    resolution_us: float = 0.5
    reads_host: bool = False

    def time(self, targets: Sequence[Target], rounds: int, before: Before) -> list[Reading]:
        """Capture each target twice, then replay; ``before`` comes before every replay."""
        return [self._one(target, rounds, before) for target in targets]

    def _one(self, target: Target, rounds: int, before: Before) -> Reading:
        more = max(_LEAST_CALLS, len(target.sets))
        # In this order a kernel that is launched once is in the graph that is taken away.
        one, data = self.capture(lambda: _call(target, 1))
        many, _ = self.capture(lambda: _call(target, 1 + more))
        longer = []
        for _ in range(rounds):
            long = self._replay(many, before)
            longer.append(long - self._replay(one, before))  # last: its results are to stay
        if stats.median(longer) < 2 * self.resolution_us:
            raise RefusedError(
                f"a graph of {1 + more} calls replays in the time of a graph of one "
                f"({stats.median(longer):+.2f} us): the calls after the first launched nothing"
            )
        us = [each / more for each in longer]
        return Reading(us=us, preempted=[False] * rounds, data=data, calls=2 + more)

    def _replay(self, graph: Graph, before: Before) -> float:
        if before is not None:
            before()
        start, end = self.make_event(), self.make_event()
        start.record()
        graph.replay()
        end.record()
        self.sync()
        return float(start.elapsed_time(end)) * US_PER_MS


def _call(target: Target, count: int) -> Any:  # noqa: ANN401 - whatever the function returns
    """Call the target ``count`` times; the last call is on the first set, the caller's own."""
    data = None
    for index in reversed(range(count)):
        args, kwargs = target.sets[index % len(target.sets)]
        data = target.func(*args, **kwargs)
    return data


def cuda_graph_clock() -> GraphClock:
    """The graph clock of the current CUDA or ROCm device."""
    import torch

    def capture(work: Callable[[], Any]) -> tuple[Graph, Any]:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            data = work()
        return graph, data

    return GraphClock(capture, timing_event, torch.cuda.synchronize)
