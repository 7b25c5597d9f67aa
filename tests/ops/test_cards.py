"""Sums between cards: what goes to which card, and what the op test makes of it."""

from __future__ import annotations

from unittest import mock

import pytest
import torch
from op_scripts import load

from aiter_ref import collectives as ref
from optest.cases import session as sessions
from optest.cases.session import Session
from optest.ops import cards


def summed(x, out):
    """What NCCL does, on one device."""
    total = torch.stack(list(x)).sum(0)
    for each in out:
        each.copy_(total)


@pytest.fixture
def three(monkeypatch):
    """Three cards that are this CPU; NCCL's own call is what reaches the mock."""
    monkeypatch.setattr(cards, "count", lambda: 3)
    monkeypatch.setattr(cards, "_device", lambda _card: torch.device("cpu"))
    reduce = mock.Mock(side_effect=summed)
    monkeypatch.setattr(torch.cuda.nccl, "all_reduce", reduce)
    return reduce


def test_each_card_has_memory_of_its_own(three):
    x = torch.arange(6.0).view(3, 2)
    parts = cards.spread(x)
    parts[0].zero_()
    assert torch.equal(x, torch.arange(6.0).view(3, 2))
    assert torch.equal(cards.gathered(parts, x.device)[1:], x[1:])
    assert not three.called


def test_more_ranks_than_cards_are_refused(three):
    with pytest.raises(ValueError, match="4 ranks, expected at most the 3 cards"):
        cards.spread(torch.zeros(4, 2))


def test_nothing_is_not_handed_to_nccl(three):
    empty = cards.spread(torch.zeros(3, 0))
    cards.all_reduce(empty, empty)
    assert not three.called


@pytest.mark.parametrize("wrong", [False, True])
def test_the_op_test_judges_every_rank(three, wrong):
    """A rank that keeps what it had is wrong, also where the first is right."""

    def without_the_last(x, out):
        summed(x, out[:-1])

    if wrong:
        three.side_effect = without_the_last
    module = load("test_all_reduce")
    with sessions.using(Session(mode="check", guards="cheap", judged_by="")) as session:
        row = module.test_all_reduce_cards(3, 5, 7, torch.bfloat16)
    assert row.status == ("failed" if wrong else "passed")
    assert bool(session.failures) == wrong


def test_ranks_without_a_card_are_left_out(three, monkeypatch, scripts):
    monkeypatch.setenv("OPTEST_GFX", "gfx942")
    table = scripts.main("test_all_reduce", "-d", "bf16", "-s", "2,3", "-w", "2", "3", "4")
    assert "nccl err" in table
    assert (scripts.session.totals["passed"], scripts.session.ran) == (2, 2)
    assert "err" not in scripts.main("test_all_reduce", "-w", "4")


@pytest.mark.gpu
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two cards")
def test_nccl_sums():
    x = torch.randint(-9, 10, (2, 3, 4)).to(torch.bfloat16)
    parts, out = cards.spread(x), cards.spread(torch.zeros_like(x))
    cards.all_reduce(parts, out)
    assert torch.equal(cards.gathered(out, x.device), ref.all_reduce(x))
