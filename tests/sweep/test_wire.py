"""Lines out of pieces, the end of endless output, and words for the end of a process."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from optest.store.records import BAD, GOOD, Planned
from optest.sweep import outcome, wire, worker
from optest.sweep.death import CUT_OFF, Death
from optest.sweep.output import Tail
from optest.sweep.wire import LineReader


@pytest.fixture
def pipe():
    reading, writing = os.pipe()
    yield reading, writing
    for fd in (reading, writing):
        os.close(fd)


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ([b'{"a": 1}\n'], [{"a": 1}]),
        ([b'{"a"', b': 1}\n{"b": 2}', b"\n"], [{"a": 1}, {"b": 2}]),
        ([b'{"a": 1}'], []),  # a line that was cut off by a crash is none
        ([b"printed by others\n[1]\n{}\n\xff\n"], [{}]),
        ([b"[" * 100_000 + b'\n{"a": 1}\n'], [{"a": 1}]),
    ],
)
def test_only_whole_lines_that_hold_an_object_are_messages(pieces, expected):
    reading, writing = os.pipe()
    reader = LineReader(reading)
    found = []
    os.set_blocking(writing, False)
    for piece in pieces:
        rest = piece
        while rest:
            rest = rest[os.write(writing, rest) :]
            found += reader.read()
    assert found == expected
    assert not reader.ended
    os.close(writing)
    assert reader.read() == []
    assert reader.ended
    os.close(reading)


def test_of_endless_output_the_end_is_kept_from_the_start_of_a_line(pipe):
    reading, writing = pipe
    tail = Tail(reading)
    for number in range(1_000):
        os.write(writing, f"{number:099d}\n".encode())
        tail.read()
    assert tail.count == 100_000
    first, second, *_, last = tail.text.splitlines()
    assert first.endswith("bytes left out …")
    assert len(second) == 99
    assert int(last) == 999
    tail.restart()
    assert (tail.text, tail.count) == ("", 0)


def test_what_a_forked_child_of_a_case_tells_is_not_told(pipe, monkeypatch):
    reading, writing = pipe
    events = worker.PipeEvents(writing)
    reader = LineReader(reading)
    events.write("started")
    with monkeypatch.context() as forked:
        forked.setattr(worker, "_pid_of_this", lambda: -1)
        events.write("finished", id="of the child")
        events.write("done")
    events.write("finished")
    assert [each["event"] for each in reader.read()] == [
        "started"
    ]  # its end waits for what is left
    events.write("done")
    assert [(each["event"], each.get("id")) for each in reader.read()] == [
        ("finished", None),
        ("done", None),
    ]


def exited(code):
    return code << 8


@pytest.mark.parametrize(
    ("death", "result", "reason"),
    [
        (Death("ended", exited(3)), "crashed", "it ended its process with exit code 3"),
        (Death("ended", exited(CUT_OFF)), "crashed", "it closed the descriptors through which"),
        (
            Death("ended", exited(1), output="optest: os._exit(0) was called while a ran"),
            "crashed",
            "os._exit(0)",
        ),
        (Death("ended", signal.SIGSEGV), "crashed", "killed by SIGSEGV: it read or wrote memory"),
        (Death("ended", signal.SIGKILL), "crashed", "or it was killed from outside"),
        (Death("ended", signal.SIGKILL, starved=True), "crashed", "the system ran out of memory"),
        (Death("ended", 60), "crashed", "killed by signal 60"),
        (Death("time", signal.SIGKILL, limit=2.5), "hung", "it took longer than 2.5 s"),
        (Death("memory", signal.SIGKILL, limit=1 << 30), "crashed", "more than 1.0 GiB of memory"),
        (Death("output", signal.SIGKILL, limit=1 << 20), "crashed", "printed more than 1.0 MiB"),
        (Death("lost"), "crashed", "nobody knows"),
        (Death("refused", refusal="no process could be forked"), "crashed", "could be forked"),
    ],
)
def test_the_end_of_a_process_in_plain_words(death, result, reason):
    assert death.result == result
    assert reason in death.reason


@pytest.mark.parametrize("field", ["status", "seconds", "row", "checks", "left", "reason", "time"])
def test_an_event_of_the_wrong_shape_makes_a_result_all_the_same(field):
    event = {"status": "passed", "seconds": 1.0, "row": {}, "checks": [], "time": 5.0}
    result = outcome.finished(Planned("a.py::f[]", "a.py"), event | {field: 7})
    assert isinstance(result.row, dict)
    assert isinstance(result.checks, list)
    assert result.status in {*GOOD, *BAD}


def test_commands_come_one_by_one_until_the_parent_sends_no_more():
    reading, writing = wire.pipe()
    wire.write_all(writing, b'{"run": "a"}\n{"run": "b"}\nno message\n{"run"')
    commands = wire.commands(reading)
    assert next(commands) == {"run": "a"}
    wire.write_all(writing, b': "c"}\n')
    os.close(writing)  # one that is lost is not waited for
    assert [command["run"] for command in commands] == ["b", "c"]
    os.close(reading)


def test_who_waits_for_a_command_rests():
    reading, writing = wire.pipe()
    later = threading.Timer(0.5, wire.write_all, (writing, b'{"run": "a"}\n'))
    later.start()
    started = time.thread_time()
    assert next(wire.commands(reading)) == {"run": "a"}
    assert time.thread_time() - started < 0.1
    later.join()
    for fd in (reading, writing):
        os.close(fd)
