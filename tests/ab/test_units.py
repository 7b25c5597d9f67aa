"""What both sides have, what one lacks, and what cannot be run on one."""

from __future__ import annotations

import pytest

from optest.ab.units import chosen, paired
from optest.errors import UsageError
from optest.store.records import Planned
from optest.sweep.executor import Collection
from optest.sweep.filters import Filters


def case(m, file="ops/test_a.py"):
    return Planned(f"{file.rpartition('/')[2]}::test_f[m={m}]", file, "test_f", {"m": m})


def collection(*ms, file="ops/test_a.py", **more):
    return Collection(file, planned=tuple(case(m, file) for m in ms), **more)


def ids(units):
    return [tuple(unit and unit.id.partition("::")[2] for unit in pair) for pair in units.pairs]


def test_the_same_case_stands_beside_itself_and_others_alone():
    units = paired([collection(1, 2, 3)], [collection(2, 3, 4)])
    assert ids(units) == [
        *(("test_f[m=1]", None), ("test_f[m=2]", "test_f[m=2]")),
        *(("test_f[m=3]", "test_f[m=3]"), (None, "test_f[m=4]")),
    ]
    positions = [unit.position for pair in units.pairs for unit in pair if unit]
    assert positions == [0, 1, 1, 2, 2, 3]


def test_a_file_that_one_side_lacks_is_new_or_gone_not_lost():
    units = paired([collection(1)], [collection(1), collection(1, file="ops/test_b.py")])
    assert ids(units)[-1] == (None, "test_f[m=1]")
    assert units.lost == ([], [])


@pytest.mark.parametrize("broken", [0, 1])
def test_a_file_that_one_side_cannot_run_is_that_sides_failure(broken):
    sides = [[collection(1, 2)], [collection(1, 2)]]
    sides[broken] = [Collection("ops/test_a.py", fault="it cannot be imported (NameError)")]
    units = paired(*sides)
    lost = units.lost[broken]
    assert [(each.planned.id, each.status) for each in lost] == [
        (case(1).id, "error"),
        (case(2).id, "error"),
    ]
    assert {each.reason for each in lost} == {"it cannot be imported (NameError)"}
    assert units.lost[1 - broken] == []
    assert all(pair[broken] is None and pair[1 - broken] for pair in units.pairs)
    assert not units.faulty


def test_a_file_that_neither_side_can_run_is_told_once():
    fault = Collection("ops/test_a.py", fault="no op test")
    units = paired([fault], [fault])
    assert (list(units.pairs), list(units.faulty)) == ([], [fault])


@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_file_that_one_side_runs_whole_is_run_whole_on_both(which):
    whole = Collection(
        "ops/test_a.py", planned=(Planned("test_a.py", "ops/test_a.py"),), whole="KeyError"
    )
    sides = [[collection(1, 2)], [collection(1, 2)]]
    for side in {0: (0,), 1: (1,), 2: (0, 1)}[which]:
        sides[side] = [whole]
    units = paired(*sides)
    assert [tuple(unit.id for unit in pair) for pair in units.pairs] == [("test_a.py", "test_a.py")]


def test_a_gated_side_has_no_case():
    gated = Collection("ops/test_a.py", gated="for gfx942")
    units = paired([gated], [collection(1)])
    assert ids(units) == [(None, "test_f[m=1]")]
    assert units.gated == [gated]


def test_filters_look_at_both_sides_and_at_what_is_lost():
    fault = Collection("ops/test_b.py", fault="broken")
    units = paired(
        [collection(1, 2), collection(1, 2, file="ops/test_b.py")],
        [collection(2, 3), fault],
    )
    left = chosen(units, Filters(keep="m=2"), "cpu")
    assert ids(left) == [("test_f[m=2]", "test_f[m=2]"), ("test_f[m=2]", None)]
    assert [each.planned.id for each in left.lost[1]] == ["test_b.py::test_f[m=2]"]
    assert ids(chosen(units, Filters(keep="m=3"), "cpu")) == [(None, "test_f[m=3]")]
    with pytest.raises(UsageError, match="m=9"):
        chosen(units, Filters(keep="m=9"), "cpu")
    assert chosen(units, Filters(arch="sm_90"), "cpu").pairs == []
