"""How a sweep is asked for, kept in a store, and asked for again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from optest.errors import SettingError, UsageError
from optest.sweep.request import Request

ASKED = Request(
    paths=("ops",),
    words=("-s", "1"),
    keep="m=1",
    memory_bytes=1 << 30,
    jobs=2,
)


def test_what_a_store_keeps_asks_for_the_same_again():
    settled = ASKED.settled()
    kept = json.loads(json.dumps(settled.arguments()))
    assert Request.from_arguments({**kept, "folder": "/there"}) == settled
    assert "smoke" not in kept


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"paths": ("other",)}, "it was started with ops, not with other"),
        ({"words": ("-s", "2")}, "started with -- -s 1, not with -- -s 2"),
        ({"smoke": True}, "started with no --smoke, not with --smoke"),
        ({"mode": "check"}, "started with no --check, not with --check"),
        ({"keep": "m=2"}, "started with -k m=1, not with -k m=2"),
        ({"arch": "sm_90"}, "started with no --arch, not with --arch sm_90"),
        ({"guards": "off"}, "started with --guards cheap, not with --guards off"),
    ],
)
def test_what_would_make_it_another_run_is_an_error_that_says_so(said, words):
    with pytest.raises(UsageError, match=f"--resume R: it was {words}|{words}"):
        Request(**said).resuming(ASKED.settled(), "R")


def test_how_it_is_run_may_be_said_anew_and_what_was_said_again_is_no_error():
    again = Request(paths=("ops",), keep="m=1", jobs=4, timeout_s=9).resuming(ASKED, "R")
    assert (again.jobs, again.timeout_s, again.memory_bytes) == (4, 9, 1 << 30)
    assert again.words == ASKED.words
    assert Request(jobs=4).resuming(ASKED, "R").paths == ASKED.paths


@pytest.mark.parametrize(
    ("said", "environ", "expected"),
    [
        ({}, {}, ("run", "cheap")),
        ({"mode": "check"}, {}, ("check", "full")),
        ({}, {"OPTEST_MODE": "check"}, ("check", "full")),
        ({"mode": "check", "guards": "off"}, {"OPTEST_GUARDS": "cheap"}, ("check", "off")),
        ({"mode": "check"}, {"OPTEST_GUARDS": "cheap"}, ("check", "cheap")),
    ],
)
def test_options_come_before_the_environment_and_that_before_the_defaults(
    said, environ, expected, monkeypatch
):
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    settled = Request(**said).settled()
    assert (settled.mode, settled.guards) == expected


def test_a_bad_variable_is_an_error(monkeypatch):
    monkeypatch.setenv("OPTEST_GUARDS", "all")
    with pytest.raises(SettingError, match="OPTEST_GUARDS='all'"):
        Request().settled()


def test_the_job_has_the_limits_that_were_said_and_the_others_by_default():
    job = ASKED.settled().job(Path("/there"))
    assert (job.argv, job.folder) == (("-s", "1"), Path("/there"))
    assert (job.limits.memory_bytes, job.limits.seconds) == (1 << 30, 600.0)
    assert Request(smoke=True).settled().job(Path()).argv is None
    assert Request().settled().job(Path()).argv == ()
