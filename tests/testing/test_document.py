"""A task as "Writing tests" tells one to write it, and the document's three commands on it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import optest.testing.assertions
import optest.testing.base
import optest.testing.items
import optest.testing.measuring  # noqa: F401 - torch does not bear a second import
from optest.native import compiler

pytest_plugins = ["pytester"]

# Upstream's manner: user-written fixtures, one class, one benchmark; only the import is ours.
TASK = """
from pathlib import Path
import pytest
import torch
from optest.testing import TestBase, assert_allclose

HERE = Path(__file__).parent

def reference(x, y):
    return x + y

@pytest.fixture
def device():
    return "cpu"

@pytest.fixture
def kernel(use_reference):
    if use_reference:
        return reference
    import document_kernel
    return document_kernel.add

@pytest.fixture(params=[64, 1000])
def data(request):
    return torch.randn(request.param), torch.randn(request.param)

class TestAdd(TestBase):
    def build(self, gpu_arch):
        return self.compile_torch_extension("document_kernel", "kernel.cpp", HERE, gpu_arch)

    def test_correctness(self, data, kernel):
        x, y = data
        result = kernel(x, y)
        expected_result = reference(x, y)
        print("compared", len(x))
        assert_allclose(result, expected_result)

    @pytest.mark.performance
    def test_benchmark_my_kernel(self, kernel, device, data, measure_runtime_torch):
        measure_runtime_torch(kernel, device, args=data)

if __name__ == "__main__":
    print(*TestAdd().build("cpu"))
"""
KERNEL = """
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
torch::stable::Tensor add(const torch::stable::Tensor& x, const torch::stable::Tensor& y) {
  torch::stable::Tensor z = torch::stable::empty_like(x);
  const float* from_x = static_cast<const float*>(x.data_ptr());
  const float* from_y = static_cast<const float*>(y.data_ptr());
  float* to_z = static_cast<float*>(z.data_ptr());
  // [EVOLVE_START]
  for (int64_t i = 0; i < x.numel(); ++i) to_z[i] = from_x[i] + from_y[i];
  // [EVOLVE_END]
  return z;
}
STABLE_TORCH_LIBRARY(document_kernel, m) { m.def("add(Tensor x, Tensor y) -> Tensor"); }
STABLE_TORCH_LIBRARY_IMPL(document_kernel, CPU, m) { m.impl("add", TORCH_BOX(&add)); }
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("task")
    (made / "task.py").write_text(TASK)
    (made / "kernel.cpp").write_text(KERNEL)
    return made


