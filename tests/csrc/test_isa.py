"""The kernels on every instruction set this machine has, and how one is chosen."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from pathlib import Path

import pytest

from optest import native
from optest.errors import SettingError

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
ISAS = ("avx512", "avx2", "neon", "portable")


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


USE = "from optest import native; print(native.csrc('harness').isa())"


@functools.cache
def offered() -> list[str]:
    """From the error that asking for a set of another machine gives."""
    error = run(USE, OPTEST_ISA="neon" if os.uname().machine == "x86_64" else "avx2").stderr
    return error.split("this CPU runs ")[1].split(".")[0].split(", ")


def test_the_best_is_chosen_and_a_missing_one_is_an_error_that_lists_them():
    names = offered()
    assert names[-1] == "portable"
    assert run(USE).stdout.strip() == names[0]


@pytest.mark.parametrize("text", ["portable", " PORTABLE "])
def test_a_named_one_is_taken_case_and_blanks_forgiven(text):
    assert run(USE, OPTEST_ISA=text).stdout.strip() == "portable"


def test_a_misspelt_one_is_an_error_in_python(monkeypatch):
    monkeypatch.setenv("OPTEST_ISA", "avx513")
    monkeypatch.setattr("optest.native.library._families", set())
    with pytest.raises(SettingError, match="avx513"):
        native.csrc("harness")


@pytest.mark.skipif("CSRC_TEST_ISA" in os.environ, reason="is the run for one instruction set")
@pytest.mark.parametrize("isa", ISAS)
def test_all_operators_on(isa):
    names = offered()
    if isa not in names[1:]:
        pytest.skip(f"{isa} is {'what the other tests ran on' if isa == names[0] else 'not here'}")
    apart = ("test_isa", "test_harness")  # no kernels of theirs go by instruction set
    files = [str(path) for path in sorted(HERE.glob("test_*.py")) if path.stem not in apart]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *files],
        env={**os.environ, "CSRC_TEST_ISA": isa},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
