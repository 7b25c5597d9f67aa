"""The course of a sweep over a stand-in for machines: what is run, kept, gone on with, stopped."""

from __future__ import annotations

import io
import os
import signal
from dataclasses import replace

import pytest

from optest.errors import StoreError, UsageError
from optest.store import Store
from optest.store.records import Place, Planned, Result
from optest.sweep import resume
from optest.sweep.executor import Collection
from optest.sweep.progress import Quiet
from optest.sweep.request import Request
from optest.sweep.run import Means, sweep

HERE = Place(host="h", gfx="cpu", device="a CPU")


def case(m, file="test_a.py", where=""):
    return Planned(f"{file}::test_a[m={m}]", file, "test_a", {"m": m}, where, table="a")


class Machines:
    """An executor that runs nothing; what becomes of a unit, and what happens then, is given."""

    width = 1

    def __init__(self, *collections, becomes=None, then=None):
        self.collections = collections
        self.becomes = becomes or {}
        self.then = then
        self.ran = []
        self.stopped = False
        self.open = None

    def __enter__(self):
        self.open = True
        return self

    def __exit__(self, *exception):
        self.open = False

    def place(self):
        return HERE

    def collect(self, files, tell):
        found = [each for each in self.collections if each.file in files]
        for each in found:
            tell(each)
        return found

    def run(self, work, begin, take):
        self.came_back = False
        for each in work:
            if self.stopped:
                break
            begin(each.planned)
            self.ran.append(each.planned.id)
            for result in self.results(each.planned):
                take(result)
            if self.then:
                self.then(self, each.planned)
        self.came_back = True

    def results(self, planned):
        status = self.becomes.get(planned.id, "passed")
        if planned.whole:
            yield Result(case(9, planned.file), status, seconds=1, place=HERE)
        reason = "" if status == "passed" else "because"
        yield Result(planned, status, reason, seconds=1, place=HERE, row={"v": 1})

    def stop(self):
        self.stopped = True


A = Collection("test_a.py", planned=(case(1), case(2), case(3)))
WHOLE = Collection("test_w.py", planned=(Planned("test_w.py", "test_w.py"),), whole="KeyError")
FAULT = Collection("test_f.py", fault="SyntaxError")
GATED = Collection("test_g.py", gated="not for cpu")


@pytest.fixture
def desk(tmp_path):
    (tmp_path / ".git").mkdir()  # no repository: none above is looked for either

    class Desk:
        folder = tmp_path
        store = Store.open(f"sqlite:///{tmp_path}/r.sqlite")

        def run(self, machines, request=None, run=None):
            request = (request or Request(paths=(".",))).settled()
            names = [each.file for each in machines.collections]
            means = Means(tmp_path, self.store, machines, Quiet(io.StringIO()))
            outcome = sweep(request, names, means, run)
            assert machines.open is False, "the executor was left open"
            return outcome

        def go_on(self, machines, ref=""):
            run = resume.found(self.store, ref)
            return self.run(machines, resume.request_of(run, Request()), run)

    made = Desk()
    yield made
    made.store.close()


def status_by_id(results):
    return {result.planned.id[-4:]: result.status for result in results}


def test_everything_is_run_once_stored_and_told_in_case_order(desk):
    outcome = desk.run(Machines(A, FAULT, WHOLE, GATED, becomes={case(2).id: "crashed"}))
    assert [r.planned.id for r in outcome.results] == [
        *(case(m).id for m in (1, 2, 3)),
        case(9, "test_w.py").id,
        "test_w.py",
    ]
    assert outcome.totals() == "4 cases: 3 passed, 1 crashed"
    assert [each.file for each in outcome.faulty] == ["test_f.py"]
    assert [each.file for each in outcome.gated] == ["test_g.py"]
    (run,) = desk.store.runs()
    assert (run.id, run.state, run.facts.place) == (outcome.run, "complete", HERE)
    kept = {result.planned.key for result in desk.store.results(run.id)}
    assert kept == {result.planned.key for result in outcome.results}


