"""Fresh memory holds poison while it should, and what was left of it is seen."""

from __future__ import annotations

import pytest
import torch

from optest import native
from optest.guards import memory, poison
from optest.guards.first_call import FirstCall
from optest.guards.outputs import Outputs, is_blank

needs_compiler = pytest.mark.skipif(not native.available(), reason=str(native.why_not()))
DTYPES = [
    torch.float32,
    torch.bfloat16,
    torch.float64,
    torch.int8,
    torch.int32,
    torch.int64,
    torch.bool,
    torch.float8_e4m3fn,
    torch.float8_e4m3fnuz,
    torch.complex64,
    torch.complex128,
]


@needs_compiler
def test_the_allocator_fills_what_anybody_allocates():
    with poison.fresh_memory_poisoned(poison.FIRST):
        assert torch.empty(1000).isnan().all()
        assert (torch.empty(1000, dtype=torch.int64) == -1).all()
        assert (torch.zeros(1000) == 0).all()
        assert (torch.ones(10) + torch.ones(10) == 2).all()


@needs_compiler
def test_nesting_gives_back_what_was_before():
    with poison.fresh_memory_poisoned(poison.FIRST):
        with poison.fresh_memory_poisoned(None):
            kept = torch.full((1000,), 5.0)
            del kept
            assert not torch.empty(1000).isnan().all()
        assert torch.empty(1000).isnan().all()


def test_the_fill_mode_stands_in_without_a_compiler(monkeypatch):
    monkeypatch.setattr(memory, "allocator", lambda: None)
    before = torch.are_deterministic_algorithms_enabled()
    with poison.fresh_memory_poisoned():
        assert torch.empty(1000).isnan().all()
        filled = torch.empty(10, dtype=torch.int32)
    assert poison.holding(filled, poison.FIRST).all()
    assert poison.holding(torch.zeros(3), poison.FIRST) is None
    assert torch.are_deterministic_algorithms_enabled() is before


@needs_compiler
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("byte", [poison.FIRST, poison.SECOND])
def test_what_fresh_memory_holds_is_recognised_in_every_dtype(dtype, byte):
    with poison.fresh_memory_poisoned(byte):
        fresh = torch.empty(4, 4, dtype=dtype)
    assert poison.holding(fresh, byte).all()
    fresh[1] = 0  # in place: a copy of booleans would make them 0 and 1
    mask = poison.holding(fresh, byte)
    assert mask.sum() == 12
    assert not mask[1].any()
    assert poison.holding(torch.zeros_like(fresh), byte) is None


@needs_compiler
@pytest.mark.parametrize("dtype", [torch.int8, torch.bfloat16, torch.float32, torch.int64], ids=str)
@pytest.mark.parametrize("place", [0, (1 << 17) - 1, 1 << 17, 300_000])
def test_one_element_left_in_a_large_result_is_found_wherever_it_lies(dtype, place):
    with poison.fresh_memory_poisoned(poison.FIRST):
        fresh = torch.empty(300_001, dtype=dtype)
    poisoned = fresh[place].clone()
    fresh.zero_()
    assert poison.holding(fresh, poison.FIRST) is None
    fresh[place] = poisoned
    assert poison.holding(fresh, poison.FIRST).nonzero().tolist() == [[place]]
    assert (poison.holding(fresh[::2], poison.FIRST) is None) == bool(place % 2)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_mark_changes_what_is_there_whatever_the_dtype(dtype):
    tensor = torch.zeros(6, dtype=torch.uint8).to(dtype)
    before = tensor.clone().view(torch.uint8)
    mask = torch.tensor([True, False, True, False, False, False])
    assert poison.mark(tensor, mask) == 2
    changed = (tensor.view(torch.uint8) != before).reshape(6, -1).any(-1)
    assert changed.tolist() == mask.tolist()


def test_a_mark_of_another_shape_does_nothing():
    assert poison.mark(torch.ones(4), torch.ones(3, dtype=torch.bool)) == 0


