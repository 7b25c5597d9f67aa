"""Variables of the running test, by the names that ``@benchmark(…)`` declares them under."""

from __future__ import annotations

import pytest
import torch

from optest.cases import declared
from optest.test_common import benchmark

TABLE = torch.arange(8.0)
CONTAINER = {"ref": torch.arange(4.0)}


@pytest.fixture
def case(check):
    """Run a function as a case: the seam is where the search for variables ends."""

    def run(function):
        gave = []

        @benchmark()
        def test_op(m):
            gave.append(function())

        outside = torch.ones(3)  # noqa: F841 - beyond the seam
        test_op(1)
        assert check.finished()[0]["status"] != "error", check.finished()[0]["reason"]
        return gave[0]

    return run


# --- variables ---------------------------------------------------------------------------


def test_variables_are_those_between_the_seam_and_here(case):
    """A name from beyond the seam, pytest's or main()'s, is none of the test's."""

    def helper():
        inner, shared = 1, "inner"  # noqa: F841
        return declared.variables()

    def function():
        shared, mine = "outer", 2  # noqa: F841
        return helper()

    seen = case(function)
    assert (seen["inner"], seen["mine"]) == (1, 2)
    assert seen["shared"] == "inner"
    assert "m" in seen
    assert "outside" not in seen
    assert "check" not in seen


def test_the_harness_own_variables_are_none(case, monkeypatch):
    """Frames of ours lie in between where a candidate is called through them."""

    def function():
        mine = 1  # noqa: F841
        scope = {"__name__": "optest.cases.perftest", "ask": declared.variables}
        exec("def run():\n    session = 7\n    return ask()", scope)
        return scope["run"]()

    seen = case(function)
    assert seen["mine"] == 1
    assert "session" not in seen


# --- inputs that were changed ------------------------------------------------------------


def evidence(found):
    return [each.evidence for each in found]


def test_nothing_declared_and_nothing_changed_is_nothing():
    assert declared.findings((), []) == []


CHANGED = {
    "the tensor": (lambda x: x, True),
    "a view of it": (lambda x: x[2:], True),
    "what holds it": (lambda x: x, True),
    "another": (lambda x: torch.ones(8), False),
}


@pytest.mark.parametrize(("tensor", "allowed"), CHANGED.values(), ids=CHANGED)
@pytest.mark.parametrize("holder", [lambda x: x, lambda x: [x], lambda x: {"a": (x,)}])
def test_what_is_declared_may_be_changed(case, tensor, allowed, holder):
    def function():
        x = torch.zeros(8)
        y = holder(x)  # noqa: F841 - declared by name
        return declared.findings(("y",), [tensor(x)])

    assert (case(function) == []) is allowed


def test_what_is_not_declared_may_not(case):
    def function():
        x, y = torch.zeros(2, 4), torch.zeros(8)
        return declared.findings(("y",), [x, y, x])

    found = case(function)
    assert [each.guard for each in found] == ["inputs", "inputs"]
    assert "changed a 2x4 float32 tensor" in found[0].evidence
    assert "inout=" in found[0].meaning
    assert found[0].declarable


def test_one_element_alone_may_be_a_buffer(case):
    def function():
        return declared.findings((), [torch.ones(1), torch.ones(())])

    assert case(function) == []
    assert len(case(lambda: declared.findings((), [torch.ones(2)]))) == 1


def test_a_name_that_no_variable_has_is_told(case):
    """A slip of the pen would declare nothing, and say nothing."""

    def function():
        y = torch.zeros(8)  # noqa: F841
        return declared.findings(("y", "z", "outside"), [])

    found = case(function)
    assert evidence(found) == [
        "@benchmark(inout=…) names 'z'",
        "@benchmark(inout=…) names 'outside'",
    ]
    assert (found[0].guard, found[0].declarable) == ("inputs", True)


# --- references --------------------------------------------------------------------------


def shown(references):
    return sorted(each.name for each in references)


HELD = {
    "a local variable": (lambda: torch.ones(4), lambda held: held),
    "a list": (lambda: [torch.ones(4)], lambda held: held[0]),
    "a mapping": (lambda: {"a": {"b": torch.ones(4)}}, lambda held: held["a"]["b"]),
    "a view of it": (lambda: torch.ones(8), lambda held: held[2:]),
    "it is a view": (lambda: torch.ones(8)[2:], lambda held: held._base),
}


@pytest.mark.parametrize(("make", "take"), HELD.values(), ids=HELD)
def test_the_variables_that_hold_a_reference_are_found(case, make, take):
    """By none of them may a candidate find it in the second pass."""

    def function():
        held, other = make(), torch.ones(4)  # noqa: F841
        return declared.references_to(take(held))

    assert "held" in shown(case(function))
    assert "other" not in shown(case(function))


def test_those_of_the_module_as_well(case):
    """A module-level store is out of the test's sight, and in the candidate's."""
    assert "TABLE" in shown(case(lambda: declared.references_to(TABLE)))
    assert "CONTAINER" in shown(case(lambda: declared.references_to(CONTAINER["ref"])))


def test_not_those_of_functions(case):
    """A function that can reach it makes it; what else it reaches would be hidden with it."""

    def function():
        ref = torch.ones(4)
        make = lambda: ref  # noqa: F841
        return declared.references_to(ref)

    names = shown(case(function))
    assert "ref" in names
    assert "make" not in names


def test_found_again_is_what_the_names_hold_now_of_the_same_kind(case):
    """Inputs that lie in the same container, of another shape or dtype, are not hidden."""

    def function():
        held = {"ref": torch.zeros(4), "x": torch.ones(6), "ids": torch.ones(4, dtype=torch.int32)}
        wanted = declared.references_to(held["ref"])
        held = {**held, "ref": torch.full((4,), 5.0)}
        return declared.found_again(wanted), held["ref"]

    found, expected = case(function)
    assert [each is expected for each in found] == [True]


def test_a_name_that_is_gone_or_empty_now_holds_nothing(case):
    def function():
        held = torch.ones(4)
        wanted = declared.references_to(held)
        del held
        return declared.found_again(wanted)

    assert case(function) == []
