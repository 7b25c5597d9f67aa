"""The launches of one op test on one card, found by running it with tensors that hold nothing."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

from optest.cases import collecting
from optest.cases import session as sessions
from optest.cases.row import ERROR_COLUMN
from optest.cases.session import Session
from optest.lowering import pretend, stand_ins
from optest.lowering.card import Card
from optest.lowering.launches import Launch, Seen, intercepted
from optest.lowering.values import Factories, Values, fakes

_LONGEST_WORDS = 400


@dataclass
class Found:
    """What an op test launches.

    Attributes:
        launches: each kernel in each specialisation, with the first case that asked for it.
        cases: how many were run.
        gated: why the op test does not run on this card; empty where it does.
        faults: what kept launches from being seen, each with its case.
        notes: of a candidate's call that asked for a value that is not known.
        remarks: the same of the test around it, where it is most often about a tolerance.
        files: whose content decided all this.
    """

    launches: list[tuple[Launch, str]] = field(default_factory=list)
    cases: int = 0
    gated: str = ""
    faults: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)


def collect(path: Path, card: Card, words: Sequence[str] | None, *, smoke: bool) -> Found:
    """Run the op test's sweep as ``card`` and see what is launched. Once in a process.

    Raises:
        UsageError: the file cannot be imported.
    """
    read = _files_read()
    pretend.card(card)
    calls = stand_ins.Calls()
    stand_ins.install(calls)
    found, seen = Found(), Seen()
    module = collecting.load(path)
    found.files = sorted({*read, *_modules()} - {""})
    if not collecting.has_cases(module):
        found.gated = "no @benchmark() function with a main() that calls it"
        return found
    argv = [*(collecting.smoke_arguments(module) if smoke else ()), *(words or ())]
    collected = collecting.collect(module, argv)
    if collected.gated:
        found.gated = collected.gated
    else:
        _run(module, argv, collected, found, seen, calls, card)
    found.launches = [(launch, seen.first[key]) for key, launch in seen.launches.items()]
    found.files = sorted({*read, *_modules()} - {""})
    return found


def _run(  # noqa: PLR0913, PLR0917 - the parts of one run
    module: ModuleType,
    argv: Sequence[str],
    collected: collecting.Found,
    found: Found,
    seen: Seen,
    calls: stand_ins.Calls,
    card: Card,
) -> None:
    values = Values(lambda: calls.inside)
    session = Session(mode="check", guards="off", judged_by="")
    with ExitStack() as stack:
        stack.enter_context(sessions.using(session))
        stack.enter_context(intercepted(card, seen, values.forget))
        for mode in (Factories(values), fakes(), values):
            stack.enter_context(mode)
        if collected.whole:
            seen.case = f"{Path(str(module.__file__)).name} run whole"
            with _told(values, calls, seen.case, found), collecting.arguments(module, argv):
                module.main()
            return
        for case in collected.cases:
            seen.case = case.id
            with _told(values, calls, case.id, found):
                row = collecting.run(session, case)
                if row.get(ERROR_COLUMN):
                    found.faults.append(f"{case.id}: {_brief(row[ERROR_COLUMN])}")
            found.cases += 1


@contextmanager
def _told(values: Values, calls: stand_ins.Calls, case: str, found: Found) -> Iterator[None]:
    """What went wrong inside is told as this case's."""
    values.guessed.clear()
    calls.raised.clear()
    try:
        yield
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever it is keeps launches unseen
        if not isinstance(error, SystemExit) or error.code not in (None, 0):
            found.faults.append(f"{case}: {_brief(f'{type(error).__name__}: {error}')}")
    found.faults += [f"{case}: {_brief(words)}" for words in dict.fromkeys(calls.raised)]
    for inside, told in ((True, found.notes), (False, found.remarks)):
        asked = ", ".join(dict.fromkeys(name for name, where in values.guessed if where is inside))
        if asked:
            told.append(f"{case}: values that are not known were taken for 0 ({asked})")


def _brief(words: object) -> str:
    """Of what torch says: it lists every backend there is after the line that says something."""
    first = str(words).strip().partition("\n")[0]
    return first if len(first) <= _LONGEST_WORDS else f"{first[:_LONGEST_WORDS]}…"


def _files_read() -> set[str]:
    """Fills with the files that are opened from now on: an op test may read its shapes from one."""
    read: set[str] = set()

    def heard(event: str, arguments: tuple[object, ...]) -> None:
        if event == "open" and isinstance(arguments[0], str) and arguments[1] in ("r", "rb"):
            name = arguments[0]
            if not name.endswith(".pyc") and _is_ours(name) and Path(name).is_file():
                read.add(str(Path(name).resolve()))

    sys.addaudithook(heard)
    return read


def _modules() -> Iterator[str]:
    """The sources of modules that are no part of Python or of what is installed."""
    for module in list(sys.modules.values()):
        name = getattr(module, "__file__", None)
        if isinstance(name, str) and name.endswith(".py") and _is_ours(name):
            yield str(Path(name).resolve())


_INSTALLED = tuple({sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")})
_PASSING = ("/proc/", "/sys/", "/dev/", "/tmp/triton", "/etc/")  # noqa: S108 - compared only


def _is_ours(name: str) -> bool:
    return not name.startswith((*_INSTALLED, *_PASSING))