def test_a_second_sweep_runs_the_longest_first(desk):
    first = Machines(A)
    first.results = lambda unit: iter([Result(unit, "passed", seconds=unit.position, place=HERE)])
    desk.run(first)
    second = Machines(A)
    desk.run(second)
    assert second.ran == [case(m).id for m in (3, 2, 1)]


def test_a_script_that_refuses_its_arguments_is_not_run_whole_to_hear_so_again(desk):
    refuses = Collection("test_r.py", planned=(Planned("test_r.py", "test_r.py"),))
    refuses = replace(refuses, whole="main() exited 2: unrecognized arguments: --nonsense")
    machines = Machines(A, refuses)
    outcome = desk.run(machines)
    assert machines.ran == [case(m).id for m in (1, 2, 3)]
    (fault,) = outcome.faulty
    assert fault.fault == "it refuses its arguments: unrecognized arguments: --nonsense"
    assert desk.run(Machines(refuses)).exit_code == 2


def test_an_unknown_filter_runs_nothing_and_begins_no_run(desk):
    machines = Machines(A)
    with pytest.raises(UsageError, match="-k 'm=7' matches no case"):
        desk.run(machines, Request(paths=(".",), keep="m=7"))
    assert machines.ran == []
    assert desk.store.runs() == []


def test_a_script_that_is_run_whole_is_left_out_by_a_filter_on_cases_and_that_is_said(desk):
    machines = Machines(A, WHOLE)
    outcome = desk.run(machines, Request(paths=(".",), keep="m=2"))
    assert (machines.ran, list(outcome.left_out)) == ([case(2).id], ["test_w.py"])


def test_nothing_is_begun_where_all_is_gated_or_for_another_arch(desk):
    assert desk.run(Machines(GATED)).exit_code == 0
    elsewhere = desk.run(Machines(A), Request(paths=(".",), arch="sm_90"))
    assert elsewhere.exit_code == 0
    assert elsewhere.elsewhere == "--arch sm_90: nothing was run, since this is cpu"
    assert desk.store.runs() == []


def interrupt_after(count):
    def then(machines, _planned):
        if len(machines.ran) == count:
            os.kill(os.getpid(), signal.SIGINT)

    return then


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_cleanly_and_the_rest_is_run_when_it_goes_on(desk, number, capfd):
    before = signal.getsignal(number)
    stopping = Machines(A, then=lambda machines, _: os.kill(os.getpid(), number))
    outcome = desk.run(stopping)
    assert stopping.came_back, "what runs was not given the time to end"
    assert (outcome.interrupted, outcome.exit_code) == (True, 130)
    assert status_by_id(outcome.results) == {"m=1]": "passed"}
    assert outcome.totals() == "1 case: 1 passed, 2 not run"
    assert desk.store.runs()[0].state == "interrupted"
    assert "stopping what runs" in capfd.readouterr().err
    assert signal.getsignal(number) is before

    states = []
    rest = Machines(A, then=lambda *_: states.append(desk.store.runs()[0].state))
    whole = desk.go_on(rest)
    assert states == ["running", "running"]
    assert rest.ran == [case(2).id, case(3).id]
    assert (whole.run, whole.totals()) == (outcome.run, "3 cases: 3 passed")
    assert desk.store.runs()[0].state == "complete"
    assert len(desk.store.runs()) == 1


def test_a_signal_while_cases_are_collected_begins_no_run(desk):
    machines = Machines(A)
    machines.collect = lambda *_: os.kill(os.getpid(), signal.SIGINT)
    outcome = desk.run(machines)
    assert (outcome.exit_code, outcome.run, machines.stopped) == (130, "", True)
    assert desk.store.runs() == []


def test_going_on_runs_what_failed_again_and_shows_what_was_good(desk):
    desk.run(Machines(A, WHOLE, becomes={case(2).id: "failed", "test_w.py": "crashed"}))
    mended = Machines(A, WHOLE)
    outcome = desk.go_on(mended)
    assert sorted(mended.ran) == [case(2).id, "test_w.py"]
    assert outcome.exit_code == 0
    assert outcome.totals() == "4 cases: 4 passed"
    with pytest.raises(StoreError, match=r"no run of .* is unfinished"):
        resume.found(desk.store, "")


