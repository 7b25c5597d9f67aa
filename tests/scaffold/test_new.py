"""``optest new``: what it writes runs, lints clean and kills its mutants; what it refuses."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from optest.cli.main import app
from optest.errors import UsageError
from optest.lint.run import lint
from optest.scaffold.op_test import render, write

ROOT = Path(__file__).parents[2]
SHAPES = {
    "one": "n",
    "two": "m,n",
    "scale": "m,n,k",
    "long_name": "batch_size,num_heads,sequence_length,head_dimension",
    "six": "a,b,c,d,e,f",
}


def run(*words):
    return CliRunner().invoke(app, list(map(str, words)))


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A folder with an op test for each of the shapes."""
    folder = tmp_path_factory.mktemp("op_tests")
    for op, shape in SHAPES.items():
        write(op, shape, folder)
    return folder


def test_it_says_where_the_file_is(tmp_path):
    result = run("new", "scale", "--shape", "m,n,k", "--out", tmp_path)
    path = tmp_path / "test_scale.py"
    assert (result.exit_code, result.stdout) == (0, f"{path}\n")
    assert path.read_text() == render("scale", ["m", "n", "k"])


def test_it_lints_clean(written):
    report = lint([written])
    assert report.linted == len(SHAPES)
    assert report.violations == []


def test_it_is_as_ruff_would_write_it(written):
    """A first commit that a formatter takes apart would be a poor start."""
    for words in (["format", "--check"], ["check", "--no-cache"]):
        command = [sys.executable, "-m", "ruff", *words, "--config", ROOT / "pyproject.toml"]
        ignored = ["--ignore", "ANN,D,INP,PLR,CPY"] if words[0] == "check" else []
        done = subprocess.run([*command, *ignored, written], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def test_it_runs_as_a_script(written, monkeypatch):
    monkeypatch.setenv("OPTEST_BUDGET_S", "0.05")
    command = [sys.executable, "test_scale.py", "-d", "bf16", "-s", "16,4,256"]
    done = subprocess.run(command, cwd=written, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "| torch us |" in done.stdout.replace("  ", "")
    assert "1 passed" in done.stderr


def test_it_runs_under_pytest(written):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", written]
    done = subprocess.run([*command, written], cwd=written, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert f"{len(SHAPES)} passed" in done.stdout


@pytest.mark.parametrize("op", ["one", "scale"])
def test_it_kills_its_mutants(op, written):
    result = run("mutate", written / f"test_{op}.py")
    assert result.exit_code == 0, result.stdout
    assert "Survivors" not in result.stdout


def test_a_wrong_candidate_in_the_blank_fails_it(written, tmp_path, monkeypatch):
    monkeypatch.setenv("OPTEST_MODE", "check")
    text = (written / "test_two.py").read_text()
    wrong = text.replace("torch.addcmul(residual, x, scale, out=y)", "torch.mul(x, scale, out=y)")
    assert wrong != text
    (tmp_path / "test_two.py").write_text(wrong)
    command = [sys.executable, "test_two.py", "-s", "4,8"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    assert "torch" in done.stderr


def test_the_blanks_are_two_and_are_marked():
    text = render("scale", ["m", "n", "k"])
    assert text.count("# Your reference here") == 1
    assert text.count("# Your kernel here") == 1
    assert len(text.splitlines()) <= 100


def test_the_folder_is_made_where_none_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run("new", "scale", "--shape", "m").exit_code == 0
    assert run("new", "shift", "--shape", "m").exit_code == 0
    assert sorted(p.name for p in Path("op_tests").iterdir()) == ["test_scale.py", "test_shift.py"]


def test_nothing_is_made_where_a_name_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run("new", "test_scale", "--shape", "m").exit_code == 2
    assert list(tmp_path.iterdir()) == []


OPS = {
    "test_scale": "leave test_ off",
    "a/b": "expected a name of letters",
    "../b": "expected a name of letters",
    "1x": "expected a name of letters",
    "": "expected a name of letters",
    "a b": "expected a name of letters",
    "a-b": "expected a name of letters",
    "é": "expected a name of letters",
    "scale.py": "expected a name of letters",
    "scale_gfx942": "leave _gfx942 off",
    "scale_sm90": "leave _sm90 off",
}
AXES = {
    "m,m": "'m' stands there twice",
    "m,x": "uses 'x'",
    "m,dtype": "uses 'dtype'",
    "name": "uses 'name'",
    "gfx": "uses 'gfx'",
    "": "'' cannot be the name",
    "m,": "'' cannot be the name",
    "16,128": "'16' cannot be the name",
    "m n": "'m n' cannot be the name",
    "m,lambda": "'lambda' cannot be the name",
    "m,None": "'None' cannot be the name",
    "ä": "'ä' cannot be the name",
    "a,b,c,d,e,f,g": "expected 1 to 6 axes, got 7",
}
REFUSED = [*((op, "m", said) for op, said in OPS.items()), *(("ok", a, s) for a, s in AXES.items())]


@pytest.mark.parametrize(("op", "shape", "said"), REFUSED)
def test_a_bad_name_is_one_line_and_exit_code_2(op, shape, said, tmp_path):
    result = run("new", op, "--shape", shape, "--out", tmp_path)
    (line,) = result.stderr.splitlines()
    assert result.exit_code == 2
    assert said in line
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_there_stays_as_it_is(tmp_path):
    path = tmp_path / "test_scale.py"
    path.write_text("mine")
    result = run("new", "scale", "--shape", "m", "--out", tmp_path)
    assert result.exit_code == 2
    assert "is there already" in result.stderr
    assert path.read_text() == "mine"


def test_a_link_to_nowhere_is_not_written_through(tmp_path):
    (tmp_path / "test_scale.py").symlink_to(tmp_path / "elsewhere.py")
    assert run("new", "scale", "--shape", "m", "--out", tmp_path).exit_code == 2
    assert not (tmp_path / "elsewhere.py").exists()


@pytest.mark.parametrize("out", ["gone", "file.txt"])
def test_a_folder_that_is_none_is_refused(out, tmp_path):
    (tmp_path / "file.txt").write_text("")
    result = run("new", "scale", "--shape", "m", "--out", tmp_path / out)
    assert result.exit_code == 2
    assert "there is no such folder" in result.stderr


def test_op_tests_that_is_a_file_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("op_tests").write_text("")
    result = run("new", "scale", "--shape", "m")
    assert result.exit_code == 2
    assert "Traceback" not in result.stderr
    assert "op_tests" in result.stderr


@pytest.mark.parametrize("shape", [None, "m"])
def test_a_shape_must_be_given(shape):
    words = ["new", "scale"] if shape is None else ["new", "--shape", shape]
    assert run(*words).exit_code == 2


@pytest.mark.parametrize(
    "name", ["x", "residual", "scale", "y", "want", "fn", "us", "err", "torch"]
)
def test_every_name_that_the_file_uses_is_refused_as_an_axis(name, tmp_path):
    """Bound twice it would be a tensor where the file means a size."""
    tree = ast.parse(render("ok", ["m"]))
    assert name in {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    with pytest.raises(UsageError, match=f"uses '{name}'"):
        write("ok", name, tmp_path)
