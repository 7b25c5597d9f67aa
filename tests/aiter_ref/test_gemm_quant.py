"""References of GEMM of 8-bit operands against loops over plain integers and hand values."""

from __future__ import annotations

import pytest
import torch

from aiter_ref import gemm_quant as ref

DTYPES = [torch.int8, torch.float8_e4m3fn]


def codes(shape, dtype):
    if dtype == torch.int8:
        return torch.randint(-128, 128, shape, dtype=dtype)
    return torch.randn(shape).to(dtype)


def dots(x, w):
    """Each result by itself, in Python's numbers."""
    rows, columns = x.double().tolist(), w.double().tolist()
    return [[sum(a * b for a, b in zip(r, c, strict=True)) for c in columns] for r in rows]


def test_by_hand_scales_go_by_row_and_by_column():
    x = torch.tensor([[1, 2], [3, 4]], dtype=torch.int8)
    w = torch.tensor([[5, 6], [7, 8], [0, 1]], dtype=torch.int8)
    got = ref.gemm_a8w8(
        x, w, torch.tensor([[1.0], [10.0]]), torch.tensor([[1.0], [2.0], [3.0]]), torch.float32
    )
    assert got.tolist() == [[17.0, 46.0, 6.0], [390.0, 1060.0, 120.0]]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_gemm_a8w8(dtype):
    """A product that is summed or scaled in a lower precision, or by another's scale."""
    x, w = codes((5, 67), dtype), codes((3, 67), dtype)
    x_scale, w_scale = torch.rand(5, 1), torch.rand(3, 1)
    want = torch.tensor(dots(x, w), dtype=torch.float64)
    want = want * x_scale.double() * w_scale.double().t()
    got = ref.gemm_a8w8(x, w, x_scale, w_scale, torch.float32)
    torch.testing.assert_close(got.double(), want, rtol=2**-24, atol=1e-12)
    both = ref.gemm_a8w8(*(torch.stack([t, t]) for t in (x, w, x_scale, w_scale)), torch.bfloat16)
    assert torch.equal(both, torch.stack([want, want]).bfloat16())


def test_sums_of_int8_are_exact():
    """In fp32 the last one would be lost in 2^30."""
    x = torch.full((1, 65537), -128, dtype=torch.int8)
    w = x.clone()
    w[0, -1] = 1
    one = torch.ones(1, 1)
    assert ref.gemm_a8w8(x, w, one, one, torch.float64).item() == 65536 * 16384 - 128


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_blockscale(dtype):
    """Scales of another block, above all in the short last ones."""
    m, n, k = 3, 130, 260
    x, w = codes((m, k), dtype), codes((n, k), dtype)
    x_scale, w_scale = torch.rand(m, 3), torch.rand(2, 3)
    want = torch.zeros(m, n, dtype=torch.float64)
    for at, start in enumerate(range(0, k, 128)):
        part = slice(start, start + 128)
        by_column = torch.tensor([w_scale[c // 128, at] for c in range(n)]).double()
        products = torch.tensor(dots(x[:, part], w[:, part]), dtype=torch.float64)
        want += products * x_scale[:, at : at + 1].double() * by_column
    got = ref.gemm_a8w8_blockscale(x, w, x_scale, w_scale, torch.float32)
    torch.testing.assert_close(got.double(), want, rtol=2**-23, atol=1e-9)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_block_quant(dtype):
    limit = 127.0 if dtype == torch.int8 else 448.0
    w = torch.randn(130, 200)
    w[:128, 128:] = 0
    q, scales = ref.block_quant(w, dtype)
    assert q.shape == w.shape
    for i in range(2):
        for j in range(2):
            here = (slice(i * 128, i * 128 + 128), slice(j * 128, j * 128 + 128))
            largest = w[here].abs().max()
            assert scales[i, j] == (largest / limit if largest else 1.0)
            step = 0.5 if dtype == torch.int8 else 16.0
            assert (q[here].float() - w[here] / scales[i, j]).abs().max() <= step


@pytest.mark.parametrize("shape", [(0, 5), (5, 0)])
def test_block_quant_of_nothing(shape):
    q, _ = ref.block_quant(torch.empty(shape), torch.int8)
    assert q.shape == shape