def test_cases_of_a_whole_script_that_runs_again_are_those_that_it_has_now(desk):
    desk.run(Machines(WHOLE, becomes={"test_w.py": "failed"}))
    mended = Machines(WHOLE)
    mended.results = lambda unit: iter([Result(unit, "passed")])  # it has no case any more
    assert desk.go_on(mended).totals() == "0 cases"


def test_going_on_takes_what_is_new_and_says_what_is_gone(desk):
    desk.run(Machines(A, becomes={case(3).id: "failed"}))
    changed = Machines(Collection("test_a.py", planned=(case(1), case(2), case(4))))
    outcome = desk.go_on(changed)
    assert changed.ran == [case(4).id]
    assert [unit.id for unit in outcome.vanished] == [case(3).id]
    assert outcome.exit_code == 1  # its failure stands


def test_going_on_under_other_settings_is_warned_of(desk, capfd, monkeypatch):
    monkeypatch.setenv("OPTEST_SEED", "1")
    desk.run(Machines(A, then=interrupt_after(1)))
    monkeypatch.setenv("OPTEST_SEED", "2")
    desk.go_on(Machines(A))
    assert "goes on, but OPTEST_SEED: it was 1, it is 2" in capfd.readouterr().err


def test_a_plan_that_was_cut_off_is_completed(desk):
    outcome = desk.run(Machines(Collection("test_a.py", planned=(case(1),))))
    whole = Machines(A)
    assert desk.go_on(whole, outcome.run).totals() == "3 cases: 3 passed"
    assert whole.ran == [case(2).id, case(3).id]


def test_a_store_that_goes_away_stops_the_sweep_and_nothing_that_ran_is_hidden(desk, monkeypatch):
    real = desk.store.record

    def record(run, result):
        if result.planned.id == case(2).id:
            raise StoreError("the disk is full")
        real(run, result)

    monkeypatch.setattr(desk.store, "record", record)
    machines = Machines(A)
    outcome = desk.run(machines)
    assert machines.ran == [case(1).id, case(2).id]
    assert (outcome.fault, outcome.exit_code) == ("the disk is full", 1)
    assert status_by_id(outcome.results) == {"m=1]": "passed"}
    monkeypatch.undo()
    assert desk.go_on(Machines(A)).totals() == "3 cases: 3 passed"


def test_machines_that_are_gone_stop_the_sweep_as_a_store_does(desk):
    def gone(machines, _planned):
        raise UsageError("no node of kind sm_90 is left")

    outcome = desk.run(Machines(A, then=gone))
    assert (outcome.fault, outcome.exit_code) == ("no node of kind sm_90 is left", 1)
    assert status_by_id(outcome.results) == {"m=1]": "passed"}
    assert desk.store.runs()[0].state == "interrupted"


def test_a_store_that_refuses_at_the_start_is_an_error(desk, monkeypatch):
    def begin(_facts):
        raise StoreError("it may not be written")

    monkeypatch.setattr(desk.store, "begin", begin)
    machines = Machines(A)
    with pytest.raises(StoreError, match="it may not be written"):
        desk.run(machines)
    assert machines.ran == []


def test_the_newest_unfinished_run_is_the_one_to_go_on_with(desk):
    with pytest.raises(StoreError, match="holds no run yet"):
        resume.found(desk.store, "")
    stopped = desk.run(Machines(A, then=interrupt_after(1)))
    desk.run(Machines(A))
    assert resume.found(desk.store, "").id == stopped.run
    assert resume.found(desk.store, "latest").id != stopped.run


def test_a_run_that_is_no_sweep_cannot_be_gone_on_with(desk):
    from optest.store.records import RunFacts

    run = desk.store.begin(RunFacts())
    with pytest.raises(StoreError, match="does not say which op tests"):
        resume.request_of(desk.store.find(run), Request())


def test_a_run_that_another_process_works_on_is_not_the_one_to_go_on_with(desk, monkeypatch):
    older = desk.run(Machines(A, then=interrupt_after(1))).run
    newer = desk.run(Machines(A, then=interrupt_after(1))).run
    monkeypatch.setattr(resume, "is_taken", lambda store, run: run == newer)
    assert resume.found(desk.store, "").id == older
    assert resume.found(desk.store, newer).id == newer
