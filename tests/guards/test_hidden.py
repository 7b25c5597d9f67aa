"""References are out of sight while a candidate runs, and back after it."""

from __future__ import annotations

import pytest
import torch

from optest.guards import poison
from optest.guards.hidden import hidden

DTYPES = [torch.float32, torch.bfloat16, torch.int8, torch.int64, torch.bool, torch.complex64]


def is_poison(tensor):
    mask = poison.holding(tensor, poison.FIRST, filled=True)
    return mask is not None and bool(mask.all())


def of(dtype):
    return torch.arange(24).reshape(4, 6).remainder(2).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_inside_it_holds_poison_and_afterwards_what_it_held(dtype):
    reference = of(dtype)
    before = reference.clone()
    with hidden([reference], []):
        assert is_poison(reference)
    assert torch.equal(reference, before)


def test_it_is_back_after_a_candidate_that_raises():
    """The check of a candidate after it would compare with poison."""
    reference = of(torch.float32)
    before = reference.clone()
    with pytest.raises(ZeroDivisionError), hidden([reference], []):
        raise ZeroDivisionError
    assert torch.equal(reference, before)


def test_what_the_candidate_wrote_into_it_is_gone():
    reference = of(torch.float32)
    before = reference.clone()
    with hidden([reference], []):
        reference.fill_(7)
    assert torch.equal(reference, before)


GIVEN = {
    "itself": lambda x: x,
    "a view of it": lambda x: x[2:],
    "other bits of it": lambda x: x.view(torch.int32),
    "detached": lambda x: x.detach(),
}


@pytest.mark.parametrize("given", GIVEN.values(), ids=GIVEN)
def test_what_the_candidate_was_given_stays(given):
    """A reference that is the next stage's input, or a view of the inputs, is there to be read."""
    x = of(torch.float32)
    before = x.clone()
    with hidden([x, x[1:], x.t()], [given(x)]):
        assert torch.equal(x, before)
    assert torch.equal(x, before)


def test_of_several_only_those_apart_are_hidden():
    given, other, more = (of(torch.float32) for _ in range(3))
    before = given.clone()
    with hidden([other, given[1:], more], [given]):
        assert torch.equal(given, before)
        assert is_poison(other)
        assert is_poison(more)
    assert torch.equal(other, before)
    assert torch.equal(more, before)


def test_views_and_gaps_come_back():
    """A view that overlaps another would be saved after the first was poisoned."""
    base = torch.arange(24.0)
    before = base.clone()
    with hidden([base[::3], base[:12], base[6:9]], []):
        assert is_poison(base[:12])
        assert is_poison(base[::3])
        assert torch.equal(base[13:15], before[13:15])
    assert torch.equal(base, before)


@pytest.mark.parametrize(
    "lazy",
    [torch.ones(4, dtype=torch.complex64).conj(), torch.ones(4, dtype=torch.complex64).conj().imag],
    ids=["conjugated", "negated"],
)
def test_a_lazy_tensor_is_left_alone(lazy):
    before = lazy.clone()
    with hidden([lazy], []):
        assert torch.equal(lazy, before)


def test_a_leaf_that_wants_gradients_can_be_hidden():
    weight = torch.nn.Parameter(torch.arange(4.0))
    with hidden([weight], []):
        assert is_poison(weight)
    assert weight.tolist() == [0, 1, 2, 3]
    (weight * 2).sum().backward()


def test_nothing_to_hide_is_fine():
    with hidden([], []), hidden([torch.ones(0)], [torch.ones(3)]):
        pass
