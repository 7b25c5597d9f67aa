"""Quantisation against plain torch in fp32: scales and codes equal in every bit."""

from __future__ import annotations

import pytest
import torch

from optest import native

FP8, FNUZ, I8 = torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.int8
LARGEST = {FP8: 448.0, FNUZ: 240.0, I8: 127.0}
INPUTS = (torch.bfloat16, torch.float16, torch.float32)
# Below, at and above the widths of vectors and runs; rows that lie apart in memory.
PLACES = ((1, "dense"), (127, "strided"), (128, "3d"), (129, "transposed"), (8200, "strided"))
# Ordinary ones, and ones for which a reciprocal is not exact enough.
SCALES = (1.0, 0.013, 3.7e-3, 1e-30, 1e-39, 3e38)


@pytest.fixture(scope="module")
def ops():
    return native.csrc("quant")


def find_scale(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    scale = x.float().abs().amax(-1, keepdim=True) / LARGEST[dtype]
    return torch.where(scale == 0, 1.0, scale)


def quantise(x: torch.Tensor, scale: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    q = x.float() / scale
    if dtype == I8:
        q = q.round().nan_to_num(nan=0.0, posinf=127.0, neginf=-127.0)
    return q.clamp(-LARGEST[dtype], LARGEST[dtype]).to(dtype)


def assert_same_codes(got: torch.Tensor, want: torch.Tensor) -> None:
    """Equal bits; of NaN there are two in e4m3fn, and either is right."""
    a, b = got.reshape(-1).view(torch.uint8), want.reshape(-1).view(torch.uint8)
    both_nan = got.float().isnan().reshape(-1) & want.float().isnan().reshape(-1)
    wrong = ((a != b) & ~both_nan).nonzero()
    assert len(wrong) == 0, f"{len(wrong)} codes differ, first at {wrong[0].item()}"


def assert_same_scales(got: torch.Tensor, want: torch.Tensor) -> None:
    torch.testing.assert_close(got.reshape(-1), want.reshape(-1), rtol=0, atol=0, equal_nan=True)


def all_patterns(dtype: torch.dtype) -> torch.Tensor:
    """Every bit pattern of a 16-bit dtype, NaN and infinities among them."""
    return torch.arange(-32768, 32768, dtype=torch.int32).to(torch.int16).view(dtype)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("dtype", [FP8, FNUZ, I8], ids=str)
@pytest.mark.parametrize("source", INPUTS[:2], ids=str)
def test_every_16_bit_pattern_rounds_to_nearest_even_and_saturates(ops, source, dtype, scale):
    x, by = all_patterns(source), torch.tensor([scale])
    out = torch.empty(x.shape, dtype=dtype)
    ops.static_per_tensor_quant(out, x, by)
    assert_same_codes(out, quantise(x, by, dtype))


@pytest.mark.parametrize("dtype", [FP8, FNUZ, I8], ids=str)
def test_fp32_ties_and_their_neighbours(ops, dtype):
    """A value half-way between two codes, and one ulp to either side of it."""
    codes = torch.arange(256, dtype=torch.int32).to(torch.uint8).view(dtype).float()
    codes = codes[codes.isfinite()].unique()
    ties = (codes[1:] + codes[:-1]) / 2
    near = [torch.nextafter(ties, torch.full_like(ties, side)) for side in (-1e9, 1e9)]
    x = torch.cat([codes, ties, *near, -near[0]])
    out, one = torch.empty(x.shape, dtype=dtype), torch.ones(1)
    ops.static_per_tensor_quant(out, x, one)
    assert_same_codes(out, quantise(x, one, dtype))


@pytest.mark.parametrize(("length", "layout"), PLACES)
@pytest.mark.parametrize("source", INPUTS, ids=str)
@pytest.mark.parametrize("dtype", [FP8, FNUZ, I8], ids=str)
def test_per_token(ops, dtype, source, length, layout, lay_out, room_like):
    values = (torch.randn(8, length) * torch.logspace(-3, 3, 8)[:, None]).to(source)
    values[2] = 0
    x = lay_out(values, layout)
    out, scales = room_like(x, dtype, layout), torch.empty(8)
    ops.dynamic_per_token_quant(out, x, scales)
    want = find_scale(x, dtype)
    assert_same_scales(scales, want)
    assert_same_codes(out.contiguous(), quantise(x, want, dtype))


@pytest.mark.parametrize("group", [1, 128, 5000, 20000])
@pytest.mark.parametrize("length", [128, 384, 4095, 17000])
@pytest.mark.parametrize("dtype", [FP8, FNUZ, I8], ids=str)
def test_per_group_with_a_shorter_last_group(ops, dtype, length, group, lay_out, room_like):
    x = lay_out(torch.randn(6, length).to(torch.bfloat16), "strided")
    groups = -(-length // group)
    out, scales = room_like(x, dtype, "strided"), torch.empty(6, groups)
    ops.dynamic_per_group_quant(out, x, scales, group)
    padded = torch.nn.functional.pad(x, (0, groups * group - length)).reshape(6, groups, group)
    want = find_scale(padded, dtype)
    assert_same_scales(scales, want)
    each = want.expand(padded.shape).reshape(6, -1)[:, :length]
    assert_same_codes(out.contiguous(), quantise(x, each, dtype))


@pytest.mark.parametrize("source", INPUTS, ids=str)
@pytest.mark.parametrize("dtype", [FP8, FNUZ, I8], ids=str)
def test_per_tensor_static_and_dynamic(ops, dtype, source, layout, lay_out, room_like):
    x = lay_out(torch.randn(10, 333).to(source), layout)
    found = torch.empty(1)
    out = room_like(x, dtype, layout)
    ops.dynamic_per_tensor_quant(out, x, found)
    want = find_scale(x.reshape(1, -1), dtype).reshape(1)
    assert_same_scales(found, want)
    assert_same_codes(out.contiguous(), quantise(x, want, dtype))
    again = room_like(x, dtype, layout)
    ops.static_per_tensor_quant(again, x, found)
    assert_same_codes(again.contiguous(), out.contiguous())


def test_long_single_row_is_shared_between_threads(ops):
    x = torch.randn(300_001).to(torch.bfloat16)
    x[299_999] = 1000.0
    out, scale = torch.empty(x.shape, dtype=FP8), torch.empty(1)
    ops.dynamic_per_tensor_quant(out, x, scale)
    assert_same_scales(scale, find_scale(x, FP8))
    assert_same_codes(out, quantise(x, scale, FP8))


@pytest.mark.parametrize("special", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("source", INPUTS, ids=str)
@pytest.mark.parametrize("dtype", [FP8, FNUZ], ids=str)
def test_nan_and_infinity_spoil_their_row_and_no_other(ops, dtype, source, special):
    x = torch.randn(4, 129).to(source)
    x[1, 128] = special
    out, scales = torch.empty(x.shape, dtype=dtype), torch.empty(4)
    ops.dynamic_per_token_quant(out, x, scales)
    want = find_scale(x, dtype)
    assert_same_scales(scales, want)
    assert_same_codes(out, quantise(x, want, dtype))


def test_zero_rows_decode_to_zeros(ops, room_like):
    x = torch.zeros(3, 100, dtype=torch.bfloat16)
    out, scales = room_like(x, FP8, "dense"), torch.empty(3)
    ops.dynamic_per_token_quant(out, x, scales)
    assert torch.equal(scales, torch.ones(3))
    assert out.float().count_nonzero() == 0


@pytest.mark.parametrize("shape", [(0,), (0, 7), (3, 0), (2, 0, 5)])
def test_empty(ops, shape):
    x = torch.empty(shape, dtype=torch.float16)
    out, rows = torch.empty(shape, dtype=I8), x[..., 0].numel() if shape[-1] else shape[0]
    scales = torch.full((rows if len(shape) > 1 else 1,), 9.0)
    ops.dynamic_per_token_quant(out, x, scales)
    one = torch.full((1,), 9.0)
    ops.dynamic_per_tensor_quant(out, x, one)
    assert one.item() == 1.0


@pytest.mark.parametrize("threads", [1, 2])
def test_past_the_caches(ops, threads):
    """An output too big for the last-level cache takes the other way to memory."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        x = torch.randn(64, 4097).to(torch.bfloat16).repeat(400, 1)
        out, scales = torch.empty(x.shape, dtype=I8), torch.empty(len(x))
        ops.dynamic_per_token_quant(out, x, scales)
    finally:
        torch.set_num_threads(before)
    want = find_scale(x[:64], I8)
    assert_same_scales(scales, want.repeat(400, 1))
    assert_same_codes(out, quantise(x[:64], want, I8).repeat(400, 1))


X = torch.zeros(4, 256, dtype=torch.bfloat16)
Q = torch.zeros(4, 256, dtype=I8)
BAD = {
    "x has dtype": lambda ops: ops.dynamic_per_token_quant(Q, X.double(), torch.empty(4)),
    "out has dtype": lambda ops: ops.dynamic_per_token_quant(X.float(), X, torch.empty(4)),
    r"out has shape \[4, 255\]": lambda ops: ops.dynamic_per_token_quant(
        Q[:, 1:], X, torch.empty(4)
    ),
    "x has stride 4": lambda ops: ops.dynamic_per_token_quant(
        Q, torch.zeros(256, 4, dtype=torch.bfloat16).t(), torch.empty(4)
    ),
    r"scales has shape \[5\], expected 4": lambda ops: ops.dynamic_per_token_quant(
        Q, X, torch.empty(5)
    ),
    "scales has dtype": lambda ops: ops.dynamic_per_token_quant(Q, X, torch.empty(4).double()),
    "scales has strides": lambda ops: ops.dynamic_per_token_quant(Q, X, torch.empty(4, 2)[:, 0]),
    r"scales has shape \[4\], expected 8": lambda ops: ops.dynamic_per_group_quant(
        Q, X, torch.empty(4), 128
    ),
    "group is 0": lambda ops: ops.dynamic_per_group_quant(Q, X, torch.empty(4), 0),
    r"scale has shape \[2\], expected 1": lambda ops: ops.static_per_tensor_quant(
        Q, X, torch.ones(2)
    ),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_arguments_are_named(ops, message):
    with pytest.raises(ValueError, match=message):
        BAD[message](ops)


def test_schemas_mark_what_is_written(ops):
    schema = ops.dynamic_per_group_quant.default._schema
    written = [a.name for a in schema.arguments if a.alias_info and a.alias_info.is_write]
    assert written == ["out", "scales"]
