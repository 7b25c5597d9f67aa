"""The op tests of this repository kill every gross mutant, and the page says so of each."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from optest import native
from optest.cli.main import app
from optest.mutate.graded import LADDERS
from optest.mutate.gross import GROSS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/mutants.md").read_text()
FILES = sorted((ROOT / "op_tests").glob("test_*.py"))
ON_CARDS_ALONE = {"test_all_reduce_cards"}
FUNCTIONS = [
    f"{path.name}::{name}"
    for path in FILES
    for name in re.findall(r"@benchmark\(.*\)\ndef (\w+)", path.read_text())
    if name not in ON_CARDS_ALONE
]


@pytest.mark.skipif(not native.available(), reason=str(native.why_not()))
@pytest.mark.parametrize("name", ["test_kvcache.py", "test_gemm_a16w16.py"])
def test_the_quickest_op_tests_kill_every_gross_mutant(name):
    """All six take minutes: scripts/test runs them apart."""
    result = CliRunner().invoke(app, ["mutate", str(ROOT / "op_tests" / name)])
    assert result.exit_code == 0, result.stdout
    assert "Left out" not in result.stdout


def test_the_page_has_a_row_for_every_test_function():
    rows = PAGE.partition("### Gross mutants killed")[2].partition("###")[0]
    in_matrix = re.findall(r"^\| (test_\S+)", rows, re.MULTILINE)
    assert in_matrix == FUNCTIONS
    assert "**" not in rows, "a survivor stands in the page"


@pytest.mark.parametrize("name", [*GROSS, *(ladder.name for ladder in LADDERS)])
def test_the_page_explains_every_mutant(name):
    explained, _, matrix = PAGE.partition("<!-- below: scripts/mutants -->")
    assert re.search(rf"^\| {name} +\|", explained, re.MULTILINE)
    assert f" {name} " in matrix
