"""The shell scripts, run on a copy of the few files they read, with an interpreter that records."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(os.name != "posix", reason="bash scripts")

# Stands for a Python: pip calls are written down, `-m venv` makes a folder with this very file in
# it, the rest goes to the real one; -S hides every installed package from it.
RECORDER = """#!/bin/sh
case "$*" in
  "-m pip install"*) echo "$*" >>"$RECORD"; exit "${PIP_EXIT:-0}" ;;
  "-m pip --version") exit 0 ;;
  "-m venv"*)
    echo "$*" >>"$RECORD"
    for folder; do :; done
    mkdir -p "$folder/bin" && cp "$0" "$folder/bin/python" && echo made >"$folder/pyvenv.cfg"
    exit ;;
  *"import importlib.util"*" torch" | *"import importlib.util"*" triton")
    [ -z "${BARE:-}" ] || exit 1 ;;
esac
exec "$REAL" ${BARE:+-S} "$@"
"""
OLD = """#!/bin/sh
exit 1
"""


class Checkout:
    """A folder with the scripts and what they read; `interpreter` is the only Python on PATH."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "a check out"  # blanks in paths are where shell scripts break
        (self.root / "scripts").mkdir(parents=True)
        for name in ("scripts/setup", "scripts/run", "pyproject.toml", "constraints-cpu.txt"):
            shutil.copy2(ROOT / name, self.root / name)
        self.record = folder / "record"
        self.record.touch()
        self.bin = folder / "bin"
        self.bin.mkdir()
        for tool in "sh bash cat cksum cp dirname env flock mkdir tail tee tr".split():
            if found := shutil.which(tool):
                (self.bin / tool).symlink_to(found)
        self.write_python(self.bin / "python3")

    def write_python(self, path: Path, text: str = RECORDER) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def call(self, script: str, *args: str, **environ: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.root / "scripts" / script, *args],
            env={
                "PATH": str(self.bin),
                "RECORD": str(self.record),
                "REAL": sys.executable,
                "PIP_DRY_RUN": "1",  # should a call slip past the recorder
                **environ,
            },
            capture_output=True,
            text=True,
            check=False,
            cwd=self.bin,
        )

    def calls(self) -> list[str]:
        return self.record.read_text().splitlines()


@pytest.fixture
def checkout(tmp_path):
    return Checkout(tmp_path)


def test_a_bare_python_gets_an_environment_and_the_pinned_torch(checkout):
    done = checkout.call("setup", BARE="1")
    assert done.returncode == 0, done.stderr
    python = checkout.root / ".venv/bin/python"
    assert done.stdout == f"{python}\n", "standard output is the Python, the rest is progress"
    venv, packages, triton = checkout.calls()
    assert venv == f"-m venv --clear {checkout.root}/.venv"
    constraints = f"-c {checkout.root}/constraints-cpu.txt"
    assert packages == f"-m pip install -q {constraints} torch -e {checkout.root}[dev]"
    assert triton == f"-m pip install -q {constraints} triton"


def test_a_torch_that_is_there_is_pinned_and_never_asked_for(checkout):
    active = checkout.root / "env"
    checkout.write_python(active / "bin/python")
    done = checkout.call("setup", VIRTUAL_ENV=str(active))
    assert done.returncode == 0, done.stderr
    (packages,) = checkout.calls()
    kept = checkout.root / ".optest/kept.txt"
    assert packages == f"-m pip install -q -c {kept} -e {checkout.root}[dev]"
    import torch

    assert f"torch=={torch.__version__}" in kept.read_text().splitlines()
    assert "triton==" in kept.read_text()
    assert not (checkout.root / ".venv").exists(), "the active environment is used"


def test_an_environment_on_path_that_holds_torch_is_used_though_not_activated(checkout):
    # The interpreter that runs these tests is such a one: made below, it would not see torch.
    if sys.prefix == sys.base_prefix:
        pytest.skip("the tests run without an environment")
    done = checkout.call("setup")
    assert done.stdout.strip() == str(checkout.bin / "python3")
    assert "--system-site-packages" not in "".join(checkout.calls())


