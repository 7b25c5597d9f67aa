"""Fresh memory holds poison while it should, and what was left of it is seen."""

from __future__ import annotations

import pytest
import torch

from optest import native
from optest.guards import poison
from optest.guards.outputs import Outputs, is_blank

needs_compiler = pytest.mark.skipif(not native.available(), reason=str(native.why_not()))


@needs_compiler
def test_the_allocator_fills_what_anybody_allocates():
    with poison.fresh_memory_poisoned():
        assert torch.empty(1000).isnan().all()
        assert (torch.empty(1000, dtype=torch.int64) == -1).all()
        assert (torch.zeros(1000) == 0).all()
        assert (torch.ones(10) + torch.ones(10) == 2).all()


@needs_compiler
def test_nesting_gives_back_what_was_before():
    with poison.fresh_memory_poisoned():
        with poison.fresh_memory_poisoned(on=False):
            kept = torch.full((1000,), 5.0)
            del kept
            assert not torch.empty(1000).isnan().all()
        assert torch.empty(1000).isnan().all()


def test_the_fill_mode_stands_in_without_a_compiler(monkeypatch):
    monkeypatch.setattr(poison, "_allocator", lambda: None)
    before = torch.are_deterministic_algorithms_enabled()
    with poison.fresh_memory_poisoned():
        assert torch.empty(1000).isnan().all()
        assert (torch.empty(10, dtype=torch.int32) == torch.iinfo(torch.int32).max).all()
    assert torch.are_deterministic_algorithms_enabled() is before


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int32, torch.int64]
)
def test_poison_is_found_where_it_is(dtype):
    tensor = torch.zeros(4, 4, dtype=dtype)
    assert poison.left_in(tensor) is None
    poison.fill(tensor[1])
    mask = poison.left_in(tensor)
    assert mask.nonzero().tolist() == [[1, column] for column in range(4)]


@pytest.mark.parametrize(
    "dtype", [torch.int8, torch.uint8, torch.bool, torch.float8_e4m3fnuz, torch.float4_e2m1fn_x2]
)
def test_every_dtype_can_be_poisoned_and_the_narrow_ones_are_not_judged(dtype):
    tensor = torch.zeros(8, dtype=torch.uint8).view(dtype)
    before = tensor.view(torch.uint8).clone()
    poison.fill(tensor)
    assert not torch.equal(before, tensor.view(torch.uint8))
    assert poison.left_in(tensor) is None


def test_carry_over_touches_only_what_was_not_computed():
    mask = torch.tensor([False, True, True])
    data = torch.tensor([1.0, 2.0, float("nan")])
    assert poison.carry_over(mask, data) == 1
    assert data[0] == 1
    assert data[1:].isnan().all()


def test_carry_over_leaves_results_of_another_shape_alone():
    data = torch.ones(4)
    assert poison.carry_over(torch.ones(3, dtype=torch.bool), data) == 0


@pytest.mark.parametrize(
    ("tensor", "blank"),
    [
        (torch.zeros(3, 4), True),
        (torch.full((5,), float("nan")), True),
        (torch.tensor([0.0, -0.0]), False),
        (torch.ones(1), False),
        (torch.ones(()), False),
        (torch.ones(0), False),
        (torch.arange(4.0), False),
        (torch.ones(1).expand(4), False),
        (torch.zeros(6, 6).t()[::2], True),
        (torch.cat([torch.zeros(1000), torch.ones(1)]), False),
        (torch.zeros(4, dtype=torch.complex128), False),
    ],
)
def test_blank(tensor, blank):
    assert is_blank(tensor) is blank


def test_a_written_output_is_given_back_as_it_was_found():
    outputs = Outputs()
    zeros, contents = torch.zeros(8), torch.arange(8.0)
    outputs.give_back([zeros, contents])
    zeros.fill_(3)
    contents.fill_(3)
    outputs.give_back([zeros, contents])
    assert (zeros == 0).all()
    assert (contents == 3).all()


def test_a_new_tensor_at_the_same_address_is_not_taken_for_an_old_one():
    outputs = Outputs()
    old = torch.zeros(1000)
    outputs.give_back([old])
    del old
    new = torch.arange(1000.0)
    outputs.give_back([new])
    assert torch.equal(new, torch.arange(1000.0))


@needs_compiler
def test_integers_from_the_allocator_get_poison_that_is_no_index():
    with poison.fresh_memory_poisoned():
        out = torch.empty(8, dtype=torch.int32)
        Outputs().give_back([out])
    assert (out == torch.iinfo(torch.int32).max).all()
