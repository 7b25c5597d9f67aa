"""``optest run --resume`` keeps away from runs whose worktree is gone."""

from __future__ import annotations

import pytest

from optest.errors import StoreError
from optest.store import Store
from optest.store.records import Planned, RunFacts
from optest.sweep import resume
from optest.sweep.request import Request


@pytest.fixture
def store(tmp_path):
    with Store.open(f"sqlite:///{tmp_path}/s.db") as opened:
        yield opened


def interrupted(store, arguments):
    run = store.begin(RunFacts(arguments=arguments))
    store.plan(run, [Planned("t.py::f", "t.py", "f")])
    store.end(run, "interrupted")
    return run


def test_the_newest_that_a_sweep_made_is_gone_on_with(store):
    swept = interrupted(store, {"paths": ["t.py"]})
    ours = interrupted(store, {"ab": {"pair": "x", "paths": ["t.py"]}})
    assert resume.found(store, "").id == swept
    assert resume.found(store, ours).id == ours
    with pytest.raises(StoreError, match="does not say which op tests"):
        resume.request_of(store.find(ours), Request())


def test_where_there_is_no_other_that_is_said(store):
    interrupted(store, {"ab": {"pair": "x"}})
    with pytest.raises(StoreError, match=r"no run of .* is unfinished"):
        resume.found(store, "")
