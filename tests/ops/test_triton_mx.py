"""Triton's microscaling in the interpreter, to the bit of the reference, and its lowering."""

from __future__ import annotations

import pytest
import torch
from lowering import assert_lowers

from aiter_ref import mx as ref
from optest import native, ops
from optest.errors import UsageError
from optest.ops.triton import mx

needs_csrc = pytest.mark.skipif(not native.available(), reason=str(native.why_not()))
DTYPES = [torch.bfloat16, torch.float16, torch.float32]


def check(x):
    m, k = x.shape
    codes = torch.full((m, (k + 1) // 2 + 3), 77, dtype=torch.uint8)
    scales = torch.full((m, -(-k // 32) + 2), 77, dtype=torch.uint8)
    mine = codes[:, 1:-2], scales[:, 1:-1]
    mx.quant_mxfp4(mine[0], x, mine[1])
    for got, want in zip(mine, ref.quant_mxfp4(x), strict=True):
        assert torch.equal(got, want)
    assert (codes[:, -2:] == 77).all()
    assert (scales[:, -1] == 77).all()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (2, 33), (2, 129), (1, 4099)], ids=str)
def test_quant_mxfp4(shape, dtype):
    """Short blocks, an odd last column, a write beyond the row, strides."""
    m, k = shape
    x = (torch.randn(m, k + 3) * torch.logspace(-3, 2, m)[:, None]).to(dtype)
    check(x[:, 1 : k + 1])


def test_every_bf16_pattern():
    """Ties, numbers below the normal ones, the largest, NaN and infinities."""
    every = torch.arange(-32768, 32768, dtype=torch.int32).to(torch.int16).view(torch.bfloat16)
    check(every.float().view(16, -1))
    # The interpreter loses what bf16 has below its normal numbers.
    every[every.abs() < 2.0**-126] = 0
    check(every.view(16, -1))
    check(every.view(32, -1).t().contiguous().view(16, -1))


@pytest.mark.parametrize("shape", [(0, 5), (5, 0)])
def test_empty(shape):
    check(torch.empty(shape))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("mnk", [(1, 1, 1), (7, 129, 127), (17, 33, 300), (3, 5, 0)], ids=str)
def test_gemm_a4w4(mnk, dtype):
    """Masks of ragged tiles, codes that change places, a scale of another block."""
    m, n, k = mnk
    x, x_scale = ref.quant_mxfp4(torch.randn(m, k))
    w, w_scale = ref.quant_mxfp4(torch.randn(n, k) * max(k, 1) ** -0.5)
    y = torch.full((m, n), torch.nan, dtype=dtype)
    mx.gemm_a4w4(y, x, w, x_scale, w_scale)
    want = ref.gemm_a4w4(x, w, x_scale, w_scale, dtype)
    rtol = {torch.bfloat16: 2**-7, torch.float16: 2**-10, torch.float32: 1e-5}[dtype]
    torch.testing.assert_close(y, want, rtol=rtol, atol=1e-5)


def test_gemm_a4w4_of_every_code_and_of_scales_at_the_ends():
    codes = torch.arange(256, dtype=torch.int32).to(torch.uint8)[:, None].contiguous()
    one, one_scale = torch.tensor([[2]], dtype=torch.uint8), torch.tensor([[127]]).byte()
    y = torch.empty(256, 1)
    for scale in (1, 2, 127, 252, 255):
        scales = torch.full((256, 1), scale, dtype=torch.uint8)
        mx.gemm_a4w4(y, codes, one, scales, one_scale)
        want = ref.gemm_a4w4(codes, one, scales, one_scale, torch.float32)
        torch.testing.assert_close(y, want, rtol=0, atol=0, equal_nan=True)


@needs_csrc
def test_the_wrapper_of_gemm_a4w4():
    x, x_scale = ref.quant_mxfp4(torch.randn(3, 70))
    w, w_scale = ref.quant_mxfp4(torch.randn(5, 70))
    out = torch.empty(3, 5)
    weights, weights_scale = ops.mx.pack_mxfp4_weight(w.view(torch.float4_e2m1fn_x2), w_scale)
    codes = x.view(torch.float4_e2m1fn_x2)
    assert ops.mx.gemm_a4w4(codes, weights, x_scale, weights_scale, out) is out
    want = ref.gemm_a4w4(x, w, x_scale, w_scale, torch.float32)
    torch.testing.assert_close(out, want, rtol=1e-6, atol=1e-5)


@needs_csrc
def test_the_wrapper_writes_the_buffers_it_is_given():
    x = torch.randn(3, 70)
    out = torch.empty(3, 35, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
    scales = torch.empty(3, 3, dtype=torch.float8_e8m0fnu)
    given = ops.mx.quant_mxfp4(x, out=out, scales=scales)
    assert given[0] is out
    assert given[1] is scales
    for pair in (given, ops.mx.quant_mxfp4(x)):
        for got, want in zip(pair, ref.quant_mxfp4(x), strict=True):
            assert torch.equal(got.view(torch.uint8), want)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"q": torch.zeros(4, 32, dtype=torch.int8)}, "out: torch.int8, expected torch.uint8"),
        ({"q": torch.zeros(4, 31, dtype=torch.uint8)}, r"out: shape \(4, 31\).*\(4, 32\)"),
        ({"scales": torch.zeros(4, 3, dtype=torch.uint8)}, r"scales: shape .*\(4, 2\)"),
        ({"x": torch.zeros(64, 4).t()}, "x: .*side by side"),
        ({"x": torch.zeros(4)}, r"expected \[m, k\]"),
    ],
)
def test_refused(changes, words):
    operands = {
        "q": torch.zeros(4, 32, dtype=torch.uint8),
        "x": torch.zeros(4, 64),
        "scales": torch.zeros(4, 2, dtype=torch.uint8),
    }
    with pytest.raises(UsageError, match=words):
        mx.quant_mxfp4(**{**operands, **changes})


def kernels(_target):
    signature = {"x": "*bf16:16", "q": "*u8:16", "scales": "*u8:16"}
    signature |= dict.fromkeys(("k", "blocks", "x_row", "q_row", "scales_row"), "i32:16")
    yield "mx:quant_mxfp4_kernel", signature, {"BLOCKS": 64, "BLOCK": 32}
    signature = dict.fromkeys(("x", "w", "x_scale", "w_scale"), "*u8:16")
    rows = ("x_row", "w_row", "y_row", "x_scale_row", "w_scale_row")
    signature |= {"y": "*bf16:16", "m": "i32", "n": "i32", "pairs": "i32"}
    signature |= dict.fromkeys(rows, "i32:16")
    tiles = {"BLOCK_M": 64, "BLOCK_N": 64, "PAIRS": 32}
    yield "mx:gemm_a4w4_kernel", signature, tiles


def test_lowers():
    assert_lowers(kernels)
