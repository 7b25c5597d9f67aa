"""The example tasks, run as the document says, and with a kernel that is wrong."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from optest.native import compiler
from optest.testing import get_block, get_test_names, update_block

TASKS = Path(__file__).parents[2] / "op_tests" / "kernelfoundry"

needs_compiler = pytest.mark.skipif(compiler.find(compiler.CXX) is None, reason="no C++ compiler")


def _small(folder):
    """A copy of the tasks that times small shapes: what is shown does not hang on the size."""
    shutil.copytree(
        TASKS, folder, ignore=shutil.ignore_patterns("*.so", "*.so.json", "__pycache__")
    )
    task = folder / "axpy_task.py"
    text = task.read_text()
    assert "BENCHMARK = (2048, 4096)" in text
    task.write_text(text.replace("BENCHMARK = (2048, 4096)", "BENCHMARK = (64, 4096)"))
    return folder


def _run(folder, *words):
    # Triton's interpreter is the task's own matter.
    variables = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        # One thread: where others are busy, two wait for each other at every call.
        env={**variables, "OPTEST_BUDGET_S": "0.05", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def _pytest(folder, *words):
    return _run(folder, "-m", "pytest", "-p", "no:cacheprovider", "-s", *words)


def _speedup(folder, *words):
    return _run(folder, "-m", "optest.cli.main", "speedup", *words)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = _small(tmp_path_factory.mktemp("built") / "tasks")
    done = _run(folder, "axpy_task.py")
    assert done.returncode == 0, done.stderr
    return folder, done


@needs_compiler
def test_running_a_task_builds_its_kernel_and_says_where(built):
    folder, done = built
    assert done.stdout == f"{folder / 'axpy_kernel.so'}\n"


@needs_compiler
def test_pytest_checks_and_times_the_built_kernel(built):
    done = _pytest(built[0], "axpy_task.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 passed" in done.stdout
    assert re.search(r"::test_benchmark: median [\d.]+ ms", done.stdout)


def test_ref_tests_the_task_itself_and_needs_no_build(tmp_path):
    folder = _small(tmp_path / "tasks")
    done = _pytest(folder, "--ref", "axpy_task.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 passed" in done.stdout
    assert "(reference)" in done.stdout


def test_a_kernel_that_is_not_built_says_what_to_run(tmp_path):
    done = _pytest(_small(tmp_path / "tasks"), "axpy_task.py", "-m", "not performance")
    assert done.returncode == 1
    assert "is not built yet: run the task's build first (python task.py)" in done.stdout


@needs_compiler
def test_speedup_states_kernel_against_reference(built):
    done = _speedup(built[0], "--no-build", "axpy_task.py")
    assert done.returncode == 0, done.stderr
    head, _, row, _, *notes, last = done.stdout.splitlines()
    assert head.startswith("| benchmark | reference ms | kernel ms | speedup |")
    assert re.search(r"test_benchmark \| [\d.]+ \| [\d.]+ \| [\d.]+x \| [\d.]+ to [\d.]+ \|", row)
    assert last.startswith("overall: ")
    assert all(note.startswith("contended") for note in notes)  # on a busy machine


@needs_compiler
def test_speedup_builds_and_refuses_a_kernel_that_is_wrong_where_it_is_timed(tmp_path):
    folder = _small(tmp_path / "tasks")
    (block,) = get_block(folder / "axpy_kernel.cpp", "EVOLVE")["axpy_kernel.cpp"]
    # Right up to 2^17 elements: only the check at the benchmark's shape can tell.
    wrong = block.replace("i < end;", "i < (end < 131072 ? end : end - 1000);")
    assert wrong != block
    update_block(folder, "EVOLVE", "axpy_kernel.cpp", wrong)
    done = _speedup(folder, "axpy_task.py")
    assert done.returncode == 1
    assert not done.stdout
    assert "no speedup: correctness failed" in done.stderr
    assert re.search(r"test_correctness\[\(64, 4096\)\]: .*not equal", done.stderr)
    assert "test_correctness[(8191,)]: " not in done.stderr


@needs_compiler
def test_speedup_refuses_a_kernel_that_does_not_compile_in_the_compilers_words(tmp_path):
    folder = _small(tmp_path / "tasks")
    update_block(folder, "EVOLVE", "axpy_kernel.cpp", "void axpy(int) { wrong words; }")
    done = _speedup(folder, "axpy_task.py")
    assert done.returncode == 1
    assert "no speedup: the build failed" in done.stderr
    assert "wrong words" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_triton_task_runs_in_the_interpreter_by_itself(tmp_path):
    done = _pytest(_small(tmp_path / "tasks"), "softmax_task.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "6 passed" in done.stdout


def test_the_triton_task_fails_where_its_kernel_is_wrong(tmp_path):
    folder = _small(tmp_path / "tasks")
    (block,) = get_block(folder / "softmax_task.py", "EVOLVE")["softmax_task.py"]
    wrong = block.replace("values - tl.max(values, 0)", "values")
    assert wrong != block
    update_block(folder, "EVOLVE", "softmax_task.py", wrong)
    done = _pytest(folder, "softmax_task.py", "-m", "not performance", "-W", "ignore")
    assert done.returncode == 1
    assert "1 failed, 4 passed" in done.stdout
    assert "test_large_values" in done.stdout


@pytest.mark.parametrize("task", ["axpy_task.py", "softmax_task.py"])
def test_each_task_has_its_blocks_its_checks_and_one_benchmark(task):
    found = get_test_names(TASKS / task)
    assert found["correctness_tests"]
    assert len(found["profile_tests"]) == 1
    for key in ("REFERENCE", "USER_INSTRUCTIONS"):
        assert len(get_block(TASKS / task, key)[task]) == 1
    assert sum(len(blocks) for blocks in get_block(TASKS, "EVOLVE").values()) == 2


def test_collecting_op_tests_takes_no_task(tmp_path):
    folder = _small(tmp_path / "tasks")
    done = _run(folder, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", ".")
    assert done.returncode == 5  # nothing collected
