"""``optest mutate`` as a command: exit codes, one line for a mistake, nothing left unsaid."""

from __future__ import annotations

import json

import pytest
from small_op_tests import HEAD, SOUND, TAIL
from typer.testing import CliRunner

from optest.cli.main import app
from optest.log import logger

WEAK = SOUND.replace("checkAllclose(want, y,", "checkAllclose(want, want,")


@pytest.fixture
def command(tmp_path, monkeypatch):
    said = []
    monkeypatch.setattr(logger, "error", lambda message, *args: said.append(message % args))

    def go(*words):
        said.clear()
        result = CliRunner().invoke(app, ["mutate", *map(str, words)])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result, list(said)

    return go


MISTAKES = {
    "missing": (None, "nowhere.py", "no such file or folder"),
    "no_python": ("text", "notes.txt", "expected an op test (*.py)"),
    "empty_folder": (None, ".", "expected a folder with op tests"),
    "does_not_import": ("import no_such_thing\n", "test_x.py", "ModuleNotFoundError"),
    "does_not_parse": ("def (:\n", "test_x.py", "SyntaxError"),
    "leaves_at_import": ("raise SystemExit(3)\n", "test_x.py", "SystemExit: 3"),
    "no_cases": ("x = 1\n", "test_x.py", "no @benchmark() function"),
    "bad_smoke": (f"{HEAD}\nSMOKE = 'no list'\n{SOUND}{TAIL}", "test_x.py", "SMOKE='no list'"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_and_exit_code_2(mistake, command, tmp_path):
    text, name, words = MISTAKES[mistake]
    if text is not None:
        (tmp_path / name).write_text(text)
    result, said = command(tmp_path / name)
    assert result.exit_code == 2
    assert result.stdout == ""
    (line,) = said
    assert words in line
    assert "\n" not in line
    assert tmp_path.name in line or name in line


def test_a_pattern_without_a_case_and_a_file_that_cannot_be_written(command, tmp_path):
    (tmp_path / "test_x.py").write_text(HEAD + SOUND + TAIL)
    result, said = command(tmp_path, "-k", "m=7")
    assert (result.exit_code, said) == (2, ["-k 'm=7' matches no case"])
    result, said = command(tmp_path, "--json", tmp_path / "no" / "report.json")
    assert result.exit_code == 2
    assert "it cannot be written" in said[0]


def test_a_case_that_fails_as_it_is_has_no_mutants(mutate):
    done = mutate(SOUND.replace("want = x * 2", "want = x * 3"))
    assert done.code == 1
    (words,) = done.record["broken"]
    assert words.startswith("test_op.py::test_op[m=6] fails unmutated: failed: good: ")
    assert words in done.out
    assert done.record["trials"] == []


def test_a_file_for_another_card_is_said_and_passes(mutate):
    gated = TAIL.replace(
        "    parser =", "    return logger.warning('for gfx942 alone')\n    parser ="
    )
    done = mutate(SOUND, tail=gated)
    assert done.code == 0
    assert "for gfx942 alone" in done.out


def test_in_a_folder_what_is_no_op_test_is_said(command, tmp_path):
    (tmp_path / "test_x.py").write_text(HEAD + SOUND + TAIL)
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "test_unit.py").write_text("def test_one():\n    pass\n")
    result, said = command(tmp_path)
    assert (result.exit_code, said) == (0, [])
    assert "test_unit.py: no @benchmark() function" in result.stdout


def test_a_script_whose_main_needs_results_is_run_whole(mutate):
    tail = TAIL.replace("summarize(", "print(test_op(5)['good err'] + 1)\n    summarize(")
    done = mutate(SOUND, tail=tail)
    assert done.code == 0, done.out
    cases = {(t["where"]["case"], t["where"]["function"]) for t in done.record["trials"]}
    assert cases == {(f"test_op.py::test_op[m={m}]", "test_op.py::test_op") for m in (5, 6)}
    weak = mutate(WEAK, tail=tail)
    assert weak.code == 1
    assert {t["where"]["case"] for t in weak.survivors()} == {case for case, _ in cases}


def test_what_the_budget_leaves_out_is_said(mutate):
    done = mutate(SOUND, "--full", "--budget", "0.000001")
    assert done.code == 0
    assert {t["where"]["case"] for t in done.record["trials"]} == {"test_op.py::test_op[m=6]"}
    (words,) = done.record["left_out"]
    assert words == "test_op.py::test_op[m=70]: no time left (--budget 1e-06)"
    assert words in done.out


def test_a_case_without_run_perftest_proves_nothing(mutate):
    done = mutate(SOUND.replace("run_perftest(fn, x, y)", "(fn(x, y), 1.0)"))
    assert done.code == 5
    assert "it calls no run_perftest" in done.out


def test_a_candidate_without_a_visible_output_is_said(mutate):
    body = """
@benchmark()
def test_op(m):
    total, us = run_perftest(lambda x: float(x.sum()), torch.ones(m))
    return {"err": checkAllclose(torch.tensor(float(m)), torch.tensor(total))}
"""
    assert "candidate 1: no output was seen" in mutate(body).out


def test_an_exception_that_a_mutant_causes_is_a_rejection(mutate):
    done = mutate(SOUND.replace("ret[f", "assert torch.equal(y, want)\n        ret[f"))
    assert done.code == 0
    assert any("AssertionError" in t["reason"] for t in done.record["trials"])


def test_hundreds_of_failures_on_purpose_are_quiet(mutate, tmp_path, monkeypatch):
    monkeypatch.setenv("OPTEST_SAVE_FAILED", str(tmp_path / "kept"))
    done = mutate(SOUND)
    assert "ERROR" not in done.err
    assert "Traceback" not in done.err
    assert done.out.startswith("### Gross mutants killed")
    assert not (tmp_path / "kept").exists()


def test_a_repeated_case_is_mutated_under_its_own_id(mutate):
    done = mutate(SOUND, tail=TAIL.replace("in args.m]", "in args.m * 2]"))
    assert {t["where"]["case"] for t in done.record["trials"]} == {
        "test_op.py::test_op[m=6]",
        "test_op.py::test_op[m=6]#2",
    }


@pytest.mark.slow
def test_files_apart_give_the_same_report(command, tmp_path):
    folder = tmp_path / "ops"
    folder.mkdir()
    for name, body in (("test_a.py", WEAK), ("test_b.py", SOUND)):
        (folder / name).write_text(HEAD + body + TAIL)
    reports = []
    for jobs in ("1", "2"):
        result, _ = command(folder, "--jobs", jobs, "--json", tmp_path / "r.json")
        assert result.exit_code == 1
        reports.append(json.loads((tmp_path / "r.json").read_text()))
    assert reports[0] == reports[1]
