"""Building a task's extension: what is built, and what each kind of failure is called."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from optest.errors import BuildError, UsageError
from optest.native import compiler
from optest.testing import TestBase, extension

pytestmark = pytest.mark.skipif(compiler.find(compiler.CXX) is None, reason="no C++ compiler")

_KEPT = os.environ.get("OPTEST_BUILD_DIR")
OPERATORS = """
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
torch::stable::Tensor same(const torch::stable::Tensor& x) {{ return torch::stable::clone(x); }}
STABLE_TORCH_LIBRARY({name}, m) {{ m.def("same(Tensor x) -> Tensor"); }}
STABLE_TORCH_LIBRARY_IMPL({name}, CPU, m) {{ m.impl("same", TORCH_BOX(&same)); }}
"""
MODULE = """
#include <Python.h>
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "mine", "", -1, nullptr};
PyMODINIT_FUNC PyInit_unit_kernel() {
  PyObject* module = PyModule_Create(&definition);
  PyModule_AddIntConstant(module, "answer", 42);
  return module;
}
"""
UPSTREAM = Path(__file__).with_name("data") / "relu_extension.cpp"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """A folder of its own, so that nothing is found built already."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("OPTEST_BUILD_DIR", str(folder))
    return folder


@pytest.fixture
def compiled(tmp_path):
    def go(source, name="unit_kernel", **options):
        (tmp_path / f"{name}.cpp").write_text(source)
        options = {"gpu_arch": "cpu", **options}
        return TestBase.compile_torch_extension(name, f"{name}.cpp", tmp_path, **options)

    return go


def _python(code, folder):
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_operators_of_the_stable_abi_become_a_module(compiled, tmp_path):
    assert compiled(OPERATORS.format(name="same_kernel"), "same_kernel") == [
        (tmp_path / "same_kernel.so").as_posix()
    ]
    code = "import torch, same_kernel; print(same_kernel.same(torch.arange(3)).tolist())"
    assert _python(code, tmp_path) == "[0, 1, 2]"
    # Wherever the import path leads.
    module = TestBase.load_extension("same_kernel", tmp_path)
    assert torch.equal(module.same(torch.ones(2)), torch.ones(2))
    with pytest.raises(AttributeError, match="other"):
        _ = module.other


def test_a_module_that_a_source_defines_stays_what_it_is(compiled, tmp_path):
    compiled(MODULE)
    assert _python("import unit_kernel; print(unit_kernel.answer)", tmp_path) == "42"


@pytest.mark.slow
def test_torch_extension_and_pybind11_build_too(tmp_path, monkeypatch):
    # Half a minute the first time: kept where all builds are kept, so that it is not done twice.
    monkeypatch.delenv("OPTEST_BUILD_DIR")
    if _KEPT is not None:
        monkeypatch.setenv("OPTEST_BUILD_DIR", _KEPT)
    TestBase.compile_torch_extension("relu_extension", UPSTREAM, tmp_path, "cpu")
    code = "import torch, relu_extension as m; print(m.forward(torch.tensor([-1.0, 2.0])).tolist())"
    assert _python(code, tmp_path) == "[0.0, 2.0]"


def test_the_compilers_own_words_and_its_command_are_told(compiled, tmp_path):
    with pytest.raises(BuildError) as error:
        compiled("int f() { return missing_name; }")
    text = str(error.value)
    assert text.startswith("compilation failed for extension 'unit_kernel'")
    assert "missing_name" in text
    assert "unit_kernel.cpp:1" in text
    assert "\ncommand: " in text
    assert isinstance(error.value, RuntimeError)  # what upstream raises
    assert not (tmp_path / "unit_kernel.so").exists()


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("// [EVOLVE_START]\n// [EVOLVE_END]\n", "no source defines a module"),
        (OPERATORS.format(name="other_name"), "no source defines a module"),
        (MODULE + "void missing(); void f() { missing(); }", "undefined symbol"),
        ("struct A { A() { __builtin_trap(); } } a;", "killed by SIG"),
    ],
    ids=["empty", "another name", "symbol", "crash"],
)
def test_compiled_but_not_importable_is_told_apart(compiled, tmp_path, source, words):
    (tmp_path / "unit_kernel.so").write_text("the one before")
    with pytest.raises(BuildError) as error:
        compiled(source)
    text = str(error.value)
    assert text.startswith("compilation succeeded but the built extension 'unit_kernel' could not")
    assert words in text
    assert (tmp_path / "unit_kernel.so").read_text() == "the one before"


