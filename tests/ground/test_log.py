from __future__ import annotations

import io
import logging
import os
import subprocess
import sys

import pytest

from optest import log


@pytest.fixture(autouse=True)
def _level_given_back():
    before = log.logger.level
    yield
    log.logger.setLevel(before)


def test_logs_go_to_standard_error_alone(capsys):
    log.logger.error("broken")
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "[optest] ERROR: broken\n"


def test_a_stream_put_in_later_is_honoured(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    log.logger.error("seen")
    assert "seen" in stream.getvalue()


def test_once_says_a_thing_once(capsys):
    for _ in range(3):
        log.once("no compiler: csrc is left out")
    assert capsys.readouterr().err.count("no compiler") == 1


def test_warnings_are_counted_errors_are_not():
    before = log.warning_count.count
    log.logger.warning("gated")
    log.logger.error("failed")
    log.logger.info("note")
    assert log.warning_count.count == before + 1


def test_the_level_follows_the_setting(monkeypatch):
    monkeypatch.setenv("OPTEST_LOG_LEVEL", "error")
    log.set_level(log.logger)
    assert log.logger.level == logging.ERROR


def test_a_bad_level_does_not_break_an_import():
    done = subprocess.run(
        [sys.executable, "-c", "from optest import log; print(log.logger.level)"],
        env={**os.environ, "OPTEST_LOG_LEVEL": "LOUD"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == str(logging.INFO)
