"""Quantisation with what comes before it, against plain torch in fp32 and fp64."""

from __future__ import annotations

import pytest
import torch

from optest import native

FP8, FNUZ, I8 = torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.int8
LARGEST = {FP8: 448.0, FNUZ: 240.0, I8: 127.0}
INPUTS = (torch.bfloat16, torch.float16, torch.float32)
PLACES = ((1, "dense"), (127, "strided"), (129, "transposed"), (8200, "3d"))
EPS = 1e-6


@pytest.fixture(scope="module")
def ops():
    return native.csrc("norm_quant")


def norm(total, weight, eps=EPS):
    wide = total.double()
    return wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps) * weight.double()


def assert_codes(out, scales, wide, near):
    """``near``: how far, relative, what is quantised and its scale may be off what fp64 has."""
    largest = LARGEST[out.dtype]
    want = wide.abs().amax(-1, keepdim=True) / largest
    want = torch.where(want == 0, 1.0, want)
    torch.testing.assert_close(
        scales.double().reshape(want.shape), want, rtol=near, atol=0, equal_nan=True
    )
    low, high = (
        round_to((wide / want * (1 + side)).clamp(-largest, largest), out.dtype)
        for side in (-4 * near, 4 * near)
    )
    got = out.contiguous().double()
    right = ((got >= low) & (got <= high)) | ((got <= low) & (got >= high))
    assert (right | (got.isnan() & low.isnan())).all()


def round_to(wide, dtype):
    """To nearest by way of fp32: the range of two codes forgives the second rounding."""
    return (wide.round() if dtype == I8 else wide.float().to(dtype)).double()


@pytest.mark.parametrize(("length", "layout"), PLACES)
@pytest.mark.parametrize("source", INPUTS, ids=str)
@pytest.mark.parametrize("dtype", LARGEST, ids=str)
def test_norm(ops, dtype, source, length, layout, lay_out, room_like):
    """Tails, strides, the rounding of the sum, rows of unlike size."""
    sizes = torch.logspace(-3, 3, 8)[:, None]
    x = lay_out((torch.randn(8, length) * sizes).to(source), layout)
    residual = lay_out((torch.randn(8, length) * sizes).to(source), layout)
    weight, total = torch.randn(length).to(source), x + residual
    out, scales = room_like(x, dtype, layout), torch.empty(8)
    ops.fused_add_rmsnorm_quant(out, scales, x, residual, weight, EPS)
    assert torch.equal(residual, total)
    assert_codes(out, scales, norm(total, weight), 2**-19)


@pytest.mark.parametrize(("length", "layout"), PLACES)
@pytest.mark.parametrize("source", INPUTS, ids=str)
@pytest.mark.parametrize("dtype", LARGEST, ids=str)
def test_smoothquant(ops, dtype, source, length, layout, lay_out, room_like):
    x = lay_out((torch.randn(8, length) * torch.logspace(-3, 3, 8)[:, None]).to(source), layout)
    smooth = torch.rand(length) * 4 + 0.1
    out, scales = room_like(x, dtype, layout), torch.empty(8)
    ops.smoothquant(out, scales, x, smooth)
    product = x.float() * smooth
    assert torch.equal(scales.reshape(x.shape[:-1]), product.abs().amax(-1) / LARGEST[dtype])
    assert_codes(out, scales, product.double(), 2**-22)


@pytest.mark.parametrize("dtype", LARGEST, ids=str)
def test_zero_rows_decode_to_zeros(ops, dtype):
    x, residual = torch.randn(3, 100).bfloat16(), torch.zeros(3, 100).bfloat16()
    x[1] = 0
    out, scales = torch.ones(3, 100).to(dtype), torch.empty(3)
    ops.fused_add_rmsnorm_quant(out, scales, x, residual, torch.ones(100), EPS)
    assert scales[1] == 1
    assert out[1].float().count_nonzero() == 0
    ops.smoothquant(out, scales, x, torch.ones(100))
    assert scales[1] == 1
    assert out[1].float().count_nonzero() == 0


