"""Every adversary is caught under full guards, and by the guard that is there for it."""

from __future__ import annotations

from collections import Counter

import pytest
from cheats import (
    detecting,
    lazy,
    leaking,
    memoising,
    memory,
    numeric,
    on_device,
    patching,
    patient,
    running,
    skipping,
    state,
    stealing,
    wavering,
)
from cheats.adversary import CHECK, RAISED
from subjects.subject import ITERS

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
    patient,
]
ALL = [adversary for room in ROOMS for adversary in room.ADVERSARIES]
ADVERSARIES = [adversary for adversary in ALL if not adversary.unseen]
UNSEEN = [adversary for adversary in ALL if adversary.unseen]
SUBJECTS = list({adversary.subject.name: adversary.subject for adversary in ADVERSARIES}.values())


GUARDS = [
    *("poison", "guard bytes", "guard page", "inputs", "alias", "fresh inputs", "memoised"),
    *("repeatability", "plain tensors", "still running", "patched names", "random state"),
    *("reference", "process state", "memory", CHECK),
]


def caught_by(event):
    """Names of what caught it: guards, and the check or the error where the case has one."""
    names = {finding["guard"] for finding in event["findings"]}
    if any(check["verdict"]["status"] == "fail" for check in event["checks"]):
        names.add(CHECK)
    if event["status"] == "error":
        names.add(RAISED)
    return names


@pytest.mark.parametrize("adversary", ADVERSARIES, ids=lambda adversary: adversary.id)
def test_it_is_caught(adversary, make_session, monkeypatch):
    send(adversary, make_session, monkeypatch)


@pytest.mark.parametrize("adversary", UNSEEN, ids=lambda adversary: adversary.id)
def test_what_no_guard_sees_is_known(adversary, make_session):
    """docs/trust.md says so; a guard that learns one of them takes it from the list."""
    assert outcome(adversary, make_session(adversary.mode))["status"] == "passed"


@pytest.mark.parametrize("mode", ["check", "run"])
@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)
def test_the_right_kernel_of_each_operator_passes(subject, mode, make_session):
    """Else an adversary might be caught by a test that nothing passes."""
    recorded = make_session(mode)
    recorded.session.guards = "full"
    subject.run({"honest": subject.right}, ITERS)
    (event,) = recorded.finished()
    assert event["findings"] == []
    assert event["status"] == "passed", event["reason"]


@pytest.mark.gpu
@pytest.mark.parametrize("adversary", on_device.ADVERSARIES, ids=lambda adversary: adversary.id)
def test_it_is_caught_on_a_gpu(adversary, make_session, monkeypatch):
    send(adversary, make_session, monkeypatch)


def send(adversary, make_session, monkeypatch):
    """Give it to its op test, and see that the case failed and for the right reason."""
    if adversary.pages:
        monkeypatch.setenv("OPTEST_GUARD_PAGES", "1")
    for _ in range(adversary.tries):
        event = outcome(adversary, make_session(adversary.mode))
        if event["status"] != "passed":
            break
    assert event["status"] in ("failed", "error"), f"{adversary.id} passed"
    assert caught_by(event) & set(adversary.expected), event["reason"]


def outcome(adversary, recorded):
    recorded.session.guards = "full"
    subject = adversary.subject
    candidates = {"honest": subject.right} if adversary.beside else {}
    candidates["cheat"] = adversary.make(subject)
    subject.run(candidates, adversary.num_iters)
    (event,) = recorded.finished()
    return event


@pytest.mark.parametrize("guard", GUARDS)
def test_every_guard_is_the_only_one_that_catches_some(guard):
    """Else one that never looks would not be missed."""
    assert any(adversary.expected == (guard,) for adversary in ADVERSARIES)


@pytest.mark.parametrize("table", [ALL, on_device.ADVERSARIES], ids=["cpu", "gpu"])
def test_no_two_have_one_name(table):
    counts = Counter(adversary.id for adversary in table)
    assert [name for name, count in counts.items() if count > 1] == []
