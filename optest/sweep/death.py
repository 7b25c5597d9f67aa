"""Why a process ended, in plain words."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass

from optest.units import format_bytes

_MEANING = {
    signal.SIGSEGV: "it read or wrote memory that is not its own",
    signal.SIGBUS: "it read or wrote memory that is not there, as of a file cut short",
    signal.SIGABRT: "it gave up: a failed assertion, an uncaught C++ exception, a corrupted heap",
    signal.SIGFPE: "a whole number was divided by zero",
    signal.SIGILL: "an instruction that this CPU does not have",
    signal.SIGKILL: "memory ran out, or it was killed from outside",
    signal.SIGTERM: "it was asked from outside to end",
    signal.SIGXFSZ: "a file grew past its limit",
    signal.SIGXCPU: "it used more CPU time than its limit",
}
CUT_OFF = 113  # exit code of a worker that can no longer tell what happens in it
_REFUSED = "optest: os._exit(0) was called while"


@dataclass(frozen=True)
class Death:
    """The end of a process.

    Attributes:
        kind: ended by itself; time, output, memory: a limit was passed; stopped with the run;
            refused: it was never started; lost: nobody knows.
        status: the wait status; None where it is not known.
        limit: the limit that was passed, in its own unit (seconds or bytes).
        output: the last lines it printed.
        stacks: what faulthandler wrote.
        starved: whether the system killed a process for want of memory meanwhile.
    """

    kind: str
    status: int | None = None
    limit: float = 0.0
    output: str = ""
    stacks: str = ""
    starved: bool = False
    refusal: str = ""

    @property
    def result(self) -> str:
        """The status of a result: hung where time was up, else crashed."""
        return "hung" if self.kind == "time" else "crashed"

    @property
    def reason(self) -> str:
        """One line."""
        words = {
            "time": f"it took longer than {self.limit:g} s and was killed",
            "output": f"it printed more than {format_bytes(self.limit)} and was killed",
            "memory": f"it held more than {format_bytes(self.limit)} of memory and was killed",
            "refused": self.refusal,
            "lost": "its process is gone, and nobody knows how it ended",
            "stopped": "the run was stopped",
        }
        return words.get(self.kind) or self._by_itself()

    @property
    def exit_code(self) -> int | None:
        """None where a signal ended it, or nobody knows."""
        if self.status is None or not os.WIFEXITED(self.status):
            return None
        return os.WEXITSTATUS(self.status)

    def _by_itself(self) -> str:
        if self.status is not None and os.WIFSIGNALED(self.status):
            return self._by_signal(os.WTERMSIG(self.status))
        if self.exit_code == CUT_OFF:
            return "it closed the descriptors through which its process tells what happens"
        if self.exit_code and _REFUSED in self.output:
            return "it ended its process with os._exit(0)"
        return f"it ended its process with exit code {self.exit_code}"

    def _by_signal(self, number: int) -> str:
        if number == signal.SIGKILL and self.starved:
            return "killed by SIGKILL: the system ran out of memory"
        try:
            name = signal.Signals(number).name
        except ValueError:
            name = f"signal {number}"
        meaning = _MEANING.get(number)  # type: ignore[call-overload]
        return f"killed by {name}: {meaning}" if meaning else f"killed by {name}"

    @property
    def text(self) -> str:
        """What there is to read of it."""
        parts = []
        if self.output:
            parts.append(f"last output:\n{self.output}")
        if self.stacks:
            parts.append(f"stacks:\n{self.stacks}")
        return "\n\n".join(parts)
