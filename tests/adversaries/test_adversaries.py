"""Every adversary is caught under full guards, and by the guard that is there for it."""

from __future__ import annotations

import pytest
from cheats import (
    detecting,
    lazy,
    leaking,
    memoising,
    memory,
    numeric,
    patching,
    running,
    skipping,
    state,
    stealing,
    wavering,
)
from cheats.adversary import CHECK, RAISED

ROOMS = [
    memoising,
    skipping,
    lazy,
    stealing,
    patching,
    memory,
    numeric,
    running,
    state,
    leaking,
    wavering,
    detecting,
]
ADVERSARIES = [adversary for room in ROOMS for adversary in room.ADVERSARIES]


def caught_by(event):
    """Names of what caught it: guards, and the check or the error where the case has one."""
    names = {finding["guard"] for finding in event["findings"]}
    if any(check["verdict"]["status"] == "fail" for check in event["checks"]):
        names.add(CHECK)
    if event["status"] == "error":
        names.add(RAISED)
    return names


@pytest.mark.parametrize("adversary", ADVERSARIES, ids=lambda adversary: adversary.id)
def test_it_is_caught(adversary, make_session):
    recorded = make_session(adversary.mode)
    recorded.session.guards = "full"
    subject = adversary.subject
    candidates = {"honest": subject.right} if adversary.beside else {}
    candidates["cheat"] = adversary.make(subject)
    subject.run(candidates, adversary.num_iters)
    (event,) = recorded.finished()
    assert event["status"] in ("failed", "error"), f"{adversary.id} passed"
    assert caught_by(event) & set(adversary.expected), event["reason"]


def test_no_two_have_one_name():
    ids = [adversary.id for adversary in ADVERSARIES]
    assert len(set(ids)) == len(ids)
