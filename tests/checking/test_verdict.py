"""A verdict is a float wherever one is wanted, and loses nothing through JSON or pickle."""

from __future__ import annotations

import copy
import json
import math
import pickle

import pandas as pd
import pytest
import torch

from optest.checking import Tolerance, Verdict, compare, describe
from optest.errors import CheckFailedError

A = torch.randn(40, 30, generator=torch.Generator().manual_seed(2))


def _not_finite():
    b = A.clone()
    b[3, 4] = math.nan
    b[5:7] = -math.inf
    return compare(A, b)


VERDICTS = {
    "pass": lambda: compare(A, A.clone()),
    "near": lambda: compare(torch.ones(100), torch.tensor([1.05] + [1.0] * 99)),
    "not finite": _not_finite,
    "ids": lambda: compare(torch.arange(9), torch.arange(9) * 3),
    "bool": lambda: compare(torch.tensor([True, False]), torch.tensor([True, True])),
    "complex": lambda: compare(torch.tensor([1j, 2]), torch.tensor([complex(math.nan, 1), 9])),
    "shapes": lambda: compare(A, A[0]),
    "own": lambda: compare(A, A, Tolerance(max_abs_delta=1.0, equal_nan=True)).with_msg("own"),
}


@pytest.fixture(params=VERDICTS)
def verdict(request):
    return VERDICTS[request.param]()


def _same(one, other):
    assert float(one) == float(other)
    assert repr(one.finding) == repr(other.finding)  # NaN in it, so == would not do


def test_strict_json_keeps_everything(verdict):
    """Events are JSON lines; a bare NaN in them is no JSON."""
    text = json.dumps(verdict.to_dict(), allow_nan=False)
    _same(Verdict.from_dict(json.loads(text)), verdict)


def test_pickle_and_copies_keep_everything(verdict):
    """A float subclass with attributes loses them in both unless told otherwise."""
    for twin in (pickle.loads(pickle.dumps(verdict)), copy.copy(verdict), copy.deepcopy(verdict)):
        assert type(twin) is Verdict
        _same(twin, verdict)


def test_a_float_to_everyone_else(verdict):
    assert isinstance(verdict, float)
    assert verdict * 2 == 2 * float(verdict)
    assert f"{verdict:.3f}" == f"{float(verdict):.3f}"
    assert repr(verdict) == repr(float(verdict))
    assert json.dumps(verdict) == json.dumps(float(verdict))
    frame = pd.DataFrame([{"err": verdict}, {"err": verdict}])
    assert frame["err"].dtype == "float64"
    assert frame["err"].mean() == float(verdict)


def test_only_a_failed_verdict_raises(verdict):
    if verdict.passed:
        verdict.raise_if_failed()
        return
    with pytest.raises(CheckFailedError) as caught:
        verdict.raise_if_failed()
    assert isinstance(caught.value, AssertionError)
    assert verdict.reason in str(caught.value)


def test_a_pass_is_one_line():
    assert describe(VERDICTS["pass"](), "y").startswith("y: passed: 40 x 30 float32")
    assert "\n" not in describe(VERDICTS["pass"]())


def test_a_failure_says_where_what_and_by_which_bound():
    a = torch.ones(64, 32)
    b = a.clone()
    b[63] = 7.0
    lines = describe(compare(a, b, show=2), "out").splitlines()
    assert lines[0].startswith("out: FAILED: 32 gross errors")
    assert lines[1] == (
        "  64 x 32 float32; bound 0.01 + 0.01 * |want|, want being the first argument"
    )
    assert lines[2] == "  where: row 63 only"
    assert lines[3] == "  worst: [63, 0] got 7, want 1, off by 6 (6 of want)"
    assert lines[4].strip() == "[63, 1] got 7, want 1, off by 6 (6 of want)"
    assert len(lines) == 5


def test_integers_are_printed_exactly():
    """2^53 + 1 through a float would read 9007199254740992 on both sides."""
    text = describe(
        compare(torch.tensor([2**53 + 1]), torch.tensor([2**53]), Tolerance(rtol=0.0, atol=0.0))
    )
    assert "got 9007199254740992, want 9007199254740993" in text
