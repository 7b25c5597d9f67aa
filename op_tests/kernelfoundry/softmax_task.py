"""Softmax over the last dimension: a Triton kernel, interpreted where there is no GPU.

pytest -s op_tests/kernelfoundry/softmax_task.py
pytest --ref -s op_tests/kernelfoundry/softmax_task.py
optest speedup op_tests/kernelfoundry/softmax_task.py
"""

import os

import pytest
import torch

ON_GPU = torch.cuda.is_available()
if not ON_GPU:
    os.environ.setdefault("TRITON_INTERPRET", "1")  # read when a kernel is decorated

import triton  # noqa: E402
import triton.language as tl  # noqa: E402

from optest.testing import TestBase, assert_allclose  # noqa: E402

# The interpreter takes its time for each program: fewer rows there.
BENCHMARK = (4096, 4096) if ON_GPU else (16, 1024)
SHAPES = [(1, 1), (3, 1000), (17, 129), BENCHMARK]

# [USER_INSTRUCTIONS_START]
# One program a row: subtract the maximum, so that exp does not overflow, then divide by the sum.
# x is contiguous, rows of up to 64 Ki elements.
# [USER_INSTRUCTIONS_END]


# [REFERENCE_START]
def reference(x):
    return torch.softmax(x, dim=-1)


# [REFERENCE_END]


# [EVOLVE_START]
@triton.jit
def softmax_kernel(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    values = tl.load(x + row * columns + at, mask=at < columns, other=-float("inf"))
    values = values.to(tl.float32)
    weights = tl.exp(values - tl.max(values, 0))
    result = weights / tl.sum(weights, 0)
    tl.store(out + row * columns + at, result.to(out.dtype.element_ty), mask=at < columns)


def softmax(x):
    out = torch.empty_like(x)
    rows, columns = x.shape
    softmax_kernel[(rows,)](x, out, columns, BLOCK=triton.next_power_of_2(columns))
    return out


# [EVOLVE_END]


@pytest.fixture(scope="session")
def device():
    return torch.device("cuda" if ON_GPU else "cpu")


@pytest.fixture(scope="session")
def kernel(use_reference):
    return reference if use_reference else softmax


def data(shape, device, scale=1.0):
    generator = torch.Generator(device).manual_seed(0)
    return scale * torch.randn(shape, generator=generator, device=device)


class TestSoftmax(TestBase):
    @pytest.mark.parametrize("shape", SHAPES, ids=str)
    def test_correctness(self, kernel, device, shape):
        x = data(shape, device)
        assert_allclose(kernel(x), reference(x), rtol=1e-4, ratio_below_max_err=1.0)

    def test_large_values(self, kernel, device):
        x = data((4, 1000), device, scale=200.0)  # exp alone would overflow
        assert_allclose(kernel(x), reference(x), tolerances="dtype")

    @pytest.mark.performance
    def test_benchmark(self, kernel, device, measure_runtime_torch):
        measure_runtime_torch(kernel, device, args=(data(BENCHMARK, device),))


if __name__ == "__main__":
    TestSoftmax.main()
