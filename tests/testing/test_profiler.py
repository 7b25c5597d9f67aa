"""Profiler sessions: which profiler, what it is told, and what goes wrong aloud."""

from __future__ import annotations

import os
import stat

import pytest

from optest.errors import UsageError
from optest.testing import profiler
from optest.testing.profiler import detect_profiler, profiler_session

NAMES = (
    "KERNELFOUNDRY_PROFILER UNITRACE_VERSION NV_NSIGHT_INJECTION_PORT_BASE UNITRACE_Session "
    "KERNELFOUNDRY_vtune_result_dir KERNELFOUNDRY_unitrace_cmd KERNELFOUNDRY_vtune_cmd"
).split()


@pytest.fixture(autouse=True)
def _no_profiler(monkeypatch):
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def command(tmp_path, monkeypatch):
    """A stand-in for a profiler's command: it writes down its arguments and ends as told."""
    log = tmp_path / "log"
    path = tmp_path / "profiler"

    def make(ends_with=0):
        path.write_text(f'#!/bin/sh\necho "$@" >> {log}\necho no session >&2\nexit {ends_with}\n')
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("KERNELFOUNDRY_unitrace_cmd", str(path))
        monkeypatch.setenv("KERNELFOUNDRY_vtune_cmd", str(path))
        return lambda: log.read_text().splitlines() if log.exists() else []

    return make


DETECTED = [
    ({}, None),
    ({"UNITRACE_VERSION": "2.0"}, "unitrace"),
    ({"NV_NSIGHT_INJECTION_PORT_BASE": "49152"}, "ncu"),
    ({"KERNELFOUNDRY_PROFILER": "vtune", "UNITRACE_VERSION": "2.0"}, "vtune"),
    ({"KERNELFOUNDRY_PROFILER": ""}, None),
]


@pytest.mark.parametrize(("environ", "name"), DETECTED)
def test_the_profiler_is_known_by_upstream_s_variable_or_its_own(monkeypatch, environ, name):
    for key, value in environ.items():
        monkeypatch.setenv(key, value)
    assert detect_profiler() == name


def test_without_a_profiler_a_session_is_only_noted():
    before = profiler.opened()
    with profiler_session(detect_profiler()):
        assert profiler.opened() == before + 1
    assert profiler.opened() == before + 1


TOLD = [
    ("unitrace", "UNITRACE_Session", False, ["--resume s", "--pause s"]),
    ("unitrace", "UNITRACE_Session", True, ["--resume s", "--stop s"]),
    (
        "vtune",
        "KERNELFOUNDRY_vtune_result_dir",
        False,
        ["-command resume -result-dir=s", "-command pause -result-dir=s"],
    ),
    (
        "vtune",
        "KERNELFOUNDRY_vtune_result_dir",
        True,
        ["-command resume -result-dir=s", "-command stop -result-dir=s"],
    ),
]


@pytest.mark.parametrize(("name", "variable", "stops", "lines"), TOLD)
def test_a_profiler_is_resumed_before_and_paused_or_stopped_after(
    monkeypatch, command, name, variable, stops, lines
):
    told = command()
    monkeypatch.setenv(variable, "s")
    with profiler_session(name, stop_on_exit=stops):
        assert told() == lines[:1]
    assert told() == lines


@pytest.mark.parametrize("name", ["unitrace", "vtune"])
def test_without_a_session_of_its_own_no_command_runs(command, name):
    told = command()
    with profiler_session(name):
        pass
    assert told() == []


def test_a_profiler_that_cannot_be_resumed_is_an_error(monkeypatch, command):
    # Upstream logs it at debug level: a profile without a kernel, and no word why.
    command(ends_with=3)
    monkeypatch.setenv("UNITRACE_Session", "s")
    ends = r"--resume s ended with 3 \(no session\)"
    with pytest.raises(UsageError, match=ends), profiler_session("unitrace"):
        pytest.fail("the trials ran unseen")


def test_a_command_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setenv("UNITRACE_Session", "s")
    monkeypatch.setenv("KERNELFOUNDRY_unitrace_cmd", "/no/such/unitrace")
    words = "profiler unitrace: /no/such/unitrace --resume s: "
    with pytest.raises(UsageError, match=words), profiler_session("unitrace"):
        pass


def test_what_the_trials_raise_is_not_hidden_by_a_failed_pause(monkeypatch, command):
    told = command()
    monkeypatch.setenv("UNITRACE_Session", "s")
    with pytest.raises(ZeroDivisionError), profiler_session("unitrace"):  # noqa: PT012
        command(ends_with=1)  # breaks meanwhile
        raise ZeroDivisionError
    assert told() == ["--resume s", "--pause s"]


def test_the_end_of_a_run_ends_the_session_that_was_paused(monkeypatch, command):
    told = command()
    monkeypatch.setattr(profiler, "_opened", [0])
    monkeypatch.setenv("UNITRACE_Session", "s")
    monkeypatch.setenv("UNITRACE_VERSION", "2.0")
    profiler.end()
    assert told() == []  # nothing was profiled
    with profiler_session(detect_profiler()):
        pass
    profiler.end()
    assert told() == ["--resume s", "--pause s", "--stop s"]


def test_any_other_profiler_looks_at_the_whole_process(monkeypatch):
    said = []
    monkeypatch.setattr(profiler, "once", said.append)
    with profiler_session("perf"):
        pass
    assert said
    assert "perf" in said[0]


def test_on_cuda_the_range_is_begun_and_ended(monkeypatch):
    torch = pytest.importorskip("torch")
    told = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: told.append("wait"))
    monkeypatch.setattr(torch.cuda.profiler, "start", lambda: told.append("start"))
    monkeypatch.setattr(torch.cuda.profiler, "stop", lambda: told.append("stop"))
    with profiler_session("ncu"):
        pass
    assert told == ["wait", "start", "wait", "stop"]
    with profiler_session(None):
        pass
    assert len(told) == 4
    assert "UNITRACE_Session" not in os.environ