@pytest.fixture
def call(folder):
    """Runs ``python`` with these words in the task's folder, as its author would."""

    def go(*words):
        environment = {
            **os.environ,
            "OPTEST_BUILD_DIR": str(folder / "cache"),
            "OPTEST_BUDGET_S": "0.02",
            "OPTEST_CACHE": "warm",
        }
        return subprocess.run(
            [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True
        )

    return go


PYTEST = ("-m", "pytest", "-p", "no:cacheprovider")
built = pytest.mark.skipif(compiler.find(compiler.CXX) is None, reason="no C++ compiler")


@built
def test_the_three_commands_of_the_document(call, folder):
    # First the reference: no kernel is there yet, and none is needed.
    reference = call(*PYTEST, "--ref", "-s", "task.py")
    assert reference.returncode == 0, reference.stdout + reference.stderr
    assert "4 passed" in reference.stdout
    assert "compared 1000" in reference.stdout
    build = call("task.py")
    assert build.returncode == 0, build.stderr
    assert Path(build.stdout.strip()) == folder / "document_kernel.so"
    kernel = call(*PYTEST, "-s", "task.py")
    assert kernel.returncode == 0, kernel.stdout
    assert "4 passed" in kernel.stdout
    assert "test_benchmark_my_kernel[64]: median" in kernel.stdout


@built
def test_a_kernel_that_is_wrong_is_seen_when_it_is_built_anew(call, folder):
    (folder / "kernel.cpp").write_text(KERNEL.replace("+ from_y", "- from_y"))
    assert call("task.py").returncode == 0
    wrong = call(*PYTEST, "-s", "task.py")
    assert wrong.returncode == 1
    assert "Arrays are not equal within tolerance" in wrong.stdout
    assert "2 failed, 2 passed" in wrong.stdout


# In one process from here on; an own kernel in Python takes the place of the built one.
HEAD = """
import time
import pytest, torch
from optest.testing import TestBase, assert_allclose, detect_profiler, profiler_session

@pytest.fixture
def device():
    return "cpu"

@pytest.fixture
def kernel(use_reference):
    return torch.add if use_reference else own
"""


@pytest.fixture
def run(pytester, monkeypatch):
    monkeypatch.setenv("OPTEST_BUDGET_S", "0.02")
    monkeypatch.setenv("OPTEST_CACHE", "warm")
    monkeypatch.setenv("OPTEST_NATIVE", "off")

    def go(source, *args):
        pytester.makepyfile(test_task=HEAD + source)
        return pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:xdist", *args)

    return go


SIZES = """
def own(x, y):
    return x + y if x.numel() < 1000 else x

class TestIt(TestBase):
    @pytest.mark.parametrize("n", {sizes})
    def test_correctness(self, kernel, n):
        x, y = torch.randn(n), torch.randn(n)
        assert_allclose(kernel(x, y), x + y)
"""


@pytest.mark.parametrize(
    ("sizes", "outcomes"),
    [
        ("[64]", {"passed": 1}),
        ("[64, 500, 4096]", {"passed": 2, "failed": 1}),
    ],
)
def test_a_kernel_tuned_to_one_shape_fails_at_others(run, sizes, outcomes):
    run(SIZES.format(sizes=sizes)).assert_outcomes(**outcomes)


ACCUMULATES = """
def own(x, w):
    return x @ w + 1e-8 * x.shape[1] ** 2  # relative to the sum, an error that grows with k

class TestIt(TestBase):
    @pytest.mark.parametrize(("m", "k", "n"), [(64, 8, 64), (64, 4096, 8)])
    def test_correctness(self, kernel, m, k, n):
        x, w = torch.rand(m, k) + 1, torch.rand(k, n) + 1
        assert_allclose(kernel(x, w), x @ w, rtol=1e-5, ratio_below_max_err=1.0)
"""


def test_an_error_that_grows_with_k_is_seen_where_k_is_held_and_n_is_small(run):
    run(ACCUMULATES).assert_outcomes(passed=1, failed=1)


NAMES = """
own = torch.add

class TestIt(TestBase):
    def test_found(self): pass
    def check_not_found(self): assert 0
    @pytest.mark.performance
    def test_timed(self, kernel, device, measure_runtime_torch):
        measure_runtime_torch(kernel, device, args=(torch.randn(8), torch.randn(8)))
"""


def test_names_and_the_mark_decide_what_a_test_is(run):
    run(NAMES, "-m", "not performance").assert_outcomes(passed=1, deselected=1)
    run(NAMES, "-m", "performance").assert_outcomes(passed=1, deselected=1)


CUSTOM = """
own = torch.add

class TestIt(TestBase):
    def test_right(self, kernel):
        assert_allclose(kernel(torch.ones(8), torch.ones(8)), torch.full((8,), 2.0))

    @pytest.mark.performance
    def test_custom(self, kernel, profile_store, request):
        x, y = torch.randn(8), torch.randn(8)
        runtimes = []
        with profiler_session(detect_profiler()):
            for _ in range(20):
                start = time.perf_counter()
                kernel(x, y)
                runtimes.append((time.perf_counter() - start) * 1e3)
        profile_store[request.node.nodeid] = runtimes
"""


@pytest.mark.parametrize("whose", [[], ["--ref"]])
def test_a_custom_benchmark_stores_a_list_of_runtimes_from_inside_a_session(run, whose):
    result = run(CUSTOM, *whose)
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*::test_custom*: median * 20 trials"])
