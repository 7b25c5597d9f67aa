"""A report is there whole or not at all."""

from __future__ import annotations

import os

import pytest

from optest.errors import UsageError
from optest.report import atomic


def test_a_file_is_replaced_whole_with_the_rights_that_others_get(tmp_path):
    path = tmp_path / "deep" / "r.xml"
    atomic.write("--junit", path, "one")
    atomic.write("--junit", path, "two é \ud800")
    assert path.read_text("utf-8") == "two é \\ud800"
    assert list(path.parent.iterdir()) == [path]
    mask = os.umask(0)
    os.umask(mask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~mask


def test_what_stood_there_stays_where_writing_fails(tmp_path, monkeypatch):
    path = tmp_path / "r.xml"
    path.write_text("one")

    def full(_descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(atomic.os, "fsync", full)
    with pytest.raises(UsageError, match=r"--junit .*r\.xml: it cannot be written \(No space"):
        atomic.write("--junit", path, "two")
    assert path.read_text() == "one"
    assert list(tmp_path.iterdir()) == [path]


def test_a_pipe_is_written_to_and_not_replaced(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    atomic.write("--junit", path, "one")
    assert os.read(reader, 10) == b"one"
    os.close(reader)
    assert path.is_fifo()
