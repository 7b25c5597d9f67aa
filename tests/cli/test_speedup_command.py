"""``optest speedup`` as a command: its exit codes, and one line for a user's mistake."""

from __future__ import annotations

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from optest.cli.main import app
from optest.errors import UsageError
from optest.testing import speedup as work
from optest.testing.speedup import NoSpeedupError, Row


@pytest.fixture
def invoke(monkeypatch):
    requests = []

    def go(*words, gives=None):
        def answer(request):
            requests.append(request)
            if isinstance(gives, Exception):
                raise gives
            return gives or [Row("t", (1.0,) * 8, (2.0,) * 8, counted=True)]

        monkeypatch.setattr(work, "speedup", answer)
        return CliRunner().invoke(app, ["speedup", *words]), requests[-1:]

    return go


def test_a_speedup_is_a_table_on_standard_output_and_exit_code_0(invoke):
    result, (request,) = invoke("task.py", "--timeout", "5", "--no-build", "--", "-k", "a b")
    assert result.exit_code == 0
    assert result.stdout.startswith("| benchmark |")
    assert str(request.task) == "task.py"
    assert request.pytest_args == ("-k", "a b")
    assert request.limit_s == 5
    assert not request.build


@pytest.mark.parametrize(
    ("error", "code"), [(NoSpeedupError("no speedup: t"), 1), (UsageError("gone.py: no"), 2)]
)
def test_refusals_are_1_and_mistakes_2_and_neither_is_a_traceback(invoke, error, code):
    result, _ = invoke("task.py", gives=error)
    assert result.exit_code == code
    assert not result.stdout
    assert f"ERROR: {error}" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("words", [["speedup"], ["nonsense"], ["speedup", "x.py", "--nonsense"]])
def test_a_bad_command_line_is_2(words):
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 2


def test_the_module_runs_as_a_program():
    done = subprocess.run(
        [sys.executable, "-m", "optest.cli.main", "speedup", "gone.py"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert (
        line == "[optest] ERROR: 'gone.py': there is no such file; expected a task such as task.py"
    )
