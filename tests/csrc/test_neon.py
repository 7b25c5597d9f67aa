"""The kernels' NEON compilation: built for aarch64 without torch and run in an emulator.

Each family's checks are a program of ``neon/``: a line a check, and exit code 1 where one fails.
The emulator is no machine to measure speed on.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CSRC = HERE.parents[1] / "csrc"
FAMILIES = sorted(path.stem for path in (HERE / "neon").glob("*.cpp"))
COMPILER, EMULATOR = "aarch64-linux-gnu-g++", "qemu-aarch64"
HOW_TO_INSTALL = (
    f"{COMPILER} or {EMULATOR} is not on PATH: apt-get install g++-aarch64-linux-gnu qemu-user,"
    " or run .ci/run, which does"
)
# As csrc is built, but -O2, and static: no library of that machine is here. Without contraction,
# which compilers for aarch64 do unless told otherwise.
FLAGS = ["-std=c++17", "-O2", "-DNDEBUG", "-ffp-contract=off", "-static", "-march=armv8-a"]


def require() -> None:
    """Leave the test out where the tools are missing, saying how to install them; fail in CI."""
    if shutil.which(COMPILER) and shutil.which(EMULATOR):
        return
    if os.environ.get("CI"):
        pytest.fail(HOW_TO_INSTALL, pytrace=False)
    pytest.skip(HOW_TO_INSTALL)


def build(source: Path, program: Path) -> None:
    command = [COMPILER, *FLAGS, "-I", str(CSRC / "include"), str(source), "-o", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize("family", FAMILIES)
def test_neon(family, tmp_path):
    """Fails where a NEON word, or what the compiler for aarch64 makes of a kernel, is wrong."""
    require()
    program = tmp_path / family
    build(HERE / "neon" / f"{family}.cpp", program)
    done = subprocess.run(
        [EMULATOR, str(program)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}{done.stderr}"
    assert "ok   " in done.stdout
