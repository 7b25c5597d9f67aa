"""Control calls: does the kernel look at its inputs, and does it work as long on new ones?

A kernel that remembers answers is fast on the inputs it has seen. Two things give it away, and both
are shown beyond doubt before a measurement is refused, since an honest kernel refused is as bad:

- *time*: the first call on new values takes several times as long as the next calls on the same
  values. Every new input is timed once and then once, twice, three times more, so that no kernel
  that is merely slow at every n-th call fits the pattern; and every repeat is preceded by a write
  of the same values, so that the caches are in the same state.
- *answers*: the outputs stay the same bit for bit when every floating-point input has changed
  (``optest.timing.stale`` then asks for proof).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from optest import stats
from optest.errors import MemoisedError
from optest.tensors import storage_of, tensors_in
from optest.timing import stale
from optest.timing.fresh import FloatInputs
from optest.timing.outputs import copies, same, telling
from optest.timing.reach import direct_tensors
from optest.timing.samples import spread_us

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from optest.timing.clock import Before, Clock, Reading, Target
    from optest.timing.inputs import Inputs

_TIMES_FASTER = 3.0
_APART = 2.0
_NOISE_US = 5.0
_ROUNDS = 4
_TRIES = 5


@dataclass
class Controls:
    """The control calls of one measurement; ``run`` leaves the inputs as they were at first.

    Attributes:
        calls: calls of the function so far.
        notes: what could not be controlled, and why.
    """

    clock: Clock
    target: Target
    before: Before
    inputs: Inputs
    calls: int = 0
    notes: list[str] = field(default_factory=list)

    def run(self, data: Any, repeat_us: float) -> None:  # noqa: ANN401 - what a call returned
        """One call on changed inputs; more only where that one is suspicious.

        Args:
            data: what a call on the inputs as given returned.
            repeat_us: how long such calls take, overhead included.

        Raises:
            MemoisedError: the kernel remembers its answers.
        """
        floats = FloatInputs(self.inputs.tensors, self.outputs(data))
        if not len(floats):
            self.notes.append("no control call: there is no floating-point input to change")
            return
        try:
            self._run(floats, data, repeat_us)
        except MemoisedError:
            raise
        except Exception as error:  # noqa: BLE001 - new values may be outside what it accepts
            self.notes.append(f"no control call: {type(error).__name__} on changed inputs")
        finally:
            self.inputs.snapshot.restore()

    def _run(self, floats: FloatInputs, data: Any, repeat_us: float) -> None:  # noqa: ANN401
        given = self._as_given(data)
        if not floats.change():
            return
        first_us, answer = self._call()
        if given and same(given, self.outputs(answer)):
            stale.check(self, floats, answer)
        if self.clock.reads_host and first_us > _TIMES_FASTER * repeat_us + _NOISE_US:
            self._time_new_against_seen(floats)
            self._time_others_against_given(floats)

    def _as_given(self, data: Any) -> list[torch.Tensor]:  # noqa: ANN401 - what a call returned
        """Copies of the outputs on inputs as given; none where they could not tell anything."""
        if self.inputs.written:
            self.inputs.restore_written()
            data = self.call()
        made = self.outputs(data)
        return copies(made) if telling(made) else []

    def allocated(self, data: Any) -> list[torch.Tensor]:  # noqa: ANN401 - what a call returned
        """Tensors in ``data`` that are not what the call was given, or views of that."""
        direct = direct_tensors(self.target.func, self.target.sets[0])
        given = {storage_of(tensor) for tensor in (*direct, *self.inputs.written)}
        return [tensor for tensor in tensors_in(data) if storage_of(tensor) not in given]

    def outputs(self, data: Any) -> list[torch.Tensor]:  # noqa: ANN401 - likewise
        """Tensors that the call handed out, and those that it writes in place."""
        return [*self.allocated(data), *self.inputs.written]

    def call(self) -> Any:  # noqa: ANN401 - what the function returns
        """One call that is not timed."""
        self.calls += 1
        args, kwargs = self.target.sets[0]
        return self.target.func(*args, **kwargs)

    def _call(self) -> tuple[float, Any]:
        """One call, from outputs as given; its time, overhead included, and its result."""
        self.inputs.restore_written()
        if not self.clock.reads_host:
            return 0.0, self.call()
        reading = self._reading()
        return reading.us[0], reading.data

    def _reading(self) -> Reading:
        reading = self.clock.time([self.target], 1, self.before)[0]
        self.calls += reading.calls
        return reading

    def _after(self, write: Callable[[], object]) -> float:
        """Time of a call after ``write``; both made again where the call was preempted."""
        for _ in range(_TRIES):
            write()
            self.inputs.restore_written()
            reading = self._reading()
            if not reading.preempted[0]:
                break
        return reading.us[0]

    def _time_new_against_seen(self, floats: FloatInputs) -> None:
        new: list[float] = []
        seen: list[float] = []
        for number in range(_ROUNDS):
            new.append(self._after(floats.change))
            seen += [self._after(floats.rewrite) for _ in range(1 + number)]
        if _apart(new, seen):
            _refuse(new, seen, "the first call on new inputs")

    def _time_others_against_given(self, floats: FloatInputs) -> None:
        """For a kernel that knows the answer to one input only.

        Scaled values keep their order, moved ones their sizes: work that depends on either, as of a
        sort or of what exceeds a bound, is the same once. A slow spell of the machine may cover all
        calls of one kind, not of both.
        """
        for other in (floats.scale, floats.move):
            self.inputs.snapshot.restore()
            given = [self._after(floats.rewrite) for _ in range(_ROUNDS)]
            slow = [self._after(other) for _ in range(_ROUNDS)]
            if not _apart(slow, given):
                return
        _refuse(slow, given, "a call on the same inputs scaled down or moved along")


def _apart(slow: list[float], fast: list[float]) -> bool:
    far = stats.median(slow) > _TIMES_FASTER * stats.median(fast)
    return far and min(slow) > _APART * max(fast)


def _refuse(slow: list[float], fast: list[float], what: str) -> None:
    raise MemoisedError(
        f"the kernel remembers its answers: repeats on the same inputs take {spread_us(fast)}, "
        f"{what} {spread_us(slow)}"
    )
