"""What a user reads after a mistake: one line that says what to do, or a line that works."""

from __future__ import annotations

import argparse
import os
import pathlib
import shlex
import subprocess
import sys

import pytest

from optest import dtypes
from optest.cases import events
from optest.cases import session as sessions
from optest.cases.session import Session
from optest.errors import SettingError

IDENTITY = "test op.py::t[kind=it's $HOME]"


@pytest.fixture
def unset(monkeypatch):
    for name in [name for name in os.environ if name.startswith("OPTEST_")]:
        monkeypatch.delenv(name)
    return monkeypatch


def test_the_rerun_line_runs_as_printed_under_the_same_settings(unset, tmp_path):
    script = tmp_path / "test op.py"
    script.write_text("import os, sys; print(sorted(\n"
                      "    (k, v) for k, v in os.environ.items() if k.startswith('OPTEST_')),\n"
                      "    sys.executable, sys.argv)\n")  # fmt: skip
    kept = {
        "OPTEST_CACHE": "warm",
        "OPTEST_GFX": "gfx942",
        "OPTEST_ISA": "avx2",
        "OPTEST_SEED": "3",
    }
    for name, value in kept.items():
        unset.setenv(name, value)
    line = sessions.rerun_command(IDENTITY, [str(script), "-d", "bf16", "a b"])
    bare = {name: value for name, value in os.environ.items() if name not in kept}
    shell = ["sh", "-c", line]
    done = subprocess.run(shell, env=bare, capture_output=True, text=True, check=True)
    expected = sorted([*kept.items(), ("OPTEST_ONLY", IDENTITY)])
    assert done.stdout == f"{expected} {sys.executable} {[str(script), '-d', 'bf16', 'a b']}\n"


def test_the_rerun_line_starts_with_the_case_and_leaves_sinks_out(unset):
    unset.setenv("OPTEST_EVENTS", "e")
    unset.setenv("OPTEST_SAVE_FAILED", "f")
    unset.setenv("OPTEST_ONLY", "t.py::other")
    unset.setenv("OPTEST_SEED", "")
    line = sessions.rerun_command("t.py::t[]", ["t.py"])
    assert shlex.split(line) == ["OPTEST_ONLY=t.py::t[]", sys.executable, "t.py"]


@pytest.mark.parametrize(
    ("argv", "source"),
    [(["-c"], "-c"), (["-"], "-"), ([""], "standard input"), ([], "standard input")],
)
def test_a_program_without_a_file_is_told_what_to_set(unset, argv, source):
    line = sessions.rerun_command("t.py::t[]", argv)
    assert line == f"(run from {source}: set OPTEST_ONLY='t.py::t[]')"


@pytest.mark.parametrize(
    ("content", "reason"), [(b"\x7fELF\xd0\xff", "not UTF-8 text"), (None, "No such file")]
)
def test_an_only_list_that_is_no_text_is_a_setting_error(unset, tmp_path, content, reason):
    path = tmp_path / "only"
    if content is not None:
        path.write_bytes(content)
    unset.setenv("OPTEST_ONLY", str(path))
    with pytest.raises(SettingError, match=rf"^OPTEST_ONLY='{path}': expected a file .*{reason}"):
        Session.from_environment()


def test_an_only_list_in_the_home_of_nobody_is_a_setting_error(unset):
    unset.setenv("OPTEST_ONLY", "~no-such-user-here/ids")
    with pytest.raises(SettingError, match="expected a file of case ids"):
        Session.from_environment()


@pytest.mark.skipif(not pathlib.Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_costs_the_events_not_the_run(capsys):
    full = events.Events(pathlib.Path("/dev/full"))
    assert not full.failed
    for _ in range(3):
        full.write("started", id="t")
    assert full.failed
    said = capsys.readouterr().err
    assert said.count("OPTEST_EVENTS=/dev/full: could not be written (No space left on dev") == 1


def test_a_line_that_was_cut_off_does_not_swallow_the_next(monkeypatch, tmp_path):
    sink = events.Events(tmp_path / "e")
    with monkeypatch.context() as patched:
        patched.setattr(events.os, "write", _half)
        sink.write("started", id="cut")
    assert sink.failed
    sink.write("finished", id="whole")
    cut, whole = (tmp_path / "e").read_text().splitlines()
    assert not cut.endswith("}")
    assert '"id": "whole"' in whole


_write = os.write


def _half(file, line):
    return _write(file, line[: len(line) // 2])


def test_a_value_that_holds_itself_ends_as_an_event(tmp_path):
    own = [1]
    own.append(own)
    sink = events.Events(tmp_path / "e")
    sink.write("finished", row={"x": own})
    assert "..." in (tmp_path / "e").read_text()


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("bf16,fp16", "separate with blanks: bf16 fp16"),
        ("(bf16, bf16)", "separate with blanks: bf16 bf16"),
        ("bf16,fp61", "did you mean fp16?"),
    ],
)
def test_dtypes_joined_by_commas_are_told_apart(text, hint):
    with pytest.raises(argparse.ArgumentTypeError) as caught:
        dtypes.one_of("bf16", "fp16")(text)
    assert str(caught.value).startswith(f"{text!r} ({hint})")


def descriptors():
    return len(list(pathlib.Path("/proc/self/fd").iterdir()))


def test_a_sink_that_nobody_holds_is_closed(tmp_path):
    """A process that makes a session for each of many tests would run out of descriptors."""
    before = descriptors()
    sinks = [events.Events(tmp_path / f"{n}.jsonl") for n in range(20)]
    assert descriptors() == before + 20
    del sinks
    assert descriptors() == before
