"""Microscaling against the reference: codes in every bit, products to the rounding of sums."""

from __future__ import annotations

import pytest
import torch

from aiter_ref import mx as ref
from optest import native

INPUTS = (torch.bfloat16, torch.float16, torch.float32)
PLACES = ((1, "dense"), (31, "strided"), (33, "dense"), (127, "strided"), (8224, "strided"))


@pytest.fixture(scope="module")
def ops():
    return native.csrc("mx")


def check(ops, x, layout, room_like):
    m, k = x.shape
    codes = room_like(torch.empty(m, (k + 1) // 2), torch.uint8, layout)
    scales = room_like(torch.empty(m, -(-k // 32)), torch.uint8, layout)
    ops.quant_mxfp4(codes, x, scales)
    want, want_scales = ref.quant_mxfp4(x)
    assert torch.equal(scales, want_scales)
    assert torch.equal(codes, want)


@pytest.mark.parametrize(("length", "layout"), PLACES)
@pytest.mark.parametrize("source", INPUTS, ids=str)
def test_quant_mxfp4(ops, source, length, layout, lay_out, room_like):
    """Short blocks, an odd last column, columns that change places, strided rows."""
    values = (torch.randn(6, length) * torch.logspace(-3, 3, 6)[:, None]).to(source)
    values[2] = 0
    check(ops, lay_out(values, layout), layout, room_like)


@pytest.mark.parametrize("source", INPUTS[:2], ids=str)
def test_every_16_bit_pattern(ops, source, room_like):
    """Beside 1 and beside itself: ties, numbers below the normal ones, the largest, NaN and Inf."""
    every = torch.arange(-32768, 32768, dtype=torch.int32).to(torch.int16).view(source)
    beside = torch.ones_like(every)
    check(ops, torch.stack([every, beside], 1), "dense", room_like)
    check(ops, every.view(-1, 32), "dense", room_like)
    check(ops, every.view(32, -1).t().contiguous(), "dense", room_like)


def test_fp32_ties_and_their_neighbours(ops, room_like):
    ties = torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 6.0, 7.0])
    near = [torch.nextafter(ties, torch.full_like(ties, to)) for to in (0.0, 9.0)]
    x = torch.cat([ties, *near])
    x = torch.cat([x, torch.full((5,), 7.5)])[None].repeat(2, 1)
    x[1] *= -1
    check(ops, x, "dense", room_like)
    check(ops, torch.ldexp(x, torch.tensor(-130)), "dense", room_like)
    check(ops, torch.ldexp(x, torch.tensor(124)), "dense", room_like)


@pytest.mark.parametrize("shape", [(0, 7), (3, 0)], ids=str)
def test_empty(ops, shape):
    want = ref.quant_mxfp4(torch.empty(shape))
    ops.quant_mxfp4(torch.empty_like(want[0]), torch.empty(shape), torch.empty_like(want[1]))


LIMIT_UNIT = "limit_mx_dot_unit"
# Below, at and above tiles of 16 and 32 and blocks of 32 and 64; more than one step takes.
SHAPES = [(1, 1, 1), (7, 129, 127), (16, 32, 64), (33, 48, 300), (290, 40, 5000)]


def packed(ops, w, w_scale):
    panels, blocks = -(-len(w) // 16), -(-w.shape[1] // 32)
    codes = torch.full((panels, blocks * 512), 77, dtype=torch.uint8)
    scales = torch.full((panels, blocks * 32), 77, dtype=torch.uint8)
    ops.pack_mxfp4_w(codes, scales, w, w_scale)
    return codes, scales


def product(ops, x, w, x_scale, w_scale, dtype=torch.float32):
    out = torch.full((len(x), len(w)), 7.0, dtype=dtype)
    codes, scales = packed(ops, w, w_scale)
    ops.gemm_a4w4(out, x, codes, x_scale, scales)
    return out


@pytest.mark.parametrize("mnk", SHAPES, ids=str)
def test_gemm_a4w4(ops, unit, mnk):
    """Ragged tiles and blocks, another's scale, a step that does not go on from the one before."""
    m, n, k = mnk
    x, x_scale = ref.quant_mxfp4(torch.randn(m, k) * torch.logspace(-3, 3, m)[:, None])
    w, w_scale = ref.quant_mxfp4(torch.randn(n, k))
    want = ref.gemm_a4w4(x, w, x_scale, w_scale, torch.float64)
    got = product(ops, x, w, x_scale, w_scale)
    bound = 1e-6 * k**0.5 * want.abs().amax(1, keepdim=True) + 1e-9
    assert ((got.double() - want).abs() <= bound).all()


@pytest.mark.parametrize("side", ["x", "w"])
def test_every_code_by_every_scale(ops, unit, side):
    """From 2^-125 to the largest numbers, and NaN: the exponents of bf16."""
    codes = torch.arange(256, dtype=torch.int32).to(torch.uint8)[:, None].contiguous()
    for scale in (2, 3, 126, 127, 128, 251, 252, 253, 254, 255):
        scales = torch.full((256, 1), scale, dtype=torch.uint8)
        one, one_scale = torch.tensor([[2]], dtype=torch.uint8), torch.tensor([[127]]).byte()
        pair = (codes, one, scales, one_scale)
        swapped = (one, codes, one_scale, scales)
        got = product(ops, *(pair if side == "x" else swapped)).flatten()
        want = ref.gemm_a4w4(*pair, torch.float64).flatten()
        # Beyond them an infinity meets the zero beside it, which is no number.
        largest = ref.dequantize_mxfp4(codes, scales).abs().amax(1)
        numbers = (largest < 2.0**128) | largest.isnan()
        torch.testing.assert_close(
            got[numbers], want[numbers].float(), rtol=0, atol=0, equal_nan=True
        )


def test_scales_below_the_normal_numbers_give_next_to_nothing(ops, unit):
    """Not a number of another sign or size, as an exponent that wraps around would."""
    codes = torch.arange(256, dtype=torch.int32).to(torch.uint8)[:, None].contiguous()
    for scale in (0, 1):
        scales = torch.full((256, 1), scale, dtype=torch.uint8)
        one, one_scale = torch.tensor([[2]], dtype=torch.uint8), torch.tensor([[127]]).byte()
        assert product(ops, one, codes, one_scale, scales).abs().max() <= 6 * 2.0**-126


@pytest.mark.parametrize("dtype", INPUTS, ids=str)
def test_products_are_rounded_to_nearest_even(ops, unit, dtype):
    x, x_scale = ref.quant_mxfp4(torch.randn(20, 128))
    w, w_scale = ref.quant_mxfp4(torch.randn(30, 128))
    x_scale.fill_(127)
    w_scale.fill_(127)  # sums of quarters: exact in any order
    want = ref.gemm_a4w4(x, w, x_scale, w_scale, dtype)
    assert torch.equal(product(ops, x, w, x_scale, w_scale, dtype), want)


@pytest.mark.parametrize("mnk", [(0, 5, 7), (3, 0, 5), (3, 5, 0)], ids=str)
def test_empty_products(ops, unit, mnk):
    m, n, k = mnk
    operands = [ref.quant_mxfp4(torch.randn(rows, k)) for rows in (m, n)]
    (x, x_scale), (w, w_scale) = operands
    assert product(ops, x, w, x_scale, w_scale).count_nonzero() == 0


X = torch.zeros(4, 64, dtype=torch.bfloat16)
Q, S = torch.zeros(4, 32, dtype=torch.uint8), torch.zeros(4, 2, dtype=torch.uint8)
BAD = {
    "x has dtype": lambda ops: ops.quant_mxfp4(Q, X.double(), S),
    "out has dtype": lambda ops: ops.quant_mxfp4(Q.view(torch.int8), X, S),
    r"out has shape \[4, 31\], expected \[4, 32\]": lambda ops: ops.quant_mxfp4(Q[:, 1:], X, S),
    r"scales has shape \[4, 1\], expected \[4, 2\]": lambda ops: ops.quant_mxfp4(Q, X, S[:, 1:]),
    "x has stride 4": lambda ops: ops.quant_mxfp4(Q, torch.zeros(64, 4).t(), S),
    r"x has shape \[64\]": lambda ops: ops.quant_mxfp4(Q, X[0], S),
    r"w has shape \[4, 32\], expected \[1, 512\]": lambda ops: ops.gemm_a4w4(
        torch.zeros(4, 4), Q, Q, S, S
    ),
    r"x_scale has shape \[4, 1\]": lambda ops: ops.gemm_a4w4(
        torch.zeros(4, 4), Q, *packed(ops, Q, S)[:1], S[:, :1], S
    ),
    "out has shape": lambda ops: ops.gemm_a4w4(
        torch.zeros(3, 4), Q, packed(ops, Q, S)[0], S, packed(ops, Q, S)[1]
    ),
    "w_scale has dtype": lambda ops: ops.pack_mxfp4_w(Q, S, Q, S.view(torch.int8)),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_arguments_are_named(ops, message):
    with pytest.raises(ValueError, match=message):
        BAD[message](ops)