def test_the_second_call_does_nothing(checkout):
    first = checkout.call("setup", BARE="1")
    before = checkout.calls()
    second = checkout.call("setup", BARE="1")
    assert second.stdout == first.stdout
    assert second.stderr == ""
    assert checkout.calls() == before


def test_what_only_tests_need_is_left_to_them_and_asked_for_once(checkout):
    checkout.call("setup", BARE="1")
    before = len(checkout.calls())
    assert checkout.call("setup", "test", BARE="1").returncode == 0
    added = checkout.calls()[before:]
    assert [call for call in added if call.endswith("[test]")], "its packages were not asked for"
    for extra in ("test", "dev"):
        checkout.call("setup", *[extra] * (extra == "test"), BARE="1")
        assert checkout.calls()[before:] == added, f"{extra} was set up again"


def test_tests_first_are_a_set_up_for_runs_too(checkout):
    checkout.call("setup", "test", BARE="1")
    before = checkout.calls()
    assert checkout.call("setup", BARE="1").returncode == 0
    assert checkout.calls() == before


def test_an_unknown_set_is_named(checkout):
    done = checkout.call("setup", "everything")
    assert done.returncode != 0
    assert "everything is not known" in done.stderr
    assert checkout.calls() == []


@pytest.mark.parametrize("name", ["pyproject.toml", "constraints-cpu.txt", "scripts/setup"])
def test_a_change_to_what_is_installed_sets_up_again(checkout, name):
    checkout.call("setup", BARE="1")
    before = len(checkout.calls())
    with (checkout.root / name).open("a") as file:
        file.write("# changed\n")
    assert checkout.call("setup", BARE="1").returncode == 0
    assert len(checkout.calls()) > before


def test_an_environment_made_anew_is_set_up_again(checkout):
    checkout.call("setup", BARE="1")
    before = len(checkout.calls())
    later = (checkout.root / ".optest/setup-dev").stat().st_mtime + 10
    os.utime(checkout.root / ".venv/pyvenv.cfg", (later, later))
    checkout.call("setup", BARE="1")
    assert len(checkout.calls()) > before


def test_another_environment_is_not_taken_for_the_one_that_was_set_up(checkout):
    checkout.call("setup", BARE="1")
    active = checkout.root / "env"
    checkout.write_python(active / "bin/python")
    done = checkout.call("setup", VIRTUAL_ENV=str(active))
    assert done.stdout == f"{active}/bin/python\n"


def test_a_failed_installation_fails_and_is_tried_again(checkout):
    assert checkout.call("setup", BARE="1", PIP_EXIT="1").returncode != 0
    before = len(checkout.calls())
    assert checkout.call("setup", BARE="1").returncode == 0
    assert len(checkout.calls()) > before


def test_a_python_that_is_too_old_is_said_in_one_line(checkout):
    checkout.write_python(checkout.bin / "python3", OLD)
    done = checkout.call("setup")
    assert done.returncode != 0
    assert "no Python 3.10 or later found" in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_a_virtual_env_without_a_python_is_named(checkout):
    done = checkout.call("setup", VIRTUAL_ENV="/nowhere/env")
    assert done.returncode != 0
    assert "/nowhere/env" in done.stderr


def test_run_passes_arguments_and_exit_code_on(checkout):
    script = checkout.root / "op_tests/test_x.py"
    script.parent.mkdir()
    script.write_text("import os, sys; print(sys.argv[1:], os.environ['PYTHONPATH']); sys.exit(7)")
    done = checkout.call("run", "op_tests/test_x.py", "-s", "a b", "", PYTHONPATH="/mine")
    assert done.returncode == 7, done.stderr
    assert done.stdout == f"['-s', 'a b', ''] {checkout.root}:/mine\n"


def test_run_without_a_script_is_a_usage_error(checkout):
    done = checkout.call("run")
    assert done.returncode == 2
    assert done.stderr.startswith("usage: scripts/run")
    assert checkout.calls() == []
