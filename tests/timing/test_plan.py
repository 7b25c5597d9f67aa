from __future__ import annotations

import pytest

from optest.errors import SettingError, UsageError
from optest.timing import Plan


@pytest.mark.parametrize(
    "field",
    [
        {"num_iters": 0},
        {"num_iters": -3},
        {"num_iters": 1.5},
        {"num_iters": True},
        {"num_warmup": -1},
        {"num_rotate_args": -1},
        {"budget_s": 0.0},
        {"budget_s": -1.0},
        {"budget_s": float("nan")},
        {"budget_s": float("inf")},
        {"cache": "hot"},
        {"clock": "sundial"},
    ],
)
def test_a_plan_that_cannot_be_carried_out_is_an_error_that_names_the_value(field):
    [(name, value)] = field.items()
    with pytest.raises(UsageError, match=f"{name}=") as caught:
        Plan(**field)
    assert repr(value) in str(caught.value)
    assert "expected" in str(caught.value)


def test_the_environment_fills_in_what_is_left_open(monkeypatch):
    monkeypatch.setenv("OPTEST_BUDGET_S", "0.25")
    monkeypatch.setenv("OPTEST_CACHE", "warm")
    assert (Plan().seconds, Plan().cache_state) == (0.25, "warm")
    assert (Plan(budget_s=2.0).seconds, Plan(cache="cold").cache_state) == (2.0, "cold")
    monkeypatch.setenv("OPTEST_BUDGET_S", "soon")
    with pytest.raises(SettingError, match="soon"):
        _ = Plan().seconds
