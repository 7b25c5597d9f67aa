"""Quantisation references against hand values and a search of the whole 8-bit grid in fp64."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from aiter_ref import quant

QUANT_DTYPES = [torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.int8]
LIMITS = {torch.float8_e4m3fn: 448.0, torch.float8_e4m3fnuz: 240.0, torch.int8: 127.0}


def nearest(value, quant_dtype):
    """Index-free rounding: the nearest of all 8-bit values, ties to the even code."""
    codes = torch.arange(256, dtype=torch.int16).to(torch.uint8)
    grid = codes.view(quant_dtype).double()
    usable = grid.isfinite() & (grid.abs() <= LIMITS[quant_dtype])
    # A negative zero would tie with zero.
    codes = codes[usable & ~((grid == 0) & (codes != 0))]
    grid = codes.view(quant_dtype).double()
    distance = (value.double().reshape(-1, 1) - grid).abs()
    odd = codes.long() % 2
    best = (distance == distance.amin(1, keepdim=True)).double() * (2 - odd)
    return grid[best.argmax(1)].reshape(value.shape)


def exact_scale(largest, quant_dtype):
    # An fp32 quotient is the fp64 quotient rounded once more: 53 bits are enough for that.
    scale = (largest.double() / LIMITS[quant_dtype]).float()
    return torch.where(scale == 0, torch.ones_like(scale), scale)


@pytest.mark.parametrize("quant_dtype", QUANT_DTYPES)
def test_limits(quant_dtype):
    assert quant.dtype_max(quant_dtype) == LIMITS[quant_dtype]


def test_int8_rounds_half_to_even_and_clamps_symmetrically():
    x = torch.tensor([[0.5, 1.5, 2.5, -0.5, -1.5, 126.6, 300.0, -300.0]])
    q = quant.static_per_tensor_quant(x, torch.ones(1), torch.int8)
    assert q.tolist() == [[0, 2, 2, 0, -2, 127, 127, -127]]


def test_fp8_by_hand():
    # 448 is the largest; 17 lies half-way between 16 and 18 and goes to the even 16.
    x = torch.tensor([[448.0, 1000.0, -1000.0, 17.0, 19.0, 2.0**-9, 2.0**-10]])
    q = quant.static_per_tensor_quant(x, torch.ones(1), torch.float8_e4m3fn)
    assert q.float().tolist() == [[448.0, 448.0, -448.0, 16.0, 20.0, 2.0**-9, 0.0]]


def test_zero_rows_and_groups_have_scale_one():
    x = torch.zeros(3, 130)
    x[1, 129] = 254.0
    assert quant.dynamic_per_token_quant(x, torch.int8)[1].tolist() == [[1.0], [2.0], [1.0]]
    q, scales = quant.dynamic_per_group_quant(x, torch.int8)
    assert scales.tolist() == [[1.0, 1.0], [1.0, 2.0], [1.0, 1.0]]
    assert q.shape == (3, 130)
    assert q[1, 129] == 127
    assert quant.dynamic_per_tensor_quant(torch.zeros(2, 2), torch.int8)[1].tolist() == [1.0]


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0)])
def test_empty(shape):
    for function in (
        quant.dynamic_per_tensor_quant,
        quant.dynamic_per_token_quant,
        quant.dynamic_per_group_quant,
    ):
        q, scales = function(torch.empty(shape), torch.int8)
        assert q.shape == shape
        assert (scales == 1).all()


@st.composite
def inputs(draw):
    m, k = draw(st.integers(1, 4)), draw(st.integers(1, 300))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    size = draw(st.sampled_from([1e-6, 1.0, 1e4]))
    dtype = draw(st.sampled_from([torch.bfloat16, torch.float16, torch.float32]))
    return (torch.randn(m, k, generator=generator) * size).to(dtype)


@settings(deadline=None, max_examples=40)
@given(x=inputs(), group=st.sampled_from([1, 7, 128]), quant_dtype=st.sampled_from(QUANT_DTYPES))
def test_every_scheme_against_the_grid(x, group, quant_dtype):
    m, k = x.shape
    magnitude = x.double().abs()
    by_group = [part.amax(1) for part in magnitude.split(group, dim=1)]
    expected = {
        "tensor": exact_scale(magnitude.amax(), quant_dtype).reshape(1),
        "token": exact_scale(magnitude.amax(1), quant_dtype).reshape(m, 1),
        "group": exact_scale(torch.stack(by_group, 1), quant_dtype),
    }
    got = {
        "tensor": quant.dynamic_per_tensor_quant(x, quant_dtype),
        "token": quant.dynamic_per_token_quant(x, quant_dtype),
        "group": quant.dynamic_per_group_quant(x, quant_dtype, group),
    }
    for name, (q, scales) in got.items():
        assert scales.dtype is torch.float32
        assert torch.equal(scales, expected[name]), name
        per_element = scales
        if name == "group":
            per_element = scales.repeat_interleave(group, 1)[:, :k]
        scaled = (x.float() / per_element).clamp(-LIMITS[quant_dtype], LIMITS[quant_dtype])
        assert torch.equal(q.double(), nearest(scaled, quant_dtype)), name
        restored = quant.dequantize(q, scales, group if name == "group" else None)
        assert torch.equal(restored, q.float() * per_element)


def test_nan_spreads_through_its_row_only():
    x = torch.ones(2, 4)
    x[0, 2] = float("nan")
    q, scales = quant.dynamic_per_token_quant(x, torch.float8_e4m3fn)
    assert q[0].isnan().all()
    assert scales[0].isnan()
    assert scales[1].isfinite()
