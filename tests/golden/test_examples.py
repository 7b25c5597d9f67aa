"""The examples as users run them: pass, replay, run again, compile for other machines, fail."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from optest import native
from optest.native.triton_aot import TARGETS

FOLDER = Path(__file__).parents[2] / "op_tests/golden"
EXAMPLES = {
    "rmsnorm": ["-s", "4,100"],
    "topk_pair": ["-s", "3,40,4"],
    "paged_kv_pool": ["-s", "10,2,8"],
}
# One line of each kernel, and what makes it wrong.
SABOTAGE = {
    "rmsnorm": ("inverse * scale", "inverse"),
    "topk_pair": ("at = tl.argmax(left, 0)", "at = tl.argmin(left, 0)"),
    "paged_kv_pool": ("pool + slot * width", "pool + (slot // 2) * width"),
}


@pytest.fixture
def script(tmp_path):
    """Runs an example as a user would: no variable set, in a folder of its own."""
    hidden = ("TRITON_INTERPRET", "OPTEST_MODE", "OPTEST_ONLY")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}

    def call(path, *words):
        return subprocess.run(
            [sys.executable, str(path), *words],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
        )

    return call


def work_dir(done):
    return re.search(r"work_dir: (\S+)", done.stdout)[1]


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_passes_is_replayed_and_runs_again(script, name):
    path, shape = FOLDER / f"{name}.py", EXAMPLES[name]
    first = script(path, *shape, "--save-data")
    assert first.returncode == 0, first.stderr
    assert "1 case: 1 passed" in first.stderr
    folder = work_dir(first)
    again = script(path, *shape, "--golden-data", f"{folder}/data", "--runtime-dir", folder)
    assert again.returncode == 0, again.stdout + again.stderr
    assert "cache hit" in again.stdout
    assert "runtime_only" in again.stdout


@pytest.mark.skipif(not native.available(), reason="csrc cannot be built here")
def test_rmsnorm_of_csrc_passes(script):
    done = script(FOLDER / "rmsnorm.py", *EXAMPLES["rmsnorm"], "--kernel", "csrc", "-p", "cpu")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_compiles_for_machines_that_are_not_here(script, tmp_path, name):
    done = script(FOLDER / f"{name}.py", *EXAMPLES[name], "--compile-only", "--dump-passes")
    assert done.returncode == 0, done.stderr
    compiled = tmp_path / work_dir(done) / "compiled"
    assert {path.name for path in compiled.iterdir() if path.is_dir()} == set(TARGETS)


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_broken_kernel_exits_1(script, tmp_path, name):
    right, wrong = SABOTAGE[name]
    source = (FOLDER / f"{name}.py").read_text()
    assert source.count(right) == 1
    broken = tmp_path / f"{name}.py"
    broken.write_text(source.replace(right, wrong))
    done = script(broken, *EXAMPLES[name])
    assert done.returncode == 1
    assert "1 case: 1 failed" in done.stderr
    assert "[RUN] FAIL" in done.stdout


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_can_be_imported_without_torch(name):
    """Its kernel is imported by others, and by the process that compiles for other machines."""
    path = str(FOLDER / f"{name}.py")
    code = f"import sys, runpy; runpy.run_path({path!r}); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
