"""``run_perftest`` and ``perftest``: one call in check mode, timed in run mode."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from optest.cases import device, saved, text
from optest.cases import session as sessions
from optest.cases.candidate import Candidate
from optest.cases.guarding import Guarding
from optest.cases.tamper import Produced
from optest.errors import MemoisedError
from optest.guards import memoised, poison
from optest.guards.first_call import FirstCall
from optest.guards.outputs import Outputs
from optest.tensors import Snapshot
from optest.timing import Plan, Timing, measure

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optest.cases.case import Case
    from optest.cases.session import Session
from optest.cases.tamper import Tamper


def run_perftest(  # noqa: PLR0913 - upstream's signature
    func: Callable[..., Any],
    *args: Any,  # noqa: ANN401 - the kernel's own arguments
    num_iters: int | None = None,
    num_warmup: int = 2,
    testGraph: bool = False,  # noqa: N803 - upstream's name
    num_rotate_args: int = 0,
    needTrace: bool = False,  # noqa: N803 - upstream's name
    use_cuda_event: bool = False,
    controls: bool = True,
    fn_kwargs: Mapping[str, Any] | None = None,
    **kwargs: Any,  # noqa: ANN401
) -> tuple[Any, Timing]:
    """Call ``func(*args, **kwargs, **fn_kwargs)`` and time it.

    Args:
        func: the candidate; a closure is timed as cold as a function with arguments.
        *args: its positional arguments.
        num_iters: exactly this many timed calls; None samples until the 95 % confidence interval
            of the median is within 1 %, or OPTEST_BUDGET_S seconds are spent, at least 10 calls.
        num_warmup: calls before the timed ones.
        testGraph: time replays of a CUDA or HIP graph.
        num_rotate_args: argument sets to rotate on a GPU graph; 0 chooses.
        needTrace: also write a Chrome trace.
        use_cuda_event: time with events instead of the profiler's kernel records.
        controls: make a few calls on changed inputs, to refuse a kernel that remembers its answers;
            False for one whose result depends on nothing but shapes.
        fn_kwargs: keyword arguments for ``func`` whose names are taken here, such as ``num_iters``.
        **kwargs: its keyword arguments.

    Returns:
        ``(data, us)``: what the last timed call returned, on the inputs as given, and the median
        time of a call in microseconds (a ``Timing``). In check mode the candidate is called once
        and ``us`` is NaN.

    Raises:
        UsageError: an argument that cannot be honoured, naming it.
        ClockError: the clock's readings cannot be a kernel's.
        RefusedError: the measurement would not be the kernel's (memoised, never launched).
    """
    session = sessions.current()
    plan = Plan(
        num_iters=num_iters,
        num_warmup=num_warmup,
        clock=_clock(test_graph=testGraph, use_cuda_event=use_cuda_event),
        num_rotate_args=num_rotate_args,
        need_trace=needTrace,
        controls=controls,
    )
    call = Candidate(func, args, {**kwargs, **(fn_kwargs or {})})
    return _Run(session, call).of(plan)


def perftest(  # noqa: PLR0913, PLR0917 - upstream's signature
    num_iters: int | None = None,
    num_warmup: int = 2,
    testGraph: bool = False,  # noqa: N803
    num_rotate_args: int = 0,
    needTrace: bool = False,  # noqa: N803
    use_cuda_event: bool = False,
) -> Callable[[Callable[..., Any]], Callable[..., tuple[Any, Timing]]]:
    """Decorator form of ``run_perftest``: the decorated function returns ``(data, us)``."""
    options = {
        "num_iters": num_iters,
        "num_warmup": num_warmup,
        "testGraph": testGraph,
        "num_rotate_args": num_rotate_args,
        "needTrace": needTrace,
        "use_cuda_event": use_cuda_event,
    }

    def decorate(function: Callable[..., Any]) -> Callable[..., tuple[Any, Timing]]:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> tuple[Any, Timing]:  # noqa: ANN401
            return run_perftest(function, *args, fn_kwargs=kwargs, **options)  # type: ignore[arg-type]

        return wrapper

    return decorate


def _warmed(plan: Plan) -> Plan:
    """The plan after a first call under guard, which was a warm-up as well; one is left to do."""
    return dataclasses.replace(plan, num_warmup=min(plan.num_warmup, max(plan.num_warmup - 1, 1)))


def _clock(*, test_graph: bool, use_cuda_event: bool) -> str | None:
    if test_graph:
        return "graph"
    return "event" if use_cuda_event else None


class _Run:
    """One candidate's turn: its first call under guard, then timed."""

    def __init__(self, session: Session, call: Candidate) -> None:
        self._session = session
        self._call = call
        self._case: Case | None = session.case
        self._second = self._case is not None and self._case.first is not None

    def of(self, plan: Plan) -> tuple[Any, Timing]:
        """Run according to ``plan`` and the session's mode; what the candidate raises is noted.

        Noted, because a script that catches it would otherwise go on as if nothing had been.
        """
        if self._case is not None:
            self._case.measured = True
        try:
            if self._session.tamper is not None:
                return self._tampered(self._session.tamper), Timing.nan("check mode")
            return self._guarded(plan) if self._session.guards != "off" else self._plain(plan)
        except MemoisedError as error:
            self._session.note_finding(memoised.finding(error))
            raise
        except Exception as error:
            self._session.note_failure(f"{self._call.name} raised {text.of_error(error)}")
            raise

    def _plain(self, plan: Plan) -> tuple[Any, Timing]:
        if self._session.mode == "check":
            return self._call_once(), Timing.nan("check mode")
        snapshot = Snapshot(self._call.reachable)
        return measure(
            self._call.func, self._call.args, self._call.kwargs, plan=plan, snapshot=snapshot
        )

    def _tampered(self, tamper: Tamper) -> Any:  # noqa: ANN401 - what a kernel returns
        """One call from blank outputs, and what ``tamper`` makes of its results."""
        call = self._call
        self._outputs().give_back(call.reachable)
        before = Snapshot(call.reachable)
        data = self._call_once()
        return tamper(Produced(call.func, data, before))

    def _guarded(self, plan: Plan) -> tuple[Any, Timing]:
        call = self._call
        self._keep_inputs()
        guards = Guarding(self._session, call)
        first = FirstCall(self._call_once, call.reachable, self._outputs(), device.target())
        with guards.first_call(first):
            data = first.run()
        guards.after_first(first, data)
        timing = Timing.nan("check mode")
        if self._session.mode != "check" and not self._second:
            del data  # its memory is the timed calls' to use
            calm = poison.fresh_memory_poisoned(None, device=device.target())
            with guards.timed_calls(), calm:
                data, timing = measure(
                    call.func, call.args, call.kwargs, plan=_warmed(plan), snapshot=first.snapshot
                )
            guards.after_timing(first, data)
        guards.left_unwritten(first.mark(data), data)
        return data, timing

    def _call_once(self) -> Any:  # noqa: ANN401
        data = self._call()
        device.synchronize()
        return data

    def _outputs(self) -> Outputs:
        if self._case is None:
            return Outputs()
        if self._case.outputs is None:
            self._case.outputs = Outputs()
        return self._case.outputs

    def _keep_inputs(self) -> None:
        if self._case is not None and saved.wanted():
            known = {id(tensor) for tensor in self._case.inputs}
            self._case.inputs.extend(t for t in self._call.reachable if id(t) not in known)
