"""Triton's GEMM of 8-bit operands in the interpreter, and its lowering to cards not here."""

from __future__ import annotations

import pytest
import torch
from lowering import assert_lowers

from aiter_ref import gemm_quant as ref
from optest.errors import UsageError
from optest.ops.triton import gemm_quant

QUANT_DTYPES = [torch.int8, torch.float8_e4m3fn, torch.float8_e4m3fnuz]
# One step of the output: a sum in another order may round the other way.
RTOL = {torch.bfloat16: 2**-7, torch.float16: 2**-10, torch.float32: 1e-6}
SHAPES = [(1, 1, 1), (7, 129, 127), (17, 33, 300), (3, 5, 0), (0, 5, 7)]


def codes(shape, dtype):
    if dtype == torch.int8:
        return torch.randint(-128, 128, shape, dtype=dtype)
    return torch.randn(shape).to(dtype)


def blocks(size):
    return -(-size // 128)


def close(got, want):
    torch.testing.assert_close(got, want, rtol=RTOL[want.dtype], atol=1e-4)


@pytest.mark.parametrize("quant_dtype", QUANT_DTYPES, ids=str)
@pytest.mark.parametrize("mnk", SHAPES, ids=str)
def test_gemm_a8w8(mnk, quant_dtype):
    """Masks of ragged tiles; scales of another row or column; int8 sums that are not exact."""
    m, n, k = mnk
    x, w = codes((m, k + 3), quant_dtype)[:, :k], codes((n, k), quant_dtype)
    x_scale, w_scale = torch.rand(m, 1) * 1e-2, torch.rand(n, 1)
    y = torch.full((m, n), torch.nan)
    gemm_quant.gemm_a8w8(y, x, w, x_scale, w_scale)
    close(y, ref.gemm_a8w8(x, w, x_scale, w_scale, torch.float32))


@pytest.mark.parametrize("dtype", RTOL, ids=str)
@pytest.mark.parametrize("quant_dtype", QUANT_DTYPES[:2], ids=str)
def test_batched_gemm_a8w8_of_transposed_views(quant_dtype, dtype):
    """Strides of the batch; scales of another of its matrices."""
    x = codes((5, 3, 40), quant_dtype).transpose(0, 1)
    w = codes((3, 17, 40), quant_dtype)
    x_scale, w_scale = torch.rand(3, 5, 1) * 1e-2, torch.rand(3, 17, 1)
    y = torch.full((5, 3, 17), torch.nan, dtype=dtype).transpose(0, 1)
    gemm_quant.batched_gemm_a8w8(y, x, w, x_scale, w_scale)
    close(y, ref.gemm_a8w8(x, w, x_scale, w_scale, dtype))


@pytest.mark.parametrize("quant_dtype", QUANT_DTYPES, ids=str)
@pytest.mark.parametrize("mnk", SHAPES, ids=str)
def test_gemm_a8w8_blockscale(mnk, quant_dtype):
    """Blocks of scales that are short, or another's."""
    m, n, k = mnk
    x, w = codes((m, k), quant_dtype), codes((n, k), quant_dtype)
    x_scale = torch.rand(m, blocks(k)) * 1e-2
    w_scale = torch.rand(blocks(n), blocks(k))
    y = torch.full((m, n), torch.nan)
    gemm_quant.gemm_a8w8_blockscale(y, x, w, x_scale, w_scale)
    close(y, ref.gemm_a8w8_blockscale(x, w, x_scale, w_scale, torch.float32))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"x": torch.zeros(2, 5, dtype=torch.int8)}, r"\[b, m, k\] and \[b, n, k\]"),
        ({"x": torch.zeros(2, 4)}, "expected the same"),
        ({"x": torch.zeros(4, 2, dtype=torch.int8).t()}, "x: strides .* side by side"),
        ({"y": torch.zeros(2, 4)}, r"out: .*expected \(1, 2, 3\)"),
        ({"y": torch.zeros(2, 3).double()}, "out: torch.float64"),
        ({"x_scale": torch.zeros(3)}, "x_scale: .*expected 2 contiguous fp32"),
        ({"w_scale": torch.zeros(3).half()}, "w_scale: torch.float16"),
        ({"w": torch.zeros(3, dtype=torch.int8)}, r"w: shape \(3,\), expected 2 axes"),
    ],
)
def test_refused(changes, words):
    operands = {
        "y": torch.zeros(2, 3),
        "x": torch.zeros(2, 4, dtype=torch.int8),
        "w": torch.zeros(3, 4, dtype=torch.int8),
        "x_scale": torch.zeros(2, 1),
        "w_scale": torch.zeros(3, 1),
    }
    with pytest.raises(UsageError, match=words):
        gemm_quant.gemm_a8w8(**{**operands, **changes})


def kernels(target):
    fp8 = "*fp8e4b8" if target == "gfx942" else "*fp8e4nv"
    for dtype, total in (("*i8", "tl.int32"), (fp8, "tl.float32")):
        operands = {"x": f"{dtype}:16", "w": f"{dtype}:16", "y": "*bf16:16"}
        operands |= {"x_scale": "*fp32", "w_scale": "*fp32", "m": "i32", "n": "i32", "k": "i32"}
        rows = dict.fromkeys(("x_row", "w_row", "y_row"), "i32:16")
        batches = dict.fromkeys(("x_batch", "w_batch", "y_batch"), "i32:16")
        tiles = {"SUM": total, "BLOCK_M": 64, "BLOCK_N": 64, "GROUP": 8}
        yield "gemm_quant:rowwise_kernel", {**operands, **rows, **batches}, {**tiles, "BLOCK_K": 64}
        yield "gemm_quant:blockscale_kernel", {**operands, **rows}, {**tiles, "BLOCK_K": 128}


def test_lowers():
    assert_lowers(kernels)
