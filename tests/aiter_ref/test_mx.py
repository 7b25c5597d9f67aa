"""References of microscaling against hand values and a search of the whole e2m1 grid."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from aiter_ref import mx

GRID = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]


def nearest(value):
    """The code of the nearest of all eight magnitudes, the even one of two as near."""
    distances = [abs(abs(value) - number) for number in GRID]
    best = [code for code, distance in enumerate(distances) if distance == min(distances)]
    code = min(best, key=lambda code: code % 2)
    return code | (8 if math.copysign(1.0, value) < 0 else 0)


def unpacked(codes):
    return [nibble for byte in codes.flatten().tolist() for nibble in (byte & 15, byte >> 4)]


def test_by_hand():
    # 24 = 1.5 * 2^4: the scale is 2^(4 - 2), and 24 / 4 is 6. 10 / 4 is a tie of 2 and 3.
    x = torch.tensor([[24.0, -10.0, 1.0, 0.0, 13.0]])
    codes, scales = mx.quant_mxfp4(x)
    assert scales.tolist() == [[127 + 2]]
    # 24 / 4 = 6; -2.5 goes to the even -2; 0.25 to the even 0; 3.25 to 3; the last is filler.
    assert unpacked(codes) == [7, 8 | 4, 0, 0, 5, 0]
    assert mx.dequantize_mxfp4(codes, scales).tolist() == [[24.0, -8.0, 0.0, 0.0, 12.0, 0.0]]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize("k", [1, 32, 33, 70])
def test_against_the_grid(k, dtype):
    """Rounding ties, saturation between 6 and 8, the scale of another block, short blocks."""
    x = (torch.randn(4, k) * torch.tensor([[1e-3], [1.0], [100.0], [0.0]])).to(dtype)
    codes, scales = mx.quant_mxfp4(x)
    for row, values in enumerate(x.double().tolist()):
        want = []
        for at, start in enumerate(range(0, k, 32)):
            block = values[start : start + 32]
            largest = max(abs(v) for v in block)
            exponent = math.floor(math.log2(largest)) - 2 if largest else -127
            assert scales[row, at].item() == exponent + 127
            want += [nearest(v / 2.0**exponent) for v in block]
        assert unpacked(codes[row])[:k] == want
        assert unpacked(codes[row])[k:] == [0] * (k % 2)


def test_every_tie_and_what_lies_beside_it():
    ties = torch.tensor([(a + b) / 2 for a, b in itertools.pairwise(GRID)] + [7.0])
    below, above = (torch.nextafter(ties, torch.full_like(ties, to)) for to in (0.0, 9.0))
    x = torch.cat([ties, below, above, -ties])[None]
    blocks = torch.cat([x, torch.tensor([[7.5]])], 1)
    codes, _ = mx.quant_mxfp4(torch.nn.functional.pad(blocks[:, :31], (1, 0), value=7.0))
    assert unpacked(codes) == [7, *(nearest(v) for v in blocks[0, :31].tolist())]


@pytest.mark.parametrize(
    ("largest", "scale"),
    [(3.4e38, 252), (2.0**-125, 0), (2.0**-124, 1), (2.0**-140, 0), (0.0, 0)],
)
def test_ends_of_the_scales(largest, scale):
    """Below 2^-127 there is none: the numbers become small instead of infinite."""
    codes, scales = mx.quant_mxfp4(torch.tensor([[largest, largest / 8]]))
    assert scales.item() == scale
    got = mx.dequantize_mxfp4(codes, scales)[0, 0].item()
    assert abs(got - largest) <= max(largest / 4, 2.0**-129)


@pytest.mark.parametrize("special", [math.nan, math.inf, -math.inf])
def test_no_number_spoils_its_block_and_no_other(special):
    x = torch.ones(1, 64)
    x[0, 40] = special
    codes, scales = mx.quant_mxfp4(x)
    assert scales.tolist() == [[125, 255]]
    assert codes[0, 16:].count_nonzero() == 0
    values = mx.dequantize_mxfp4(codes, scales)
    assert (values[0, :32] == 1).all()
    assert values[0, 32:].isnan().all()


@pytest.mark.parametrize("shape", [(0, 5), (5, 0)])
def test_empty(shape):
    codes, scales = mx.quant_mxfp4(torch.empty(shape))
    assert codes.shape == (shape[0], (shape[1] + 1) // 2)
    assert scales.shape == (shape[0], min(shape[1], 1))


@pytest.mark.parametrize("k", [1, 32, 50, 67])
def test_gemm_a4w4(k):
    """Block by block in Python's numbers: a scale of another block, a filler that counts."""
    x, x_scale = mx.quant_mxfp4(torch.randn(3, k) * 10)
    w, w_scale = mx.quant_mxfp4(torch.randn(2, k))
    got = mx.gemm_a4w4(x, w, x_scale, w_scale, torch.float32)
    for i in range(3):
        for j in range(2):
            numbers = [
                [(-1) ** (code >> 3) * GRID[code & 7] for code in unpacked(row)]
                for row in (x[i], w[j])
            ]
            want = sum(
                a * b * 2.0 ** (int(x_scale[i, at // 32]) + int(w_scale[j, at // 32]) - 254)
                for at, (a, b) in enumerate(zip(*numbers, strict=True))
            )
            assert got[i, j].item() == pytest.approx(want, rel=2**-23)