def test_a_build_that_takes_too_long_is_ended_with_its_compilers(compiled, tmp_path, cache):
    # A constant expression that keeps the compiler busy far beyond the limit.
    slow = """
    constexpr long f(long n) { long s = 0; for (long i = 0; i < n; ++i) s += i % 7; return s; }
    constexpr long value = f(2000000000);
    """
    begin = time.monotonic()
    with pytest.raises(BuildError, match="took longer than 4 s"):
        compiled(
            slow,
            timeout=4,
            extra_cflags=(
                "-fconstexpr-ops-limit=9999999999999",
                "-fconstexpr-loop-limit=2147483647",
            ),
        )
    assert time.monotonic() - begin < 15
    running = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    assert str(tmp_path) not in running.stdout
    assert list(cache.iterdir())  # it had begun
    assert not list(cache.glob("*/build-*"))


def test_an_interrupt_ends_the_build(monkeypatch, compiled):
    started = []
    real = subprocess.Popen.communicate

    def interrupted(child, *args, **options):
        if started:
            return real(child, *args, **options)
        started.append(child)
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess.Popen, "communicate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        compiled(MODULE)
    assert started[0].poll() is not None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"extension_name": "no name"}, "expected a name such as"),
        ({"extension_name": "optest"}, "expected a name such as"),
        ({"extension_name": "../x"}, "expected a name such as"),
        ({"src": "missing.cpp"}, "there is no such file"),
        ({"src": []}, "at least one source"),
        ({"src": "kernel.sycl"}, "expected a file that ends in .cpp"),
        ({"gpu_arch": ""}, r"get_machine_gpu_arch\(\)"),
        ({"gpu_arch": "Ampere"}, "gpu_arch='Ampere': expected cpu"),
        ({"backend": "icpx"}, "SYCL"),
        ({"backend_compile_options": "-x"}, "SYCL"),
        ({"timeout": 0}, "timeout=0"),
        ({"timeout": float("nan")}, "timeout=nan"),
    ],
    ids=str,
)
def test_an_argument_that_cannot_be_is_named(tmp_path, changes, words):
    source = tmp_path / "kernel.cpp"
    source.write_text(MODULE)
    given = {"extension_name": "kernel", "src": source, "output_dir": tmp_path, "gpu_arch": "cpu"}
    with pytest.raises(UsageError, match=words):
        TestBase.compile_torch_extension(**{**given, **changes})


@pytest.mark.parametrize(
    ("given", "targets"),
    [
        ("cpu", None),
        ("gfx942", "gfx942"),
        ("9.0", "sm_90"),
        ("8.0 9.0", "sm_80;sm_90"),
        ("10.0", "sm_100"),
        ("SM_90;cpu", "sm_90"),
    ],
)
def test_an_arch_is_told_to_the_compilers(monkeypatch, given, targets):
    monkeypatch.delenv("GPU_ARCHS", raising=False)
    monkeypatch.setattr("optest.arch.get_gfx_runtime", lambda: "cpu")
    assert extension._environment(given).get("GPU_ARCHS") == targets


def test_what_is_not_built_says_what_to_run(tmp_path):
    with pytest.raises(BuildError, match=r"not built yet.*python task\.py"):
        TestBase.load_extension("axpy_kernel", tmp_path)
    (tmp_path / "torn_kernel.so").write_bytes(b"\x7fELF")
    with pytest.raises(BuildError, match="cannot be imported"):
        TestBase.load_extension("torn_kernel", tmp_path)


def test_a_source_that_was_changed_since_is_refused_until_it_is_built_again(compiled, tmp_path):
    compiled(MODULE)
    source = tmp_path / "unit_kernel.cpp"
    assert TestBase.load_extension("unit_kernel", tmp_path).answer == 42
    source.write_text(MODULE.replace("42", "43"))
    with pytest.raises(BuildError, match=r"built before unit_kernel\.cpp was changed"):
        TestBase.load_extension("unit_kernel", tmp_path)
    source.write_text(MODULE)
    assert TestBase.load_extension("unit_kernel", tmp_path).answer == 42
    source.unlink()  # moved to another machine without its sources
    assert TestBase.load_extension("unit_kernel", tmp_path).answer == 42


def test_where_native_code_is_switched_off_nothing_is_built(compiled, monkeypatch):
    monkeypatch.setenv("OPTEST_NATIVE", "off")
    with pytest.raises(BuildError, match="OPTEST_NATIVE=off"):
        compiled(MODULE)
