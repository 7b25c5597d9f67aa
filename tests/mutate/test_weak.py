"""Weak op tests: mutants survive, and the report names case, candidate, output and check."""

from __future__ import annotations

import pytest
from small_op_tests import SOUND

from optest.mutate.gross import GROSS


def test_every_gross_mutant_of_a_sound_test_dies(mutate):
    done = mutate(SOUND)
    assert done.code == 0, done.out
    assert done.fates() == {("y", name): "killed" for name in GROSS}
    assert "Survivors" not in done.out
    assert "| 1/1" in done.out


@pytest.mark.parametrize(
    ("kind", "seen"),
    [("wrong share", "one of 432"), ("relative error", "2^-20"), ("lower precision", "19 bits")],
)
def test_resolution_of_a_check_is_what_its_tolerance_allows(kind, seen, mutate):
    """rtol=1e-6 is just above 2^-20; no element may miss."""
    assert mutate(SOUND, "-k", "m=6").resolution(kind) == seen


def test_a_ratio_shows_as_the_share_that_is_let_through(mutate):
    lax = SOUND.replace("tol_err_ratio=0,", "tol_err_ratio=0.02,")
    assert mutate(lax).resolution("wrong share") == "5.09 %"


WEAK = {
    # a tolerance that cannot fail: a check saw it, and says what it allowed
    "everything_is_near": (
        SOUND.replace("rtol=1e-6, atol=0, tol_err_ratio=0", "atol=100"),
        {"wrong-scale row"},  # what is off as a whole fails at any tolerance
        "'good' (rtol=0.01, atol=100, tol_err_ratio=0.05): 0 of 432 mismatched, max_abs ",
    ),
    "nothing_is_compared": (
        SOUND.replace("checkAllclose(want, y, rtol=1e-6", "checkAllclose(want, want, rtol=1e-6"),
        set(GROSS),
        "no check compares y",
    ),
    "the_last_row_is_cut_off": (
        SOUND.replace("checkAllclose(want, y,", "checkAllclose(want[:-1], y[:-1],"),
        {"tail unwritten", "one Inf"},
        "'good' (rtol=1e-06, atol=0, tol_err_ratio=0) is not given what was mutated",
    ),
    "nan_is_a_wildcard": (
        SOUND.replace(
            "checkAllclose(want, y,", "checkAllclose(want, torch.where(y.isnan(), want, y),"
        ),
        {"one NaN"},
        "'good' (rtol=1e-06, atol=0, tol_err_ratio=0)",
    ),
    "a_comparator_that_says_yes": (
        SOUND.replace("msg=name)", "msg=name, comparator=lambda *_, **__: (True, ''))"),
        set(GROSS),
        "'good' (rtol=1e-06, atol=0, tol_err_ratio=0): 0 of 432 mismatched",
    ),
    "only_the_sum": (
        SOUND.replace("checkAllclose(want, y,", "checkAllclose(want.sum(), y.sum(),").replace(
            "rtol=1e-6", "rtol=1e-3"
        ),
        {"rows swapped", "shifted by one", "transposed"},
        "'good' (rtol=0.001, atol=0, tol_err_ratio=0)",
    ),
}


@pytest.mark.parametrize("weak", WEAK)
def test_a_weak_check_is_named(weak, mutate):
    body, alive, words = WEAK[weak]
    done = mutate(body, "-k", "m=6")
    assert done.code == 1
    survivors = done.survivors()
    assert alive <= {trial["mutant"] for trial in survivors}
    for trial in survivors:
        where = trial["where"]
        assert (where["case"], where["candidate"]) == ("test_op.py::test_op[m=6]", "good")
        assert where["output"] == "y"
        assert any(words in check for check in trial["checks"]), trial
    assert "### Survivors" in done.out
    assert "**0/1**" in done.out
    assert "test_op.py::test_op[m=6]" in done.out


TWO = """
@benchmark()
def test_op(m):
    x = torch.randn(m, 8)
    values, scale = x * 2, x.abs().amax(1, keepdim=True)
    def cpp(x):
        return {"values": x * 2, "more": [x.abs().amax(1, keepdim=True)]}
    got, us = run_perftest(cpp, x)
    return {"err": checkAllclose(values, got["values"], rtol=0, atol=0, tol_err_ratio=0)}
"""


def test_an_output_that_is_never_compared_survives_by_its_name(mutate):
    done = mutate(TWO)
    assert done.code == 1
    assert {t["where"]["output"] for t in done.survivors()} == {"result['more'][0]"}
    assert {t["where"]["candidate"] for t in done.survivors()} == {"cpp"}
    assert set(done.fates("result['values']").values()) == {"killed"}
    assert {c for t in done.survivors() for c in t["checks"]} == {
        "no check compares result['more'][0]"
    }
    assert done.resolution("relative error", "result['more'][0]") == ""
    assert "**none**" in done.out


CHECKS_ONE = """
@benchmark()
def test_op(m):
    x = torch.randn(m, 8)
    outs = {}
    for name, fn in {"first": lambda x: x + 1, "second": lambda x: x + 1}.items():
        outs[name], us = run_perftest(fn, x)
    return {"err": checkAllclose(x + 1, outs["first"], rtol=0, atol=0, tol_err_ratio=0)}
"""


def test_a_candidate_that_is_never_checked_survives_the_other_does_not(mutate):
    done = mutate(CHECKS_ONE)
    assert {t["where"]["candidate"] for t in done.survivors()} == {"second"}
    killed = {t["where"]["candidate"] for t in done.record["trials"] if t["fate"] == "killed"}
    assert killed == {"first"}