@pytest.mark.parametrize("special", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("source", INPUTS, ids=str)
@pytest.mark.parametrize("dtype", [FP8, FNUZ], ids=str)
def test_nan_and_infinity_spoil_their_row_and_no_other(ops, dtype, source, special):
    x, residual = torch.randn(4, 129).to(source), torch.randn(4, 129).to(source)
    x[1, 128] = special
    total = x + residual
    out, scales = torch.empty(x.shape, dtype=dtype), torch.empty(4)
    ops.fused_add_rmsnorm_quant(out, scales, x, residual, torch.ones(129), EPS)
    assert out.float().isnan().all(1).tolist() == [False, True, False, False]
    keep = [0, 2, 3]
    assert scales.isnan().tolist() == [False, True, False, False]
    assert_codes(
        out.view(torch.uint8)[keep].view(dtype),
        scales[keep],
        norm(total[keep], torch.ones(129)),
        2**-19,
    )
    ops.smoothquant(out, scales, x, torch.ones(129))
    assert not scales[1].isfinite()
    assert scales[keep].isfinite().all()
    assert not out.float()[keep].isnan().any()


@pytest.mark.parametrize("size", [1e-38, 1e-30, 1e30, 3e38])
@pytest.mark.parametrize("dtype", LARGEST, ids=str)
def test_scales_for_which_a_reciprocal_is_not_exact_enough(ops, dtype, size):
    """The way with divisions, which the scales of real activations never take."""
    x, out, scales = torch.rand(3, 70) * size, torch.empty(3, 70, dtype=dtype), torch.empty(3)
    ops.smoothquant(out, scales, x, torch.ones(70))
    assert torch.equal(scales, x.amax(-1) / LARGEST[dtype])
    want = (x / scales[:, None]).clamp(max=LARGEST[dtype])
    assert torch.equal(out.float(), (want.round() if dtype == I8 else want).to(dtype).float())
    weight, zeros = torch.rand(70) * size, torch.zeros(3, 70)
    ops.fused_add_rmsnorm_quant(out, scales, zeros + 1, zeros, weight, EPS)
    torch.testing.assert_close(scales, weight.amax().expand(3) / LARGEST[dtype], rtol=1e-5, atol=0)


@pytest.mark.parametrize("dtype", [FP8, I8], ids=str)
def test_past_the_caches(ops, dtype):
    """An output too big for the last-level cache takes the other way to memory."""
    x = torch.randn(64, 4097).bfloat16().repeat(400, 1)
    residual, weight = torch.zeros_like(x), torch.rand(4097)
    out, scales = torch.empty(x.shape, dtype=dtype), torch.empty(len(x))
    ops.smoothquant(out, scales, x, weight)
    assert_codes(out[:64], scales[:64], x[:64].double() * weight.double(), 2**-21)
    codes = out.view(torch.uint8)
    assert torch.equal(codes, codes[:64].repeat(400, 1))
    ops.fused_add_rmsnorm_quant(out, scales, x, residual, weight, EPS)
    assert_codes(out[:64], scales[:64], norm(x[:64], weight), 2**-19)
    assert torch.equal(codes, codes[:64].repeat(400, 1))


@pytest.mark.parametrize("shape", [(0, 7), (3, 0)])
def test_empty(ops, shape):
    x, out = torch.empty(shape).half(), torch.empty(shape, dtype=I8)
    scales, ones = torch.full(shape[:1], 9.0), torch.ones(shape[1])
    ops.smoothquant(out, scales, x, ones)
    assert (scales == 1).all()
    scales.fill_(9.0)
    ops.fused_add_rmsnorm_quant(out, scales, x, x.clone(), ones, EPS)
    assert (scales == 1).all()


X = torch.zeros(4, 32, dtype=torch.bfloat16)
Q, S, W = torch.zeros(4, 32, dtype=I8), torch.empty(4), torch.ones(32)
BAD = {
    "x has dtype": lambda ops: ops.smoothquant(Q, S, X.double(), W),
    "out has dtype": lambda ops: ops.smoothquant(X.float(), S, X, W),
    r"out has shape \[4, 31\]": lambda ops: ops.smoothquant(Q[:, 1:], S, X, W),
    r"smooth_scale has shape \[31\]": lambda ops: ops.smoothquant(Q, S, X, W[1:]),
    r"scales has shape \[3\], expected 4": lambda ops: ops.smoothquant(Q, S[1:], X, W),
    "scales has dtype": lambda ops: ops.smoothquant(Q, S.double(), X, W),
    "scales has strides": lambda ops: ops.smoothquant(Q, torch.empty(4, 2)[:, 0], X, W),
    "weight has shape": lambda ops: ops.fused_add_rmsnorm_quant(Q, S, X, X.clone(), W[1:], EPS),
    r"residual has shape \[1, 32\]": lambda ops: ops.fused_add_rmsnorm_quant(
        Q, S, X, X[:1], W, EPS
    ),
    "residual has dtype": lambda ops: ops.fused_add_rmsnorm_quant(Q, S, X, X.float(), W, EPS),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_arguments_are_named(ops, message):
    with pytest.raises(ValueError, match=message):
        BAD[message](ops)


def test_schemas_mark_what_is_written(ops):
    schema = ops.fused_add_rmsnorm_quant.default._schema
    written = [a.name for a in schema.arguments if a.alias_info and a.alias_info.is_write]
    assert written == ["out", "scales", "residual"]
