"""The seam: rows, statuses, statelessness (cases B1 to B5, L1, S2, S5)."""

from __future__ import annotations

import gc
import os
import random
import weakref

import numpy as np
import pytest
import torch

from optest.errors import UsageError
from optest.log import logger
from optest.test_common import benchmark, checkAllclose, run_perftest, summarize


def wrapped(body, **options):
    """A benchmark function of one argument around ``body``."""

    def test_op(m):
        return body(m)

    return benchmark(**options)(test_op)


def test_name_doc_and_signature_are_kept():
    import inspect

    @benchmark()
    def test_op(m, *, k=3):
        """What it does."""

    assert test_op.__name__ == "test_op"
    assert test_op.__doc__ == "What it does."
    assert str(inspect.signature(test_op)) == "(m, *, k=3)"


def test_columns_follow_the_signature_not_the_call(check):
    @benchmark()
    def test_op(b, m, n=7, *, k):
        return {"us": 1.0}

    assert list(test_op(k=4, m=2, b=1)) == ["b", "m", "n", "k", "us"]


def test_a_method_works_and_self_is_no_column(check):
    class Tests:
        @benchmark()
        def test_op(self, m):
            return {"double": 2 * m}

    assert dict(Tests().test_op(3)) == {"m": 3, "double": 6}


def test_bare_decorator_and_a_string_of_names_are_refused():
    with pytest.raises(UsageError, match=r"write @benchmark\(\)"):
        benchmark(lambda: None)
    with pytest.raises(UsageError, match="expected a tuple of variable names"):
        benchmark(inout="y")


def test_a_typed_dtype_tuple_reaches_the_function_unwrapped(check):
    @benchmark()
    def test_op(dtype):
        return {"size": dtype.itemsize}

    row = test_op((torch.bfloat16,))
    assert dict(row) == {"dtype": "bf16", "size": 2}


@pytest.mark.parametrize(
    ("result", "words"),
    [
        ([1], "returned a list: expected a dict"),
        (3.0, "returned a float: expected a dict"),
        ({"m": 1}, "returned the column m, which is the name of an argument"),
    ],
)
def test_results_that_make_no_row_are_errors_that_name_them(check, result, words):
    row = wrapped(lambda m: result)(5)
    assert row.status == "error"
    assert row["m"] == 5
    assert words in row["error"]
    assert check.session.totals == {"error": 1}


def test_none_is_nothing_measured_and_no_failure(check):
    row = wrapped(lambda m: None)(5)
    assert (row.status, dict(row)) == ("empty", {"m": 5})
    assert not check.session.failures


def test_one_raising_case_of_twenty_leaves_nineteen_rows(check, capsys):
    def body(m):
        if m == 7:
            raise RuntimeError("device lost\nsecond line")
        return {"us": float(m)}

    test_op = wrapped(body)
    rows = [test_op(m) for m in range(20)]
    summarize("op", rows)
    out = capsys.readouterr().out
    assert sum(row.status == "passed" for row in rows) == 19
    assert rows[7]["error"] == "RuntimeError: device lost"
    assert "RuntimeError: device lost" in out
    assert len([line for line in out.splitlines() if line.startswith("|")]) == 22


@pytest.mark.parametrize("exception", [SystemExit(0), GeneratorExit(), AssertionError(), Exception])
def test_whatever_a_candidate_raises_costs_its_case_only(check, exception):
    def body(m):
        raise exception

    assert wrapped(body)(1).status == "error"


def test_an_exception_of_any_size_is_recorded_bounded(check):
    def body(m):
        raise RuntimeError("x" * 10_000_000)

    row = wrapped(body)(1)
    assert len(row["error"]) < 3_000
    assert len(check.path.read_text()) < 10_000


def test_an_exception_whose_text_raises_is_still_recorded(check):
    class Broken(Exception):
        def __str__(self):
            raise ValueError

    def body(m):
        raise Broken

    assert "Broken" in wrapped(body)(1)["error"]


def test_keyboard_interrupt_ends_the_process_and_is_recorded(check):
    def body(m):
        raise KeyboardInterrupt

    with pytest.raises(SystemExit) as stop:
        wrapped(body)(1)
    assert stop.value.code == 130
    assert check.session.interrupted
    assert check.finished()[0]["status"] == "error"


def test_a_failed_check_fails_the_case_whatever_is_returned(check):
    def body(m):
        checkAllclose(torch.ones(4), torch.zeros(4), msg="zeros")
        return {"err": 0.0}

    row = wrapped(body)(1)
    assert row.status == "failed"
    assert check.session.failures[0].case_id == "test_benchmark.py::test_op[m=1]"
    assert check.session.failures[0].reason.startswith("zeros: ")


