"""Every file of csrc compiles for machines and with compilers that are not the tests' own."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from optest import native
from optest.native import compiler, library

STABLE = [p for p in sorted(library.csrc_dir().glob("*.cpp")) if "stable" in p.read_text()
          or '"optest/tensor.h"' in p.read_text()]  # fmt: skip

pytestmark = pytest.mark.skipif(not native.available(), reason=str(native.why_not()))


@pytest.mark.slow
@pytest.mark.parametrize("source", STABLE, ids=lambda path: path.stem)
@pytest.mark.parametrize("command", ["aarch64-linux-gnu-g++", "clang++"])
def test_compiles_with(command, source, tmp_path):
    path = shutil.which(command)
    if path is None:
        pytest.skip(f"no {command}")
    flags = compiler.compile_flags(compiler.CXX, "optest")
    include = ["-I", str(library.csrc_dir() / "include")]
    made = tmp_path / "out.o"
    done = subprocess.run(
        [path, *flags, "-O1", *include, "-c", str(source), "-o", str(made)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert made.stat().st_size > 0
