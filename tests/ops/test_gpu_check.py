"""scripts/gpu_check as far as it goes without a card: what it says, and its arithmetic."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from optest.store.records import Ceiling, Peaks, Place, Planned, Result

SCRIPTS = Path(__file__).resolve().parent.parent.parent / "scripts"


@pytest.fixture
def gpu_check(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPTS))
    import gpu_check

    return gpu_check


def result(**row):
    planned = Planned("test_x.py::test_x[m=8|n=1]", "test_x.py", arguments={"dtype": "bf16"})
    return Result(planned, "passed", row=row)


def peaks():
    ceilings = Ceiling("matrix", "bf16", 0, 1000e12), Ceiling("read", "memory", 0, 4e12)
    return Peaks(Place(gfx="sm_90"), 0.0, ceilings)


def test_a_share_is_of_the_lower_roof(gpu_check):
    # 10 operations a byte: memory allows 40 TFLOPS, of which 20 are half; the matrix rate 1000.
    row = {"triton us": 10.0, "triton TFLOPS": 20.0, "triton TB/s": 2.0, "triton err": 0.0}
    text = gpu_check.markdown(list(gpu_check.shares([result(**row)], peaks())))
    cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", text.splitlines()[-1])]
    assert cells == ["", r"test_x[m=8\|n=1]", "triton", "10", "20", "2", "50%", "passed", ""]


def test_without_ceilings_there_is_no_share(gpu_check):
    row = {"triton us": 10.0, "triton TFLOPS": 20.0, "triton TB/s": 2.0}
    assert next(gpu_check.shares([result(**row)], None))["share of limit"] == ""


def test_a_command_that_takes_too_long_did_not_hold(gpu_check):
    part = gpu_check.command("sleep", ["-c", "import time; time.sleep(60)"], 0.5)
    assert not part.held
    assert part.text == "not done within 0.5 s"


def test_a_command_that_fails_did_not_hold(gpu_check):
    part = gpu_check.command("fails", ["-c", "print('a table'); raise SystemExit(3)"], 60.0)
    assert not part.held
    assert part.text.startswith("a table\n\nexit code 3")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a card, and a check takes minutes")
def test_without_a_card_nothing_is_checked():
    done = subprocess.run(
        [sys.executable, str(SCRIPTS / "gpu_check.py")],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == "scripts/gpu_check: no GPU here, nothing was checked"
