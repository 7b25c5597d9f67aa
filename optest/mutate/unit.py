"""What is run again for each mutant: a case, or a whole script that cannot be split into cases."""

from __future__ import annotations

import contextlib
import io
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from optest import settings
from optest.cases import collecting
from optest.cases import session as sessions
from optest.cases.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import ModuleType

    from optest.cases.session import Collected
    from optest.cases.tamper import Tamper


@dataclass(frozen=True)
class Unit:
    """A case, or a script that is run whole.

    Attributes:
        id: of the case; of a whole script its file's name.
        function: name of the test function, with its file.
        module: the script.
        case: None where the script is run whole.
        argv: its command line then.
    """

    id: str
    function: str
    module: ModuleType
    case: Collected | None = None
    argv: Sequence[str] = field(default=())

    def run(self, tamper: Tamper, seed: int = 0) -> list[str]:
        """Run it under ``tamper``, quietly; returns why it failed, nothing where it passed.

        ``seed`` is added to OPTEST_SEED: another gives other inputs.
        """
        mixed_in = settings.get_int("OPTEST_SEED") + seed
        session = Session(mode="check", judged_by="", seed=mixed_in, tamper=tamper)
        with sessions.using(session), _quiet():
            said = self._run(session)
        reasons = [f"{failure.status}: {failure.reason}" for failure in session.failures]
        return reasons or said

    def _run(self, session: Session) -> list[str]:
        if self.case is not None:
            collecting.run(session, self.case)
            return []
        try:
            with collecting.arguments(self.module, self.argv):
                self.module.main()
        except SystemExit as stop:
            if session.interrupted:
                raise
            return [f"main() exited {stop.code}"] if stop.code not in (None, 0) else []
        except Exception as error:  # noqa: BLE001 - whatever a script makes of wrong results
            return [f"main() raised {type(error).__name__}: {error}"]
        return []


def units_of(module: ModuleType, found: collecting.Found, argv: Sequence[str]) -> list[Unit]:
    """What of an op test is mutated, each by itself."""
    if found.whole:
        file = os.path.basename(str(module.__file__))  # noqa: PTH119 - text in, text out
        return [Unit(file, f"{file} (run whole)", module, None, argv)]
    return [Unit(c.id, c.id.partition("[")[0], module, c) for c in found.cases]


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Hundreds of failures are on purpose: no log, no tables, no tensors kept."""
    kept = os.environ.pop("OPTEST_SAVE_FAILED", None)
    sink = io.StringIO()
    try:
        with contextlib.redirect_stdout(sink), contextlib.redirect_stderr(sink):
            yield
    finally:
        if kept is not None:
            os.environ["OPTEST_SAVE_FAILED"] = kept
