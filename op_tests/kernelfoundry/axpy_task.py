"""z = a * x + y: a C++ kernel against torch's two passes.

python op_tests/kernelfoundry/axpy_task.py            # builds the kernel
pytest -s op_tests/kernelfoundry/axpy_task.py         # checks and times it
pytest --ref -s op_tests/kernelfoundry/axpy_task.py   # the same of the reference
optest speedup op_tests/kernelfoundry/axpy_task.py    # all of it, and the ratio
"""

from pathlib import Path

import pytest
import torch

from optest.testing import TestBase, assert_allclose

HERE = Path(__file__).parent
BENCHMARK = (2048, 4096)  # 32 MiB a tensor: beyond most last-level caches
A = 1.5

# [USER_INSTRUCTIONS_START]
# Read x and y once, write z once. x, y and z are contiguous fp32; any number of elements.
# [USER_INSTRUCTIONS_END]


# [REFERENCE_START]
def reference(x, y, a):
    return a * x + y


# [REFERENCE_END]


@pytest.fixture(scope="session")
def device():
    return torch.device("cpu")


@pytest.fixture(scope="session")
def kernel(use_reference):
    if use_reference:
        return reference
    return TestBase.load_extension("axpy_kernel", HERE).axpy


def data(shape, device):
    generator = torch.Generator(device).manual_seed(0)
    return tuple(torch.randn(shape, generator=generator, device=device) for _ in range(2))


class TestAxpy(TestBase):
    def build(self, gpu_arch):
        return self.compile_torch_extension("axpy_kernel", "axpy_kernel.cpp", HERE, gpu_arch)

    # One element, a prime, a ragged matrix, and the shape that is timed.
    @pytest.mark.parametrize("shape", [(1,), (8191,), (127, 129), BENCHMARK], ids=str)
    def test_correctness(self, kernel, device, shape):
        x, y = data(shape, device)
        result = kernel(x, y, A)
        # Two roundings against one fused one differ by a step of fp32 at most.
        assert_allclose(result, reference(x, y, A), tolerances="dtype", ratio_below_max_err=1.0)

    @pytest.mark.performance
    def test_benchmark(self, kernel, device, measure_runtime_torch):
        measure_runtime_torch(kernel, device, args=(*data(BENCHMARK, device), A))


if __name__ == "__main__":
    TestAxpy.main()
