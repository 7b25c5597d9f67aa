"""Identity: arguments by name, ids, seeds, filters."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from optest.cases import case as cases
from optest.cases.matching import matcher


def sample(a, b=2, *rest, key=None, **more):
    return a, b, rest, key, more


def test_arguments_come_in_signature_order_with_defaults():
    bound = cases.bind(sample, (1,), {"key": "k"})
    assert list(bound) == ["a", "b", "rest", "key", "more"]
    assert bound["b"] == 2


def test_arguments_survive_the_round_trip():
    bound = cases.bind(sample, (1, 2, 3, 4), {"key": 5, "x": 6})
    call = cases.call_arguments(sample, bound)
    assert sample(*call.args, **call.kwargs) == (1, 2, (3, 4), 5, {"x": 6})


def test_a_one_tuple_dtype_is_the_dtype():
    assert cases.bind(sample, ((torch.bfloat16,),), {})["a"] is torch.bfloat16


def test_arguments_that_do_not_fit_name_the_function():
    with pytest.raises(TypeError, match=r"sample\(\): missing a required argument: 'a'"):
        cases.bind(sample, (), {})


def test_the_id_is_the_one_the_design_promises():
    arguments = {"m": 4096, "k": 4096, "q_type": "per_Token", "dtype": torch.bfloat16}
    expected = "test_quant.py::test_quant[m=4096-k=4096-q_type=per_Token-dtype=bf16]"
    assert cases.case_id("test_quant.py", "test_quant", arguments) == expected
    assert cases.numbered(expected, 1) == expected
    assert cases.numbered(expected, 2) == expected + "#2"


def test_self_makes_no_column():
    assert cases.shown({"self": object(), "m": 1}) == {"m": 1}


def test_seeds_are_fixed_by_id_and_setting():
    # The number itself is the contract: stored runs and other machines depend on it.
    assert cases.seed_of("a::b[m=1]") == 1646419208
    assert cases.seed_of("a::b[m=1]") != cases.seed_of("a::b[m=2]")
    assert cases.seed_of("a::b[m=1]", 0) != cases.seed_of("a::b[m=1]", 1)


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        ("f.py::t[m=1]", True),
        ("f.py::*", True),
        ("f.py::t[m=?]", True),
        ("f.py::t[m=2]", False),
        ("f.py::t[m1]", False),  # brackets are literal, not a character class
        ("*", True),
        ("f.py::t", False),
    ],
)
def test_filters(pattern, matches):
    assert bool(matcher(pattern).fullmatch("f.py::t[m=1]")) is matches


@given(st.text())
def test_every_id_without_wildcards_matches_itself_alone(identity):
    literal = identity.replace("*", "").replace("?", "")
    assert matcher(literal).fullmatch(literal)
    assert not matcher(literal).fullmatch(literal + "x")
