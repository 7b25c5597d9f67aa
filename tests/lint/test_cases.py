"""Each case breaks one rule, where it says so; its siblings are right and draw no alarm."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from optest.lint import catalogue
from optest.lint.run import lint

CASES = Path(__file__).parent / "cases"
OP_TESTS = Path(__file__).parents[2] / "op_tests"
FILES = sorted(CASES.rglob("*.py"))
BROKEN = [path for path in FILES if path.parent.name == "bad"]


def expected(path):
    """What ``# expect: OT101`` comments in a file announce: lines and codes."""
    lines = enumerate(path.read_text().splitlines(), 1)
    return [(n, code) for n, line in lines for code in re.findall(r"# expect: (OT\d+)", line)]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(CASES)))
def test_what_is_announced_is_found_and_nothing_else(path):
    report = lint([path])
    assert not report.unreadable
    assert report.linted == 1
    assert [(v.line, v.code) for v in report.violations] == expected(path)


@pytest.mark.parametrize("code", catalogue.RULES)
def test_every_rule_has_a_case_that_breaks_it_alone_and_a_correct_sibling(code):
    folder = CASES / code.lower()
    broken = [announced for p in (folder / "bad").glob("*.py") for announced in expected(p)]
    assert broken
    assert {found for _, found in broken} == {code}
    assert list((folder / "good").glob("*.py"))
    assert not [p for p in (folder / "good").glob("*.py") if expected(p)]


def test_no_case_of_a_rule_that_is_gone():
    assert {p.name.upper() for p in CASES.iterdir()} == set(catalogue.RULES)


@pytest.mark.parametrize("path", BROKEN, ids=lambda path: str(path.relative_to(CASES)))
def test_messages_say_what_to_write(path):
    """A message that only complains leaves its reader with the standard to search."""
    for violation in lint([path]).violations:
        assert re.search(
            r"\b(write|put|pass|make|move|call|leave|list|set|end|sweep|return|begin|start"
            r"|record|keep|compare|collect|merge|import|build|delete)\b",
            violation.message,
        ), violation.message
        assert "\n" not in violation.message


def test_our_own_op_tests_are_clean():
    report = lint([OP_TESTS])
    assert report.linted >= 6
    assert report.violations == []