@pytest.mark.parametrize(
    ("tensor", "blank"),
    [
        (torch.zeros(3, 4), True),
        (torch.full((5,), float("nan")), True),
        (torch.tensor([0.0, -0.0]), False),
        (torch.ones(1), False),
        (torch.tensor([-1]), False),
        (torch.ones(()), False),
        (torch.ones(0), False),
        (torch.arange(4.0), False),
        (torch.ones(1).expand(4), False),
        (torch.zeros(6, 6).t()[::2], True),
        (torch.cat([torch.zeros(1000), torch.ones(1)]), False),
        (torch.zeros(4, dtype=torch.complex128), True),
        (torch.zeros(4, dtype=torch.complex64).conj(), False),
        (torch.tensor([0x7F7F7F7F], dtype=torch.int32), True),
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
    (entry,) = outputs.give_back([zeros, contents])
    assert (zeros == 0).all()
    assert (contents == 3).all()
    assert entry.untouched()
    entry.refill()
    assert (zeros == 3).all()


def test_a_view_made_anew_is_the_same_buffer():
    outputs, buffer = Outputs(), torch.zeros(8)
    outputs.give_back([buffer[:4]])
    buffer.fill_(3)
    outputs.give_back([buffer[:4]])
    assert buffer.tolist() == [0, 0, 0, 0, 3, 3, 3, 3]


def test_an_input_of_minus_ones_is_left_alone():
    slots = torch.full((8,), -1, dtype=torch.int32)
    Outputs().give_back([slots])
    assert (slots == -1).all()


def first_call(function, *reachable, outputs=None):
    return FirstCall(function, list(reachable), outputs or Outputs(), "cpu")


@needs_compiler
@pytest.mark.parametrize("dtype", [torch.float32, torch.int32, torch.int8, torch.bool], ids=str)
def test_what_was_left_unwritten_is_marked_and_minus_one_is_not(dtype):
    def kernel():
        out = torch.empty(10, dtype=dtype)
        out[:4] = torch.full((4,), -1, dtype=torch.int8).to(dtype)
        return out

    call = first_call(kernel)
    data = call.run()
    assert call.mark(data) == 6
    right = torch.full((4,), -1, dtype=torch.int8).to(dtype)
    assert torch.equal(data[:4], right)


def test_a_kernel_whose_right_answer_is_minus_one_is_called_twice_and_passes():
    calls = []

    def kernel():
        calls.append(1)
        return torch.full((10,), -1)

    call = first_call(kernel)
    data = call.run()
    assert call.mark(data) == 0
    assert (data == -1).all()
    assert len(calls) == 2


def test_an_in_place_kernel_that_is_called_twice_ends_as_after_one_call():
    state = torch.zeros(4)

    def kernel():
        state.add_(1)
        return torch.full((10,), -1)

    first_call(kernel, state).run()
    assert (state == 1).all()


def test_the_next_stage_finds_the_output_of_the_one_before():
    outputs = Outputs()
    x, middle, out = torch.arange(8.0), torch.zeros(8), torch.zeros(8)
    first_call(lambda: torch.mul(x, 2, out=middle), x, middle, outputs=outputs).run()
    call = first_call(lambda: torch.add(middle, 1, out=out), middle, out, outputs=outputs)
    assert torch.equal(call.run(), 2 * x + 1)
    assert torch.equal(middle, 2 * x)


def test_a_second_output_that_is_not_written_stays_blank():
    outputs = Outputs()
    x, out, scale = torch.arange(8.0), torch.zeros(8), torch.zeros(2)

    def right():
        scale.fill_(7)
        return torch.mul(x, 2, out=out)

    def forgets_the_scale():
        return torch.mul(x, 2, out=out)

    first_call(right, x, out, scale, outputs=outputs).run()
    first_call(forgets_the_scale, x, out, scale, outputs=outputs).run()
    assert (scale == 0).all()


def test_inputs_that_were_changed_are_told_from_outputs():
    x, out = torch.arange(4.0), torch.zeros(4)
    call = first_call(lambda: (out.fill_(1), x.zero_()), x, out)
    call.run()
    assert [t is x for t in call.changed_inputs()] == [True]


@pytest.mark.parametrize("dtype", [torch.float32, torch.int32, torch.bfloat16])
def test_what_fill_wrote_is_known_by_its_bytes_alone(dtype, monkeypatch):
    """Where no allocator is, torch's own filling counts as poison; a kernel's NaN is a result."""
    monkeypatch.setattr(memory, "allocator", lambda: None)
    result = torch.full((4,), torch.iinfo(dtype).max if dtype == torch.int32 else torch.nan).to(
        dtype
    )
    poison.fill(result[:1], poison.BUFFERS)
    mask = poison.holding(result, poison.BUFFERS, filled=True)
    assert mask.tolist() == [True, False, False, False]
    assert poison.holding(result, poison.BUFFERS).all()
