"""Rotary position embedding against complex numbers in fp64, and by hand."""

from __future__ import annotations

import cmath

import pytest
import torch

from aiter_ref import rope as ref

# Half a step of the output, and for fp32 what fp32 arithmetic inside loses.
RTOL = {torch.bfloat16: 2**-8, torch.float16: 2**-11, torch.float32: 1e-5}
ROTARY = [2, 10, 16]  # of a head of 16: almost none, a part, all


def turned(x, positions, rotary_dim, *, is_neox, base=10000.0):
    """Each pair as a complex number times e^(i angle), one at a time."""
    want = x.double().clone()
    half = rotary_dim // 2
    for pair in range(half):
        first, second = (pair, pair + half) if is_neox else (2 * pair, 2 * pair + 1)
        for token, position in enumerate(positions.tolist()):
            by = cmath.exp(1j * position * base ** (-2 * pair / rotary_dim))
            for head in range(x.shape[1]):
                at = want[token, head]
                product = complex(x[token, head, first], x[token, head, second]) * by
                at[first], at[second] = product.real, product.imag
    return want


@pytest.mark.parametrize("rotary_dim", ROTARY)
@pytest.mark.parametrize("is_neox", [True, False])
@pytest.mark.parametrize("dtype", RTOL)
def test_pairs_turn_as_complex_numbers(dtype, is_neox, rotary_dim):
    """The other pairing, the other direction, the angle of another pair, a rest that turns too."""
    x, positions = torch.randn(4, 3, 16).to(dtype), torch.tensor([0, 5, 5, 29])
    cos_sin = ref.cos_sin_cache(30, rotary_dim, torch.float32)
    got = ref.rope(x, positions, cos_sin, is_neox=is_neox)
    assert got.dtype is dtype
    want = turned(x, positions, rotary_dim, is_neox=is_neox)
    torch.testing.assert_close(got.double(), want, rtol=RTOL[dtype], atol=3e-5)
    assert torch.equal(got[..., rotary_dim:], x[..., rotary_dim:])


@pytest.mark.parametrize("is_neox", [True, False])
def test_norm_is_of_the_whole_head_and_comes_first(is_neox):
    x, weight = torch.randn(4, 3, 16), torch.rand(16) + 0.5
    positions, cos_sin = torch.arange(4), ref.cos_sin_cache(4, 10, torch.float32)
    got = ref.norm_rope(x, weight, positions, cos_sin, 1e-2, is_neox=is_neox)
    wide = x.double()
    divisor = (wide.square().sum(-1, keepdim=True) / 16 + 1e-2).sqrt()
    want = turned(wide / divisor * weight.double(), positions, 10, is_neox=is_neox)
    torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=1e-5)


def test_norm_is_not_rounded_before_the_turn():
    """As two operators it would be: the fused one has the digits of fp32 until the end."""
    x, weight = torch.randn(64, 1, 16).bfloat16(), torch.ones(16).bfloat16()
    positions, cos_sin = torch.arange(64), ref.cos_sin_cache(64, 16, torch.float32)
    got = ref.norm_rope(x, weight, positions, cos_sin, 1e-6, is_neox=True)
    wide = ref.norm_rope(x.float(), weight.float(), positions, cos_sin, 1e-6, is_neox=True)
    assert torch.equal(got, wide.bfloat16())


def test_by_hand():
    # A quarter turn: (1, 2) becomes (-2, 1).
    x, cos_sin = torch.tensor([[[1.0, 2.0, 7.0]]]), torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    got = ref.rope(x, torch.tensor([1]), cos_sin, is_neox=True)
    assert got.tolist() == [[[-2.0, 1.0, 7.0]]]
