"""How a sweep was asked for, and how it is asked for again."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optest import settings
from optest.errors import UsageError
from optest.sweep.executor import Job, Limits
from optest.sweep.filters import Filters

if TYPE_CHECKING:
    from collections.abc import Mapping

    from typing_extensions import Self

# What a run is: going on with it under another value would mix two runs in one.
_FIXED = ("paths", "words", "smoke", "mode", "guards", "keep", "function", "file", "arch")
_TUPLES = ("paths", "words")


@dataclass(frozen=True)
class Request:
    """A sweep as asked for; None, or an empty tuple of paths, is what was not said.

    Attributes:
        paths: op tests and folders of them, as ``files.name_of`` has them.
        words: the op tests' own arguments.
        smoke: each script's ``SMOKE`` list instead of arguments.
        mode: run or check.
        timeout_s: of each case.
        jobs: cases at a time.
        executor: local or ray.
        address: of a Ray cluster.
    """

    paths: tuple[str, ...] = ()
    words: tuple[str, ...] | None = None
    smoke: bool | None = None
    mode: str | None = None
    guards: str | None = None
    keep: str | None = None
    function: str | None = None
    file: str | None = None
    arch: str | None = None
    timeout_s: float | None = None
    memory_bytes: int | None = None
    output_bytes: int | None = None
    jobs: int | None = None
    executor: str | None = None
    address: str | None = None

    def arguments(self) -> dict[str, Any]:
        """What was said, as a store keeps it."""
        said = {each.name: getattr(self, each.name) for each in fields(self)}
        for name in _TUPLES:
            said[name] = None if said[name] is None else list(said[name])
        return {name: value for name, value in said.items() if value not in (None, [])}

    @classmethod
    def from_arguments(cls, arguments: Mapping[str, Any]) -> Self:
        """The inverse of ``arguments``."""
        known = {each.name: arguments[each.name] for each in fields(cls) if each.name in arguments}
        for name in _TUPLES:
            if name in known:
                known[name] = tuple(known[name])
        return cls(**known)

    def resuming(self, stored: Request, run: str) -> Request:
        """``stored``, with what is said here of how, not of what, it is run.

        Raises:
            UsageError: something said here makes it another run.
        """
        for name in _FIXED:
            said, before = getattr(self, name), getattr(stored, name)
            if said not in (None, ()) and said != before:
                raise UsageError(
                    f"--resume {run}: it was started with {_shown(name, before)}, not with "
                    f"{_shown(name, said)}. Leave that out, or start another run without --resume."
                )
        later = {
            each.name: getattr(self, each.name)
            for each in fields(self)
            if each.name not in _FIXED and getattr(self, each.name) is not None
        }
        return replace(stored, **later)

    def settled(self) -> Request:
        """The same with mode and guards as the environment, or the defaults, have them.

        Raises:
            SettingError: a variable holds what its row of the settings table does not allow.
        """
        mode = self.mode or ("check" if settings.get("OPTEST_MODE") == "check" else "run")
        by_mode = "full" if mode == "check" else "cheap"
        asked = settings.get_str("OPTEST_GUARDS") if "OPTEST_GUARDS" in settings.given() else ""
        return replace(self, mode=mode, guards=self.guards or asked or by_mode)

    def job(self, folder: Path) -> Job:
        """How the op tests are to be run; of a settled request."""
        limits = Limits()
        assert self.mode is not None
        assert self.guards is not None
        return Job(
            argv=None if self.smoke else self.words or (),
            mode=self.mode,
            guards=self.guards,
            folder=folder,
            limits=Limits(
                self.timeout_s or limits.seconds,
                self.memory_bytes or limits.memory_bytes,
                self.output_bytes or limits.output_bytes,
            ),
        )

    @property
    def filters(self) -> Filters:
        """Which op tests and cases it is about."""
        return Filters(self.keep or "", self.function or "", self.file or "", self.arch or "")


_OPTIONS = {
    "smoke": "--smoke",
    "guards": "--guards",
    "keep": "-k",
    "function": "--function",
    "file": "--file",
    "arch": "--arch",
}


def _shown(name: str, value: object) -> str:
    """How the command line spells it."""
    words = " ".join(value) if isinstance(value, tuple) else str(value)
    if name == "paths":
        return words or "no path"
    if name == "words":
        return f"-- {words}" if words else "no arguments of the op tests"
    if name == "mode":
        return "--check" if value == "check" else "no --check"
    if name == "smoke":
        return "--smoke" if value else "no --smoke"
    return f"{_OPTIONS[name]} {words}" if value else f"no {_OPTIONS[name]}"
