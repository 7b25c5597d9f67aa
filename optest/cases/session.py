"""The session: what this process was asked to do, and what came of it. One per process."""

from __future__ import annotations

import os
import weakref
from collections import Counter
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from optest import settings
from optest.cases.events import Events
from optest.cases.matching import matcher
from optest.errors import SettingError
from optest.log import logger, once, set_level

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from optest.cases.case import Case
    from optest.cases.row import Row
    from optest.cases.tamper import Tamper
    from optest.checking import Verdict
    from optest.guards.finding import Finding


OUTSIDE = "(outside any case)"


@dataclass(frozen=True)
class Failure:
    """A case, or a check outside any case, that did not pass."""

    case_id: str
    status: str
    reason: str


@dataclass(frozen=True)
class Collected:
    """A case that collect mode recorded: calling ``function(**arguments)`` later runs it."""

    id: str
    function: Callable[..., Any]
    arguments: dict[str, Any]


@dataclass
class Session:
    """Mode, filter and sink, and the running totals.

    ``mode`` is run (measure and check), check (no timing loops) or collect (record, run nothing).
    ``guards`` is off, cheap or full. ``judged_by`` says who acts on failures: the process at its
    exit, pytest, or the empty string for a caller that looks itself. ``tamper`` stands between the
    candidates and the test: it may change what they made. ``tables``, in collect mode, is what
    ``summarize`` called the table of each case that it was handed, by the case's id.
    """

    mode: str = "run"
    guards: str = "cheap"
    only: frozenset[str] | None = None
    only_pattern: str = ""
    seed: int = 0
    events: Events | None = None
    totals: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    collected: list[Collected] = field(default_factory=list)
    tables: dict[str, str] = field(default_factory=dict)
    interrupted: bool = False
    filtered: int = 0
    judged_by: str = "exit"
    expecting_failure: int = 0
    expected_seen: int = 0
    script_functions: int = 0
    unprinted: list[weakref.ref[Row]] = field(default_factory=list)
    last_reseed: int | None = None
    tamper: Tamper | None = None
    _times_seen: Counter[int] = field(default_factory=Counter)

    @classmethod
    def from_environment(cls) -> Session:
        """A session as the environment asks for it.

        Raises:
            SettingError: a variable holds something its row of the settings table does not allow.
        """
        warnings = settings.validate()
        set_level(logger)
        for warning in warnings:
            once(warning)
        sink = settings.get_path("OPTEST_EVENTS")
        only, pattern = _only(settings.get("OPTEST_ONLY"))
        return cls(
            mode=settings.get_str("OPTEST_MODE"),
            guards=settings.get_str("OPTEST_GUARDS"),
            only=only,
            only_pattern=pattern,
            seed=settings.get_int("OPTEST_SEED"),
            events=Events(sink) if sink else None,
        )

    @property
    def case(self) -> Case | None:
        """The case that runs in this thread. A thread that a case starts has none of its own."""
        return _running.get().get(id(self))

    @case.setter
    def case(self, case: Case | None) -> None:
        _running.set({**_running.get(), id(self): case})

    def expect_nth(self, identity: str, nth: int) -> None:
        """Make the next ``nth(identity)`` return ``nth``: an item that runs alone keeps its id."""
        self._times_seen[hash(identity)] = nth - 1

    def nth(self, identity: str) -> int:
        """How often this id was asked for, this time included; hashes keep long sweeps small."""
        self._times_seen[hash(identity)] += 1
        return self._times_seen[hash(identity)]

    def wants(self, case_id: str) -> bool:
        """Whether the only-list, if there is one, names this case."""
        if self.only_pattern:
            return matcher(self.only_pattern).fullmatch(case_id) is not None
        return self.only is None or case_id in self.only

    def emit(self, event: str, **fields: object) -> None:
        """Write to the sink, if there is one."""
        if self.events is not None:
            self.events.write(event, **fields)

    def note_check(self, verdict: Verdict, reason: str) -> None:
        """Record a verdict with the running case, or with the process where no case runs."""
        if self.expecting_failure:
            self.expected_seen += not verdict.passed
            return
        if self.case is not None:
            self.case.verdicts.append(verdict)
        if not verdict.passed:
            self.note_failure(reason)

    def note_failure(self, reason: str) -> None:
        """Record that something was wrong, against the running case or the process."""
        if self.case is not None:
            self.case.failures.append(reason)
        else:
            self.failures.append(Failure(OUTSIDE, "failed", reason))
            self.totals["failed checks outside cases"] += 1

    def note_finding(self, finding: Finding) -> None:
        """Record what a guard found; under cheap guards, what a test can declare is a warning."""
        if finding.declarable and self.guards != "full":
            where = f"{self.case.file}::{self.case.function}: " if self.case else ""
            once(f"{where}{finding}")
            return
        if self.case is not None:
            if finding in self.case.findings:
                return
            self.case.findings.append(finding)
        logger.error("%s", finding)
        self.note_failure(str(finding))

    @property
    def ran(self) -> int:
        """Cases that ran, whatever came of them."""
        return sum(self.totals[status] for status in ("passed", "failed", "error", "empty"))


