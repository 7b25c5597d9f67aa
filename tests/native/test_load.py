"""Users' own sources: what load() takes, what it refuses; what stays usable without a compiler."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from optest import native
from optest.errors import BuildError, UsageError
from optest.native import compiler, library
from optest.native.build import build

ROOT = Path(__file__).parents[2]
OPERATOR = """
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>
int64_t helper();
int64_t seven(torch::stable::Tensor) { return helper(); }
STABLE_TORCH_LIBRARY(NAME, m) { m.def("seven(Tensor x) -> int"); }
STABLE_TORCH_LIBRARY_IMPL(NAME, CPU, m) { m.impl("seven", TORCH_BOX(&seven)); }
"""
KERNEL = """
#include <cuda_runtime.h>
#include <cstdint>
__global__ void kernel(float* x) { x[threadIdx.x] += 1.0f; }
int64_t helper() { return reinterpret_cast<void*>(&kernel) != nullptr ? 7 : 0; }
extern "C" __attribute__((visibility("default"))) int launch() {
  kernel<<<1, 32>>>(nullptr);
  return cudaGetLastError() == cudaSuccess;
}
"""

needs_compiler = pytest.mark.skipif(not native.available(), reason=str(native.why_not()))


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("OPTEST_BUILD_DIR", str(tmp_path / "cache"))


def write(folder: Path, name: str, text: str, file: str) -> Path:
    path = folder / file
    path.write_text(text.replace("NAME", name))
    return path


@needs_compiler
def test_sources_become_an_operator_and_the_library_can_be_found(tmp_path):
    sources = [
        write(tmp_path, "user_cpp", OPERATOR, "op.cpp"),
        write(tmp_path, "", "#include <cstdint>\nint64_t helper() { return SEVEN; }", "helper.cc"),
    ]
    ops = native.load("user_cpp", sources, extra_cflags=["-DSEVEN=7"])
    assert ops.seven(torch.zeros(1)) == 7
    assert native.library_path("user_cpp").suffix == ".so"
    assert native.load("user_cpp", sources, extra_cflags=["-DSEVEN=7"]) is ops
    with pytest.raises(UsageError, match="already loaded"):
        native.load("user_cpp", sources, extra_cflags=["-DSEVEN=8"])


@needs_compiler
@pytest.mark.skipif(compiler.find(compiler.NVCC) is None, reason="no nvcc")
def test_cuda_and_cpp_build_together_and_load_without_a_driver(tmp_path):
    sources = [
        write(tmp_path, "user_cu", OPERATOR, "op.cpp"),
        write(tmp_path, "", KERNEL, "kernel.cu"),
    ]
    assert native.load("user_cu", sources).seven(torch.zeros(1)) == 7
    if not torch.cuda.is_available():
        assert ctypes.CDLL(str(native.library_path("user_cu"))).launch() == 0


@needs_compiler
@pytest.mark.skipif(compiler.find(compiler.HIPCC) is not None, reason="hipcc is here")
def test_hip_without_hipcc_says_what_to_install(tmp_path):
    source = write(tmp_path, "", "", "kernel.hip")
    with pytest.raises(BuildError, match=r"hipcc.*ROCM_HOME"):
        native.load("user_hip", source)


@needs_compiler
def test_a_relative_path_is_meant_from_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "user_here", OPERATOR, "op.cpp")
    write(tmp_path, "", "#include <cstdint>\nint64_t helper() { return 7; }", "helper.cpp")
    assert native.load("user_here", ["op.cpp", "helper.cpp"]).seven(torch.zeros(1)) == 7


@needs_compiler
def test_sources_that_register_nothing_are_refused(tmp_path):
    source = write(tmp_path, "", "int nothing() { return 0; }", "op.cpp")
    with pytest.raises(UsageError, match="register no operator under 'user_empty'"):
        native.load("user_empty", source)


@needs_compiler
def test_a_library_that_lacks_a_symbol_says_so(tmp_path):
    source = write(tmp_path, "user_undefined", OPERATOR, "op.cpp")
    with pytest.raises(BuildError, match="helper"):
        native.load("user_undefined", source)


@pytest.mark.parametrize("name", ["", "a b", "../up", "1st", "a.b", "optest", "na\nme", "é"])
def test_names_that_are_no_identifiers(tmp_path, name):
    source = write(tmp_path, "x", OPERATOR, "op.cpp")
    with pytest.raises(UsageError, match="name"):
        native.load(name, source)


@pytest.mark.parametrize("file", ["op.c", "op.py", "op", "missing.cpp", "folder.cpp"])
def test_files_that_are_no_sources(tmp_path, file):
    (tmp_path / "folder.cpp").mkdir()
    if not file.startswith(("missing", "folder")):
        (tmp_path / file).write_text("")
    with pytest.raises(UsageError, match=file):
        native.load("user_bad", tmp_path / file)


def test_no_sources():
    with pytest.raises(UsageError, match="at least one"):
        native.load("user_none", [])


def test_unknown_names_are_answered_with_the_known_ones():
    with pytest.raises(UsageError, match=r"'nope'.*harness.*quant"):
        native.csrc("nope")
    with pytest.raises(UsageError, match=r"'\.\./csrc/harness'"):
        native.csrc("../csrc/harness")
    with pytest.raises(UsageError, match="nope"):
        native.library_path("nope")


def test_switched_off(monkeypatch, tmp_path):
    monkeypatch.setenv("OPTEST_NATIVE", "off")
    monkeypatch.setattr(library, "_families", set())
    assert not native.available()
    assert "OPTEST_NATIVE=off" in native.why_not()
    with pytest.raises(BuildError, match="OPTEST_NATIVE=off"):
        native.csrc("harness")
    with pytest.raises(BuildError, match="OPTEST_NATIVE=off"):
        native.load("user_off", write(tmp_path, "x", OPERATOR, "op.cpp"))


@needs_compiler
def test_a_family_that_does_not_build_is_tried_once_and_said(monkeypatch, tmp_path):
    """Every measurement asks: each would wait for the compiler to refuse the file again."""
    (tmp_path / "broken.cpp").write_text("#error no such machine\n")
    monkeypatch.setattr(library, "csrc_dir", lambda: tmp_path)
    monkeypatch.setattr(library, "_failed", set())
    built, said = [], []
    monkeypatch.setattr(library, "once", lambda words, _: said.append(words))
    monkeypatch.setattr(library, "build", lambda recipe, _: built.append(recipe) or build(recipe))
    for _ in range(3):
        assert native.csrc_or_none("broken", "torch stands in") is None
    assert len(built) == 1
    assert len(said) == 1
    assert said[0].startswith("torch stands in: building broken.cpp failed")


def test_no_compiler(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    assert "g++" in native.why_not()
    assert not native.available()


@pytest.mark.parametrize(
    ("version", "old"),
    [("2.4.0", True), ("2.9.1+cpu", True), ("2.10.0", False), ("3.0.0a0+git", False), ("", True)],
)
def test_the_oldest_torch(monkeypatch, version, old):
    monkeypatch.setattr(compiler, "torch_version", lambda: version)
    assert compiler.torch_too_old() is old
    if old:
        assert "2.10" in native.why_not()


def test_unavailable_is_said_once():
    code = "from optest import native\nfor _ in range(3): assert not native.available()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"OPTEST_NATIVE": "off", "PATH": ""},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr.count("OPTEST_NATIVE=off") == 1


def test_importing_native_imports_neither_torch_nor_triton():
    code = "import sys, optest.native; print({'torch', 'triton'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "set()"