def test_the_same_case_twice_gives_two_rows_with_distinct_ids(check):
    test_op = wrapped(lambda m: {"us": 1.0})
    assert [test_op(1).case_id, test_op(1).case_id] == [
        "test_benchmark.py::test_op[m=1]",
        "test_benchmark.py::test_op[m=1]#2",
    ]


def test_a_case_draws_the_same_numbers_alone_and_in_a_sweep(make_session):
    def body(m):
        return {"t": torch.randn(()).item(), "n": np.random.rand(), "r": random.random()}

    test_op = wrapped(body)
    make_session()
    sweep = [dict(test_op(m)) for m in range(3)]
    make_session()
    assert dict(test_op(2)) == sweep[2]
    assert sweep[0]["t"] != sweep[1]["t"]


def test_the_seed_setting_changes_the_numbers(make_session):
    test_op = wrapped(lambda m: {"t": torch.randn(()).item()})
    make_session()
    first = dict(test_op(1))
    make_session().session.seed = 1
    assert dict(test_op(1)) != first


def test_state_that_a_case_changes_does_not_reach_the_next(check, monkeypatch):
    monkeypatch.setenv("TO_BE_REMOVED", "1")

    def body(m):
        torch.set_default_dtype(torch.float64)
        torch.set_num_threads(torch.get_num_threads() + 1)
        torch.use_deterministic_algorithms(True)
        torch._C._set_grad_enabled(False)
        os.environ["LEAKED"] = "1"
        del os.environ["TO_BE_REMOVED"]
        raise RuntimeError

    before = (torch.get_default_dtype(), torch.get_num_threads())
    wrapped(body)(1)
    assert (torch.get_default_dtype(), torch.get_num_threads()) == before
    assert not torch.are_deterministic_algorithms_enabled()
    assert torch.is_grad_enabled()
    assert "LEAKED" not in os.environ
    assert os.environ["TO_BE_REMOVED"] == "1"


def test_variables_that_a_case_sets_are_put_back_and_said_but_not_those_of_inductor(
    check, monkeypatch, caplog
):
    """torch.compile keeps its folders there: to take them away would compile everything anew."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "before")
    monkeypatch.setenv("CHANGED", "before")
    monkeypatch.setattr(logger, "propagate", True)

    def compiles(m):
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = "after"

    def sets(m):
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = "later"
        os.environ["CHANGED"] = "after"

    wrapped(compiles)(1)
    assert "was put back" not in caplog.text
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == "after"
    wrapped(sets)(2)
    assert "changed the environment; it was put back" in caplog.text
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == "later"
    assert os.environ["CHANGED"] == "before"


def test_failing_cases_do_not_pin_their_tensors(check):
    alive = []

    def body(m):
        big = torch.empty(1000)
        alive.append(weakref.ref(big))
        run_perftest(lambda: big.neg())
        if m % 2:
            checkAllclose(big, torch.zeros(1000), printLog=False)
            return {}
        raise RuntimeError(f"case {m}")

    test_op = wrapped(body)
    for m in range(4):
        test_op(m)
    gc.collect()
    assert [ref() for ref in alive] == [None] * 4


def test_collect_mode_runs_nothing_and_returns_the_arguments(make_session):
    recorded = make_session("collect")
    test_op = wrapped(lambda m: pytest.fail("ran"))
    row = test_op(3)
    assert (row.status, dict(row)) == ("collected", {"m": 3})
    (case,) = recorded.session.collected
    assert case.id == "test_benchmark.py::test_op[m=3]"
    assert recorded.events[0]["event"] == "collected"
    make_session("check")
    assert case.function is test_op


def test_cases_that_are_not_on_the_list_return_at_once(check):
    check.session.only = frozenset({"test_benchmark.py::test_op[m=2]"})
    ran = []
    test_op = wrapped(ran.append)
    assert [test_op(m).status for m in range(4)] == ["skipped", "skipped", "empty", "skipped"]
    assert ran == [2]


def test_events_tell_started_and_finished_with_results_whole(make_session):
    recorded = make_session("run")

    def body(m):
        x = torch.randn(64)
        out, us = run_perftest(torch.neg, x, num_iters=11)
        return {"gfx": "cpu", "cpp us": us, "cpp err": checkAllclose(-x, out)}

    row = wrapped(body)(64)
    started, finished = recorded.events
    assert (started["event"], started["arguments"]) == ("started", {"m": 64})
    assert finished["id"] == started["id"] == row.case_id
    assert finished["status"] == "passed"
    assert len(finished["row"]["cpp us"]["samples_us"]) + finished["row"]["cpp us"]["dropped"] >= 11
    assert finished["row"]["cpp err"]["status"] == "pass"
    assert float(row["cpp us"]) > 0
