"""The golden function's threads: as many as asked for, then as many as there were."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from golden_kernels import axpy, axpy_specs, golden_axpy

from optest.golden import run

OURS, UPSTREAMS = "OPTEST_GOLDEN_NUM_THREADS", "PYPTO_GOLDEN_NUM_THREADS"


def threads_in(golden_threads):
    def golden(values):
        golden_threads.append(torch.get_num_threads())
        golden_axpy(values)

    return golden


@pytest.mark.parametrize(
    ("ours", "upstreams", "wanted"),
    [("5", None, 5), (None, "6", 6), ("5", "6", 5), (None, None, None), ("", " ", None)],
)
def test_threads_hold_in_the_golden_function_alone(recorded, monkeypatch, ours, upstreams, wanted):
    for name, value in ((OURS, ours), (UPSTREAMS, upstreams)):
        if value is not None:
            monkeypatch.setenv(name, value)
    before, seen = torch.get_num_threads(), []

    def kernel(a: float, x: torch.Tensor, y: torch.Tensor):
        assert torch.get_num_threads() == before
        axpy(a, x, y)

    assert run(kernel, axpy_specs(), threads_in(seen)).passed
    assert seen == [wanted or before]
    assert torch.get_num_threads() == before


def test_threads_are_given_back_where_golden_raises(recorded, monkeypatch):
    monkeypatch.setenv(OURS, "5")
    before = torch.get_num_threads()

    def golden(values):
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        run(axpy, axpy_specs(), golden)
    assert torch.get_num_threads() == before


@pytest.mark.parametrize("value", ["0", "-1", "many", "1.5"])
@pytest.mark.parametrize("name", [OURS, UPSTREAMS])
def test_a_bad_number_is_named(recorded, monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    result = run(axpy, axpy_specs(), golden_axpy)
    assert not result.passed
    assert name in result.error
    assert repr(value) in result.error


def test_importing_changes_nobodys_threads():
    code = (
        "import torch; before = torch.get_num_threads(); import optest.golden.runner; "
        "import sys; sys.exit(torch.get_num_threads() != before)"
    )
    environment = {OURS: "7", UPSTREAMS: "7", "PATH": ""}
    assert subprocess.run([sys.executable, "-c", code], env=environment).returncode == 0
