"""Worlds of processes: what they reduce, and that a rank which fails is an error that names it."""

from __future__ import annotations

import time

import pytest
import torch

from aiter_ref import collectives as ref
from optest.ops import collectives
from optest.ops.collectives import RankError, World

HOW = ["all_reduce", "two_steps"]


@pytest.fixture(scope="module")
def world():
    made = World(3)
    yield made
    made.close()


def operands(shape, dtype):
    """Small whole numbers, of which every sum is exact."""
    return torch.randint(-9, 10, shape).to(dtype), torch.full(shape, 77.0).to(dtype)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize("how", HOW)
def test_all_ranks_have_the_sum(world, how, dtype):
    """A rank that is left out or counted twice, parts of another place, lengths 3 does not cut."""
    for shape in ((3, 1), (3, 2), (3, 5, 7), (3, 4, 0), (3, 300, 9)):
        x, out = operands(shape, dtype)
        before = x.clone()
        world.all_reduce(x, out, how=how)
        assert torch.equal(out, ref.all_reduce(x))
        assert torch.equal(x, before)


@pytest.mark.parametrize("how", HOW)
def test_memory_of_the_world_is_written_where_it_is(world, how):
    x, out = (world.tensor((4, 5), torch.float32) for _ in range(2))
    x.copy_(operands(x.shape, x.dtype)[0])
    world.all_reduce(x, out, how=how)
    assert torch.equal(out, ref.all_reduce(x))
    world.forget()
    x, out = operands((3, 4, 5), torch.float32)
    world.all_reduce(x, out, how=how)
    assert torch.equal(out, ref.all_reduce(x))


def test_a_rank_that_has_ended_is_named():
    """Not a hang, which is what its peers would make of it."""
    world = World(2)
    x, out = (world.tensor((64,), torch.float32) for _ in range(2))
    world.all_reduce(x, out)
    world._processes[1].kill()
    world._processes[1].join()
    begin = time.monotonic()
    with pytest.raises(RankError, match=r"rank 1 of 2 has ended \(exit code -9\)"):
        world.all_reduce(x, out)
    assert time.monotonic() - begin < 20
    assert world.closed
    assert not any(process.is_alive() for process in world._processes)


def test_a_rank_that_fails_is_named_and_its_world_is_replaced():
    world = collectives.world_of(1)
    assert collectives.world_of(1) is world
    with pytest.raises(RankError, match=r"(?s)rank 0 of 1 failed: .*KeyError: 'unheard of'"):
        world.all_reduce(torch.ones(1, 2), torch.ones(1, 2), how="unheard of")
    assert not any(process.is_alive() for process in world._processes)
    world = collectives.world_of(1)
    out = torch.zeros(1, 2)
    world.all_reduce(torch.ones(1, 2), out)
    assert (out == 1).all()
    world.close()


def test_ranks_that_do_not_answer_are_named(world, monkeypatch):
    """Last: it is the end of the world."""
    x, out = (world.tensor((1000, 1000), torch.float32) for _ in range(2))
    monkeypatch.setattr(collectives, "_CALL_S", 0.0)
    with pytest.raises(RankError, match="no answer of rank 0, 1, 2 of 3 within 0 s"):
        world.all_reduce(x, out)
