"""docs/compatibility.md keeps its word: the tests that it names are there, no claim lacks one."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/compatibility.md"
HEAD = ["the document says", "status", "test"]
STATUS = re.compile(r"works|works differently \(.+\)|does not apply \(.+\)")
TEST = re.compile(r"`(tests/[\w/]+\.py)::([\w:]+)(?:\[[^`]*\])?`")


def rows_of(page):
    """Line number and cells of every table row, heads and rules left out."""
    for number, line in enumerate(page.splitlines(), 1):
        if line.startswith("|") and not set(line) <= set("|-: "):
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip()[1:-1])]
            if cells != HEAD:
                yield number, cells


@functools.cache
def names_in(file):
    """Names of a file's functions, those in classes as ``Class::name``."""
    found = set()
    for node in ast.parse((ROOT / file).read_text()).body:
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            inner = [each for each in node.body if isinstance(each, ast.FunctionDef)]
            found |= {f"{node.name}::{each.name}" for each in inner}
    return found


def complaints(page):
    """What is wrong with a page, one line each."""
    for number, cells in rows_of(page):
        if len(cells) != len(HEAD):
            yield f"line {number}: {len(cells)} cells, expected {', '.join(HEAD)}"
            continue
        said, status, proof = cells
        if not said or not STATUS.fullmatch(status):
            yield f"line {number}: status {status!r}: expected works, or another with (why)"
        named = TEST.findall(proof)
        if status.startswith("works") and not named:
            yield f"line {number}: {said!r} names no test"
        if TEST.sub("", proof).strip(" ,"):
            yield f"line {number}: {TEST.sub('', proof)!r}: expected `tests/file.py::test_name`"
        for file, name in named:
            if not (ROOT / file).is_file() or name not in names_in(file):
                yield f"line {number}: there is no {file}::{name}"


def test_every_claim_is_proved_by_a_test_that_exists():
    page = PAGE.read_text()
    assert list(rows_of(page))
    assert list(complaints(page)) == []


HERE = "`tests/test_compatibility.py::test_every_claim_is_proved_by_a_test_that_exists`"


@pytest.mark.parametrize(
    ("row", "wrong"),
    [
        (f"| a | works | {HERE} |", ""),
        (f"| a \\| b | works differently (c) | {HERE}, {HERE} |", ""),
        ("| a | does not apply (b) | |", ""),
        ("| a | works | |", "names no test"),
        ("| a | works differently (b) | |", "names no test"),
        (f"| a | works differently | {HERE} |", "status"),
        (f"| a | should work | {HERE} |", "status"),
        ("| a | does not apply | |", "status"),
        ("| a | works | `tests/test_compatibility.py::test_nope` |", "there is no"),
        ("| a | works | `tests/test_nope.py::test_nope` |", "there is no"),
        (f"| a | works | {HERE} and more |", "expected"),
        ("| a | works |", "cells"),
    ],
)
def test_a_row_that_does_not_hold_is_named(row, wrong):
    said = list(complaints(f"| {' | '.join(HEAD)} |\n|---|---|---|\n{row}\n"))
    assert (not said) if not wrong else (len(said) == 1 and wrong in said[0])
