"""Arithmetic on bits, and the mutants made of it, for every dtype that an output may have."""

from __future__ import annotations

import pytest
import torch

from optest.mutate.formats import Values
from optest.mutate.graded import LADDERS
from optest.mutate.gross import GROSS, Material
from optest.tensors import bits

DTYPES = [
    "float64", "float32", "bfloat16", "float16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2",
    "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn_x2", "int8", "uint8", "int16", "uint16",
    "int32", "uint32", "int64", "uint64", "bool",
]  # fmt: skip
SIGNED = {d for d in DTYPES if d.startswith(("float", "bfloat", "int"))} - {"float8_e8m0fnu"}


def sample(name, rows=66, columns=70, seed=0):
    """Ordinary values of a dtype, as bits ``[rows, columns]``."""
    torch.manual_seed(seed)
    dtype = getattr(torch, name)
    if name == "float4_e2m1fn_x2":
        return torch.randint(0, 256, (rows, columns), dtype=torch.uint8), dtype
    if name == "float8_e8m0fnu":
        return torch.randint(100, 140, (rows, columns), dtype=torch.uint8), dtype
    if name == "bool":
        return torch.randint(0, 2, (rows, columns)).to(torch.uint8), dtype
    if dtype.is_floating_point:
        return bits(torch.randn(rows, columns).to(dtype)), dtype
    low = -100 if name in SIGNED else 1
    return bits(torch.randint(low, 101, (rows, columns)).to(dtype)), dtype


def material(name):
    right, dtype = sample(name)
    stale, _ = sample(name, seed=1)
    return Material(right, torch.full_like(right, 1 if name == "bool" else -1), stale, dtype)


@pytest.mark.parametrize("mutant", GROSS)
@pytest.mark.parametrize("name", DTYPES)
def test_a_gross_mutant_is_another_result_of_the_same_kind(name, mutant):
    right = material(name)
    kept = right.right.clone()
    wrong = GROSS[mutant](right)
    if name == "bool" and mutant == "wrong-scale row":
        return  # there is no scale
    assert (wrong.shape, wrong.dtype) == (right.right.shape, right.right.dtype)
    assert not right.values.same(wrong).all()
    assert torch.equal(right.right, kept), "the right result was changed on the way"


@pytest.mark.parametrize("name", DTYPES)
def test_what_is_decoded_is_encoded_to_the_same_bits(name):
    found, dtype = sample(name)
    values = Values(found, dtype)
    assert values.same(values.encoded(values.decoded())).all()


@pytest.mark.parametrize("name", sorted(SIGNED))
def test_values(name):
    """2 becomes 4 and -2; from 3 the nearest with one significant bit is 2 or 4."""
    dtype = getattr(torch, name)
    found = (
        torch.tensor([0x44], dtype=torch.uint8)  # 2 and 2
        if name == "float4_e2m1fn_x2"
        else bits(torch.tensor([2.0]).to(dtype))
    )
    values = Values(found, dtype)
    for made, want in ((values.scaled(2.0), 4.0), (values.negated(), -2.0)):
        assert set(Values(made, dtype).decoded().reshape(-1).tolist()) == {want}


def test_scaling_saturates_and_does_not_wrap():
    assert Values(torch.tensor([200], dtype=torch.uint8), torch.uint8).scaled(2.0).item() == 255
    int8 = Values(torch.tensor([-100], dtype=torch.int8).view(torch.uint8), torch.int8)
    assert int8.scaled(2.0).view(torch.int8).item() == -128
    big = bits(torch.tensor([400.0]).to(torch.float8_e4m3fn))
    assert (
        Values(Values(big, torch.float8_e4m3fn).scaled(2.0), torch.float8_e4m3fn).decoded() == 448
    )
    ids = torch.tensor([2**62 + 1])
    assert Values(ids, torch.int64).scaled(4.0).item() == 2**63 - 1


@pytest.mark.parametrize("name", [d for d in DTYPES if "float" in d and "float4" not in d])
def test_one_nan_is_one_nan(name):
    right = material(name)
    wrong = Values(GROSS["one NaN"](right), right.dtype).decoded()
    assert int(wrong.isnan().sum()) == 1


@pytest.mark.parametrize("name", ["float64", "float32", "bfloat16", "float16", "float8_e5m2"])
def test_one_inf_is_one_inf(name):
    right = material(name)
    wrong = Values(GROSS["one Inf"](right), right.dtype).decoded()
    assert int(wrong.isinf().sum()) == 1


@pytest.mark.parametrize("name", ["int8", "uint8", "int64", "float4_e2m1fn_x2"])
def test_where_there_is_no_nan_one_element_is_as_far_off_as_can_be(name):
    right = material(name)
    wrong = GROSS["one NaN"](right)
    (place,) = (wrong != right.right).reshape(-1).nonzero().squeeze(1).tolist()
    off = (Values(wrong, right.dtype).decoded() - right.values.decoded()).abs()
    info = {"float4_e2m1fn_x2": 12.0}.get(name) or float(
        torch.iinfo(right.dtype).max - torch.iinfo(right.dtype).min
    )
    assert off.reshape(wrong.numel(), -1)[place].max() >= info / 2


def test_zeros_of_either_sign_are_the_same_and_nan_is_itself():
    found = bits(torch.tensor([0.0, -0.0, torch.nan, 1.0]))
    other = bits(torch.tensor([-0.0, 0.0, torch.nan, 2.0]))
    assert Values(found, torch.float32).same(other).tolist() == [True, True, True, False]


@pytest.mark.parametrize("name", DTYPES)
def test_graded_mutants_become_finer(name):
    """A step that were coarser than the one before would make the bisection lie."""
    right = material(name)
    for ladder in LADDERS:
        steps = ladder.steps(right.dtype, right.right.numel())
        assert [step.size for step in steps] == sorted((s.size for s in steps), reverse=True)
        off = []
        for step in steps:
            wrong = Values(step.mutant(right), right.dtype).decoded()
            off.append(float((wrong - right.values.decoded()).abs().sum()))
        assert off == sorted(off, reverse=True), ladder.name


def test_a_wrong_share_is_that_share_off_by_a_quarter():
    right = material("float32")
    steps = LADDERS[0].steps(torch.float32, right.right.numel())
    for step in steps:
        wrong = Values(step.mutant(right), torch.float32).decoded()
        ratio = wrong / right.values.decoded()
        off = (ratio - 1.25).abs() < 1e-6
        assert int(off.sum()) == round(step.size * right.right.numel())
        assert bool(((ratio == 1) | off).all())


def test_layout_mutants_move_what_they_say():
    grid = torch.arange(1.0, 13.0).reshape(3, 4)
    right = Material(bits(grid), torch.zeros_like(bits(grid)), None, torch.float32)
    made = {name: mutant(right) for name, mutant in GROSS.items()}
    as_floats = {k: v.view(torch.float32).tolist() for k, v in made.items() if v is not None}
    assert as_floats["rows swapped"] == [[9, 10, 11, 12], [5, 6, 7, 8], [1, 2, 3, 4]]
    assert as_floats["shifted by one"][0] == [12, 1, 2, 3]
    assert as_floats["transposed"] == [[1, 5, 9, 2], [6, 10, 3, 7], [11, 4, 8, 12]]
    assert as_floats["half written"] == [[1, 2, 3, 4], [5, 6, 0, 0], [0, 0, 0, 0]]
    assert as_floats["tail unwritten"] == [[1, 2, 3, 4], [5, 6, 7, 8], [0, 0, 0, 0]]
    assert as_floats["wrong-scale row"][2] == [18, 20, 22, 24]
    assert made["stale"] is None
