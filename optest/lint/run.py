"""Lint files and folders."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from optest.errors import UsageError
from optest.lint import catalogue
from optest.lint.finding import Unreadable, Violation
from optest.lint.noqa import Noqa, noqas
from optest.lint.rules_noqa import NO_REASON, NO_USE
from optest.lint.script import Script
from optest.lint.source import Source, read

_SKIPPED_FOLDERS = {"__pycache__", "node_modules"}


@dataclass
class Report:
    """What a run found.

    Attributes:
        violations: in the order of paths and lines.
        unreadable: files that could not be read or parsed.
        linted: how many op tests were held to the rules.
        passed_over: files that were named and are no op tests.
    """

    violations: list[Violation] = field(default_factory=list)
    unreadable: list[Unreadable] = field(default_factory=list)
    linted: int = 0
    passed_over: list[Path] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """2 where a file could not be read, 1 where a rule is broken, else 0."""
        return 2 if self.unreadable else int(bool(self.violations))


def lint(paths: Sequence[Path], codes: frozenset[str] | None = None) -> Report:
    """Hold the op tests among ``paths``, and in the folders among them, to the rules.

    An op test is a file named ``test_*.py`` that imports ``benchmark``, ``run_perftest`` or
    ``checkAllclose``; all others pass.

    Args:
        paths: files and folders.
        codes: rules to look for; None is all.

    Raises:
        UsageError: a path that does not exist.
    """
    for path in paths:
        if not path.exists():
            raise UsageError(f"{str(path)!r}: there is no such file or folder")
    report = Report()
    wanted = frozenset(catalogue.RULES) if codes is None else codes
    for path in _files(paths):
        try:
            _lint(path, wanted, report, named=path in paths)
        except UsageError as error:
            report.unreadable.append(Unreadable(path, str(error)))
        except RecursionError:
            report.unreadable.append(Unreadable(path, "is nested too deeply to be judged"))
    return report


def _lint(path: Path, codes: frozenset[str], report: Report, *, named: bool) -> None:
    script = Script(read(path))
    if _is_op_test(script):
        report.violations += violations(script, codes)
        report.linted += 1
    elif named:
        report.passed_over.append(path)


def violations(script: Script, codes: frozenset[str]) -> list[Violation]:
    """What a file breaks, without what its ``noqa`` comments except; and those comments."""
    found: set[Violation] = set()
    for code in sorted(codes):
        for hit in catalogue.RULES[code].check(script):
            line, column, last = script.source.at(hit.node)
            found.add(Violation(script.source.path, line, column, code, hit.message, last))
    comments = noqas(script.source)
    kept = [v for v in found if not any(_covers(noqa, v) for noqa in comments)]
    judged = _judge(script.source, comments, found, codes)
    return sorted([*kept, *judged])


def _covers(noqa: Noqa, violation: Violation) -> bool:
    return violation.code in noqa.codes and violation.line <= noqa.line <= violation.last_line


def _judge(
    source: Source, comments: list[Noqa], found: set[Violation], codes: frozenset[str]
) -> Iterator[Violation]:
    for noqa in comments:
        at = source.path, noqa.line, noqa.column
        if not noqa.reason and NO_REASON in codes:
            message = f"this noqa gives no reason: write # noqa: {', '.join(noqa.codes)} and why"
            yield Violation(*at, NO_REASON, message, noqa.line)
        for code in noqa.codes:
            looked_for = code in codes or code not in catalogue.RULES
            used = any(v.code == code and _covers(noqa, v) for v in found)
            if NO_USE in codes and looked_for and not used:
                why = "breaks nothing here" if code in catalogue.RULES else "is no rule"
                message = f"this noqa suppresses nothing, since {code} {why}: delete it"
                yield Violation(*at, NO_USE, message, noqa.line)


def _is_op_test(script: Script) -> bool:
    name = script.source.path.name
    return name.startswith("test_") and script.names.marks_an_op_test()


def _files(paths: Iterable[Path]) -> list[Path]:
    """Files as named, and ``test_*.py`` of folders; each once, in order."""
    found: dict[Path, Path] = {}
    for path in paths:
        for each in _in_folder(path) if path.is_dir() else [path]:
            found.setdefault(each.resolve(), each)
    return list(found.values())


def _in_folder(folder: Path) -> list[Path]:
    out: list[Path] = []
    for top, folders, files in os.walk(folder):
        folders[:] = [f for f in folders if not _skipped(Path(top) / f)]
        out += [Path(top) / f for f in files if f.startswith("test_") and f.endswith(".py")]
    return sorted(out)


def _skipped(folder: Path) -> bool:
    environment = (folder / "pyvenv.cfg").exists()
    return folder.name.startswith(".") or folder.name in _SKIPPED_FOLDERS or environment
