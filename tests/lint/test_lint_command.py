"""``optest lint`` as a command: exit codes, formats, explanations, the page of the rules."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from optest.cli.main import app
from optest.lint import catalogue
from optest.lint.document import explanation, page

ROOT = Path(__file__).parents[2]
CASES = ROOT / "tests/lint/cases"
GOOD = CASES / "ot104/good/test_as_written.py"
BAD = CASES / "ot204/bad/test_no_gfx.py"


def run(*words):
    return CliRunner().invoke(app, ["lint", *map(str, words)])


def test_clean_is_0_and_silent_on_standard_output():
    result = run(GOOD)
    assert (result.exit_code, result.stdout) == (0, "")
    assert "1 op tests, 0 violations" in result.stderr


def test_text_is_one_line_for_each_violation_and_exit_code_1():
    result = run(BAD)
    (line,) = result.stdout.splitlines()
    assert result.exit_code == 1
    assert line.startswith(f"{BAD}:19:1: OT204 test_scale: the row does not say on which card")


def test_json():
    found = json.loads(run("--format", "json", BAD, GOOD).stdout)
    assert (found["linted"], found["errors"]) == (2, [])
    (violation,) = found["violations"]
    assert violation.keys() == {"path", "line", "column", "code", "name", "message"}
    assert (violation["line"], violation["column"], violation["code"]) == (19, 1, "OT204")


def test_github_escapes_what_would_end_a_command(tmp_path):
    path = tmp_path / "a,b:c%.d" / "test_x.py"
    path.parent.mkdir()
    path.write_text(BAD.read_text())
    (line,) = run("--format", "github", path).stdout.splitlines()
    head, _, message = line.removeprefix("::").partition("::")
    assert head.startswith("error file=")
    assert "a%2Cb%3Ac%25.d/test_x.py,line=19,col=1,title=OT204 no gfx column" in head
    assert message.startswith("test_scale: the row")


@pytest.mark.parametrize("form", ["text", "json", "github"])
def test_a_file_that_is_no_python_is_2_in_every_format(form, tmp_path):
    (tmp_path / "test_x.py").write_text("def f(:\n")
    result = run("--format", form, tmp_path)
    assert result.exit_code == 2
    assert "line 1: invalid syntax" in result.stdout
    assert "Traceback" not in result.stdout + result.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "no path is given"),
        (("gone",), "'gone': there is no such file or folder"),
        (("--format", "xml", GOOD), "--format 'xml': expected one of text, json, github"),
        (("--select", "OT9", GOOD), "--select 'OT9': expected codes such as OT101"),
        (("--ignore", "E501", GOOD), "--ignore 'E501': expected codes such as OT101"),
        (("--explain", "OT9"), "--explain 'OT9': expected one of OT001"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(words, said):
    result = run(*words)
    (line,) = result.stderr.splitlines()
    assert (result.exit_code, result.stdout) == (2, "")
    assert line.startswith(f"[optest] ERROR: {said}")


def test_select_and_ignore():
    assert run("--select", "OT2", BAD).exit_code == 1
    assert run("--select", "OT1,OT3", BAD).exit_code == 0
    assert run("--ignore", "OT204", BAD).exit_code == 0


def test_a_named_file_that_is_no_op_test_is_warned_about():
    result = run(Path(__file__))
    assert result.exit_code == 0
    assert "is not held to the rules" in result.stderr


def test_explain_shows_both_examples():
    result = run("--explain", "ot201")
    assert result.exit_code == 0
    rule = catalogue.RULES["OT201"]
    assert result.stdout == explanation(rule)
    assert rule.bad in result.stdout
    assert rule.good in result.stdout


def test_the_page_is_the_one_made_from_the_rules():
    assert (ROOT / "docs/lint.md").read_text() == page()


def test_every_rule_is_on_the_page_once():
    text = page()
    assert all(text.count(f"### {code}: ") == 1 for code in catalogue.RULES)


def test_linting_imports_neither_torch_nor_the_file(tmp_path):
    (tmp_path / "test_x.py").write_text(f"raise SystemExit(7)\n{BAD.read_text()}")
    code = (
        "import sys; from optest.cli.main import app\n"
        f"try: app(['lint', {str(tmp_path)!r}])\n"
        "except SystemExit as stop: print(stop.code, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "1 False"
