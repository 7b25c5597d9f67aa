"""Triton's quantisation in the interpreter, to the bit of the reference."""

from __future__ import annotations

import pytest
import torch

from aiter_ref import quant as ref
from optest.errors import UsageError
from optest.ops.triton import quant

DTYPES = [torch.bfloat16, torch.float16, torch.float32]
QUANT_DTYPES = [torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.int8]
# One element, a prime, one to either side of a group, more than one block of a row.
SHAPES = [(1, 1), (3, 7), (2, 127), (2, 129), (4, 256), (1, 4099)]


def matrix(shape, dtype, *, strided=False):
    """Random rows of unlike size, the first one zero; strided: every other row of a wider one."""
    m, k = shape
    wide = torch.randn(2 * m, k + 5) * torch.logspace(-3, 2, 2 * m)[:, None]
    wide[0] = 0
    return wide.to(dtype)[::2, 3 : 3 + k] if strided else wide[:m, :k].to(dtype).contiguous()


def same_bits(got, want):
    assert got.dtype is want.dtype
    assert got.shape == want.shape
    assert torch.equal(got.contiguous().view(torch.uint8), want.view(torch.uint8))


def check_all(x, quant_dtype, group=128):
    m, k = x.shape
    out = torch.empty(m, k + 3, dtype=quant_dtype)[:, :k]
    schemes = {
        "tensor": ((1,), ref.dynamic_per_tensor_quant, ()),
        "token": ((m, 1), ref.dynamic_per_token_quant, ()),
        "group": ((m, -(-k // group)), ref.dynamic_per_group_quant, (group,)),
    }
    for name, (shape, reference, extra) in schemes.items():
        scales = torch.full(shape, torch.nan)
        out.fill_(5)
        getattr(quant, f"dynamic_per_{name}_quant")(out, x, scales, *extra)
        want, want_scales = reference(x, quant_dtype, *extra)
        assert torch.equal(scales, want_scales), name
        same_bits(out, want)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_shapes(shape):
    check_all(matrix(shape, torch.bfloat16), torch.float8_e4m3fn)
    check_all(matrix(shape, torch.bfloat16, strided=True), torch.int8)


@pytest.mark.parametrize("quant_dtype", QUANT_DTYPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(dtype, quant_dtype):
    check_all(matrix((3, 45), dtype, strided=True), quant_dtype, group=16)


@pytest.mark.parametrize("quant_dtype", QUANT_DTYPES)
def test_static_saturates(quant_dtype):
    # Every tie and every value between two codes, with the scale 1, and beyond the range.
    limit = ref.dtype_max(quant_dtype)
    codes = torch.arange(256, dtype=torch.int16).to(torch.uint8).view(quant_dtype).float()
    grid = codes[codes.isfinite()].unique()
    ties = (grid[1:] + grid[:-1]) / 2
    x = torch.cat([grid, ties, ties * (1 + 2**-20), torch.tensor([2 * limit, -2 * limit])])[None]
    out = torch.empty(x.shape, dtype=quant_dtype)
    scale = torch.ones(1)
    quant.static_per_tensor_quant(out, x, scale)
    same_bits(out, ref.static_per_tensor_quant(x, scale, quant_dtype))
    assert out[0, -2].float() == limit
    assert out[0, -1].float() == -limit


def test_many_rows_share_one_program(monkeypatch):
    # More rows than partial results; the last row decides the scale.
    monkeypatch.setattr(quant, "_MAX_PARTIALS", 2)
    x = torch.ones(7, 2)
    x[6] = 508.0
    out, scale = torch.empty(7, 2, dtype=torch.int8), torch.empty(1)
    quant.dynamic_per_tensor_quant(out, x, scale)
    assert scale.item() == 4.0
    assert out[6].tolist() == [127, 127]


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # int8 has no NaN
def test_nan_reaches_the_scale():
    x = torch.ones(2, 5)
    x[1, 3] = torch.nan
    out, scales = torch.empty(2, 5, dtype=torch.int8), torch.empty(2, 1)
    quant.dynamic_per_token_quant(out, x, scales)
    assert scales.flatten().isnan().tolist() == [False, True]
    scale = torch.empty(1)
    quant.dynamic_per_tensor_quant(out, x, scale)
    assert scale.isnan().all()


@pytest.mark.parametrize("shape", [(0, 5), (5, 0)])
def test_empty(shape):
    check_all(torch.empty(shape), torch.int8)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"q": torch.empty(4, 5, dtype=torch.int8)}, r"out: shape \(4, 5\).*expected \(4, 6\)"),
        ({"q": torch.empty(4, 6, dtype=torch.int16)}, "out: dtype torch.int16, expected one of"),
        ({"q": torch.empty(6, 4, dtype=torch.int8).t()}, "columns side by side"),
        ({"x": torch.empty(4)}, r"x: shape \(4,\), expected \[m, k\]"),
        ({"scales": torch.empty(3, 1)}, "expected 4 contiguous fp32"),
        ({"scales": torch.empty(4, 1).double()}, "torch.float64"),
    ],
)
def test_refused(changes, words):
    operands = {
        "q": torch.empty(4, 6, dtype=torch.int8),
        "x": torch.empty(4, 6),
        "scales": torch.empty(4, 1),
    }
    with pytest.raises(UsageError, match=words):
        quant.dynamic_per_token_quant(**{**operands, **changes})
