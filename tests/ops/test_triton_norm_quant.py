"""Triton's quantisation after a norm or a smoothing, interpreted and lowered."""

from __future__ import annotations

import pytest
import torch
from lowering import assert_lowers

from aiter_ref import norm_quant as ref
from optest.errors import UsageError
from optest.ops.triton import norm_quant

DTYPES = [torch.bfloat16, torch.float16, torch.float32]
QUANT_DTYPES = [torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.int8]
# One element, a prime, around a power of two, more than one block of a row, nothing.
SHAPES = [(1, 1), (3, 7), (2, 129), (1, 4099), (0, 5), (3, 0)]


def rows(shape, dtype):
    """Random rows of unlike size that are not side by side in memory; the first one is zero."""
    m, n = shape
    wide = torch.randn(m, n + 3) * torch.logspace(-3, 2, m)[:, None]
    wide[:1] = 0
    return wide.to(dtype)[:, :n]


def check_norm(shape, dtype, quant_dtype):
    x, residual = rows(shape, dtype), rows(shape, dtype)
    weight = torch.randn(shape[1]).to(dtype)
    q, scales = torch.empty(shape, dtype=quant_dtype), torch.full((shape[0], 1), torch.nan)
    want, want_scales, total = ref.fused_add_rmsnorm_quant(x, residual, weight, 1e-5, quant_dtype)
    norm_quant.fused_add_rmsnorm_quant(q, scales, x, residual, weight, 1e-5)
    assert torch.equal(residual, total)
    torch.testing.assert_close(scales, want_scales, rtol=2**-19, atol=0)
    # The neighbouring code, where fp32 left what is quantised to the other side of a tie.
    apart = (q.float() - want.float()).abs()
    step = 1 if quant_dtype is torch.int8 else want.float().abs() / 8 + 2**-9
    assert (apart <= step).all()
    assert (apart > 0).float().sum() <= 1e-3 * apart.numel()


def check_smooth(shape, dtype, quant_dtype):
    x, smooth = rows(shape, dtype), torch.rand(shape[1]) + 0.1
    q, scales = torch.empty(shape, dtype=quant_dtype), torch.full((shape[0], 1), torch.nan)
    want, want_scales = ref.smoothquant(x, smooth, quant_dtype)
    norm_quant.smoothquant(q, scales, x, smooth)
    assert torch.equal(scales, want_scales)
    assert torch.equal(q.view(torch.uint8), want.view(torch.uint8))


@pytest.mark.parametrize("check", [check_norm, check_smooth])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_shapes(shape, check):
    check(shape, torch.bfloat16, torch.int8)


@pytest.mark.parametrize("check", [check_norm, check_smooth])
@pytest.mark.parametrize("quant_dtype", QUANT_DTYPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(dtype, quant_dtype, check):
    check((3, 45), dtype, quant_dtype)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"q": torch.empty(4, 6)}, "out: dtype torch.float32, expected one of"),
        ({"residual": torch.empty(4, 5)}, r"residual: .*expected \(4, 6\)"),
        ({"residual": torch.empty(4, 6).half()}, "residual: dtype torch.float16"),
        ({"weight": torch.empty(7)}, r"weight: .*expected \(6,\)"),
        ({"scales": torch.empty(3)}, "expected 4 contiguous fp32"),
    ],
)
def test_refused(changes, words):
    operands = {
        "q": torch.empty(4, 6, dtype=torch.int8),
        "scales": torch.empty(4),
        "x": torch.empty(4, 6),
        "residual": torch.empty(4, 6),
        "weight": torch.empty(6),
    }
    with pytest.raises(UsageError, match=words):
        norm_quant.fused_add_rmsnorm_quant(**{**operands, **changes}, eps=1e-5)


def kernels(target):
    for q, limit in (("*fp8e4b8" if target == "gfx942" else "*fp8e4nv", 240.0), ("*i8", 127.0)):
        pointers = {"q": f"{q}:16", "scales": "*fp32", "x": "*bf16:16"}
        sizes = dict.fromkeys(("n", "q_row", "x_row"), "i32")
        constants = {"LIMIT": limit, "BLOCK": 1024}
        smooth = {**pointers, "smooth_scale": "*fp32:16", **sizes}
        yield "norm_quant:smoothquant_kernel", smooth, constants
        normed = {**pointers, **dict.fromkeys(("residual", "weight"), "*bf16:16"), **sizes}
        normed |= {"residual_row": "i32", "eps": "fp32"}
        yield "norm_quant:fused_add_rmsnorm_quant_kernel", normed, constants


def test_lowers():
    assert_lowers(kernels)
