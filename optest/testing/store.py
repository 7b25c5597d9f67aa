"""``profile_store``: the runtimes of each test, and which values may be recorded there."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from optest.errors import UsageError
from optest.testing import profiler

if TYPE_CHECKING:
    from typing_extensions import Self

    from optest.timing import Timing

_NO_SESSION = """\
{nodeid}: runtimes were recorded and no profiler_session was opened: a profiler would have seen \
none of the calls. Run the timed trials inside one:
    from optest.testing import detect_profiler, profiler_session
    with profiler_session(detect_profiler()):"""


class Trials(list[float]):
    """The runtimes of one test. A value that no runtime can be is refused where it is added.

    ``timings`` holds the Timings of what the house's own helpers measured.
    """

    def __init__(self, nodeid: str, opened_before: int) -> None:
        super().__init__()
        self.timings: list[Timing] = []
        self._nodeid, self._opened_before = nodeid, opened_before

    def append(self, value: float) -> None:
        """Record one runtime."""
        super().append(self._admitted(value))

    def extend(self, values: Iterable[float]) -> None:
        """Record several."""
        super().extend([self._admitted(value) for value in values])
        self.timings += getattr(values, "timings", ())

    def __iadd__(self, values: Iterable[float]) -> Self:  # type: ignore[override,misc]
        self.extend(values)
        return self

    def _admitted(self, value: object) -> float:
        if profiler.opened() == self._opened_before:
            raise UsageError(_NO_SESSION.format(nodeid=self._nodeid))
        try:
            number = float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            number = math.nan
        if isinstance(value, (bool, str)) or not 0.0 < number < math.inf:
            raise UsageError(
                f"{self._nodeid}: the runtime {value!r} was recorded: expected milliseconds, more "
                "than zero"
            )
        return number


class ProfileStore(dict[str, list[float]]):
    """A dict of test ids, each with its Trials; ``append`` and ``extend`` add to the running test.

    ``refused`` is why a measurement of the running test was refused, also where the test hid that.
    """

    def __init__(self) -> None:
        super().__init__()
        self.refused = ""
        self._running = ""
        self._opened_before = profiler.opened()

    def begin(self, nodeid: str) -> None:
        """A test starts: it has recorded nothing, and opened no profiler session."""
        self.refused = ""
        self._running, self._opened_before = nodeid, profiler.opened()
        self[nodeid] = []

    def of(self, nodeid: str) -> Trials:
        """What a test has recorded."""
        found = self.get(nodeid)
        return found if isinstance(found, Trials) else Trials(nodeid, self._opened_before)

    def __setitem__(self, nodeid: str, values: Iterable[float]) -> None:
        if not isinstance(nodeid, str):
            raise UsageError(
                f"profile_store[{nodeid!r}]: expected a test's id, request.node.nodeid"
            )
        if isinstance(values, str) or not isinstance(values, Iterable):
            raise UsageError(
                f"profile_store[{nodeid!r}] = {values!r}: expected a list of milliseconds"
            )
        if values is self.get(nodeid):  # profile_store[nodeid] += …
            return
        trials = Trials(nodeid, self._opened_before)
        trials.extend(values)
        super().__setitem__(nodeid, trials)

    def setdefault(self, nodeid: str, default: Iterable[float] = ()) -> list[float]:
        """As a dict's."""
        if nodeid not in self:
            self[nodeid] = default
        return self[nodeid]

    def update(self, *others: Any, **more: Any) -> None:  # noqa: ANN401 - a dict's signature
        """As a dict's."""
        for nodeid, values in dict(*others, **more).items():
            self[nodeid] = values

    def append(self, value: float) -> None:
        """Record one runtime of the running test."""
        self[self._running].append(value)

    def extend(self, values: Iterable[float]) -> None:
        """Record several runtimes of the running test."""
        self[self._running].extend(values)
