"""checkAllclose at the seam: what is logged, recorded and raised (cases C12, C15)."""

from __future__ import annotations

import logging

import pytest
import torch

from optest.errors import CheckFailedError, UsageError
from optest.log import logger
from optest.test_common import assertAllclose, checkAllclose, expect_failure


@pytest.fixture
def logged(monkeypatch):
    records = []

    class Keep(logging.Handler):
        def emit(self, record):
            records.append((record.levelname, record.getMessage()))

    handler = Keep()
    logger.addHandler(handler)
    yield records
    logger.removeHandler(handler)


ONES = torch.ones(100)


def near():
    value = ONES.clone()
    value[0] = 1.05
    return value


@pytest.mark.parametrize(
    ("candidate", "level"), [(ONES, "INFO"), (near(), "WARNING"), (torch.zeros(100), "ERROR")]
)
def test_levels(check, logged, candidate, level):
    checkAllclose(ONES, candidate, msg="op")
    assert [name for name, _ in logged] == [level]
    assert "op" in logged[0][1]


def test_a_failure_nobody_looks_at_is_recorded(check, logged):
    checkAllclose(ONES, torch.zeros(100), printLog=False)
    assert logged == []
    assert check.session.failures[0].status == "failed"


def test_failures_show_at_every_log_level(check, logged, monkeypatch):
    monkeypatch.setattr(logger, "level", logging.ERROR)
    logger.manager._clear_cache()
    checkAllclose(ONES, torch.zeros(100))
    assert logged[0][0] == "ERROR"
    logger.manager._clear_cache()


def test_assert_raises_with_the_place(check):
    with pytest.raises(CheckFailedError, match=r"\[0\] got 0, want 1"):
        assertAllclose(ONES, torch.zeros(100), msg="op")
    assert isinstance(CheckFailedError("x"), AssertionError)
    assert assertAllclose(ONES, ONES) == 0.0


def test_a_failure_that_is_expected_is_no_failure(check):
    with expect_failure():
        verdict = checkAllclose(ONES, torch.zeros(100))
    assert not verdict.passed
    assert check.session.failures == []


def test_an_expected_failure_that_does_not_happen_is_a_failure(check):
    with expect_failure():
        checkAllclose(ONES, ONES)
    assert "meant to fail and none did" in check.session.failures[0].reason


def test_a_mask_leaves_out_what_is_not_compared(check):
    wrong = ONES.clone()
    wrong[7] = 1e9
    mask = torch.ones(100, dtype=torch.bool)
    mask[7] = False
    assert checkAllclose(ONES, wrong, mask=mask).passed
    assert not checkAllclose(ONES, wrong, mask=~mask, printLog=False).passed


def test_a_comparator_decides(check):
    def refuse(actual, expected, **rest):
        return False, "not today"

    verdict = checkAllclose(ONES, ONES, comparator=refuse, printLog=False)
    assert not verdict.passed
    assert "not today" in verdict.reason


def test_bad_tolerances_are_refused(check):
    with pytest.raises(UsageError, match="rtol"):
        checkAllclose(ONES, ONES, rtol=-1)


def test_what_is_no_tensor_is_a_type_error(check):
    with pytest.raises(TypeError, match="list"):
        checkAllclose([1.0], [1.0])