def _only(value: object) -> tuple[frozenset[str] | None, str]:
    if value is None:
        return None, ""
    text = str(value)
    if "::" in text:
        return None, text
    try:
        lines = Path(text).expanduser().read_text(encoding="utf-8").splitlines()
    except (OSError, RuntimeError, UnicodeDecodeError) as error:  # RuntimeError: ~ of no user
        message = f"OPTEST_ONLY={text!r}: expected a file of case ids, one a line, or one case id"
        reason = "not UTF-8 text" if isinstance(error, UnicodeDecodeError) else error
        raise SettingError(f"{message} ({getattr(error, 'strerror', reason)}).") from None
    return frozenset(line.strip() for line in lines if line.strip()), ""


_running: ContextVar[dict[int, Case | None]] = ContextVar("running", default={})  # noqa: B039
_current: Session | None = None
_pid = 0


def current() -> Session:
    """The session of this process, set up from the environment on first use.

    A forked child gets a session of its own with the same sink: its counts are not its parent's.

    Raises:
        SystemExit: with status 2 and one line on standard error, where a variable is wrong.
    """
    global _current, _pid
    if _current is None or _pid != os.getpid():
        try:
            _current, _pid = Session.from_environment(), os.getpid()
        except SettingError as error:
            for line in str(error).splitlines():
                logger.error("%s", line)
            raise SystemExit(2) from None
    return _current


@contextmanager
def using(session: Session) -> Iterator[Session]:
    """Make ``session`` the current one inside: pytest and tests bring their own."""
    global _current, _pid
    before = _current, _pid
    _current, _pid = session, os.getpid()
    try:
        yield session
    finally:
        _current, _pid = before


@contextmanager
def expect_failure() -> Iterator[None]:
    """Checks inside are meant to fail; it is a failure if none of them does."""
    session = current()
    session.expecting_failure += 1
    seen = session.expected_seen
    try:
        yield
    finally:
        session.expecting_failure -= 1
    if session.expected_seen == seen and not session.expecting_failure:
        session.note_failure("expect_failure(): a check was meant to fail and none did")


_CHANGES_RESULTS = (
    "OPTEST_SEED",
    "OPTEST_GFX",
    "OPTEST_ISA",
    "OPTEST_CACHE",
    "OPTEST_GUARDS",
    "OPTEST_NATIVE",
)


def rerun_command(case_id: str, argv: Sequence[str]) -> str:
    """A shell line that runs one case alone, ``OPTEST_ONLY`` first, under the same settings.

    Where the program came from ``-c`` or standard input there is no such line: it says what to set.
    """
    import shlex
    import sys

    words = [f"OPTEST_ONLY={shlex.quote(case_id)}"]
    values = ((name, os.environ.get(name, "")) for name in _CHANGES_RESULTS)
    words += [f"{name}={shlex.quote(value)}" for name, value in values if value.strip()]
    if not argv or argv[0] in ("-c", "-", ""):
        source = argv[0] if argv and argv[0] else "standard input"
        return f"(run from {source}: set {' '.join(words)})"
    return " ".join((*words, *map(shlex.quote, (sys.executable or "python", *argv))))
