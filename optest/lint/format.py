"""How findings are printed: text for people, JSON for programs, annotations for GitHub."""

from __future__ import annotations

import json
from collections.abc import Callable

from optest.lint.catalogue import RULES
from optest.lint.finding import Violation
from optest.lint.run import Report


def text(report: Report) -> str:
    """``path:line:column: OT101 what is wrong``, one a line; unreadable files likewise."""
    lines = [f"{v.path}:{v.line}:{v.column}: {v.code} {v.message}" for v in report.violations]
    lines += [f"{each.path}: error: {each.reason}" for each in report.unreadable]
    return _joined(lines)


def as_json(report: Report) -> str:
    """One object: ``violations``, ``errors``, and how many files were ``linted``."""
    found = {
        "linted": report.linted,
        "violations": [_record(violation) for violation in report.violations],
        "errors": [{"path": str(e.path), "message": e.reason} for e in report.unreadable],
    }
    return json.dumps(found, indent=2) + "\n"


def github(report: Report) -> str:
    """Workflow commands, which GitHub shows beside the lines of a pull request."""
    lines = [
        f"::error file={_property(str(v.path))},line={v.line},col={v.column},"
        f"title={_property(f'{v.code} {RULES[v.code].name}')}::{_data(v.message)}"
        for v in report.violations
    ]
    lines += [
        f"::error file={_property(str(each.path))}::{_data(each.reason)}"
        for each in report.unreadable
    ]
    return _joined(lines)


FORMATS: dict[str, Callable[[Report], str]] = {"text": text, "json": as_json, "github": github}


def _record(violation: Violation) -> dict[str, object]:
    return {
        "path": str(violation.path),
        "line": violation.line,
        "column": violation.column,
        "code": violation.code,
        "name": RULES[violation.code].name,
        "message": violation.message,
    }


def _data(text_: str) -> str:
    return text_.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text_: str) -> str:
    return _data(text_).replace(":", "%3A").replace(",", "%2C")


def _joined(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
