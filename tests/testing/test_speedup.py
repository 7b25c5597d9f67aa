"""``optest speedup``: when a speedup is stated, and what is said where it is not."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import posix
import sys
import threading
from itertools import pairwise
from unittest.mock import Mock

import numpy as np
import pytest
import torch

import optest.tensors
import optest.test_common
from optest.cases import session as sessions
from optest.cases.session import Session
from optest.errors import UsageError
from optest.testing import benchmark_shape, child, speedup_table, witness
from optest.testing.speedup import NoSpeedupError, Request, Row, overall, speedup
from optest.testing.witness import Notebook, Outcome, Seen, Shape

TASK = """
import pytest
import torch
from optest.testing import TestBase, assert_allclose

def reference(x, w):
    return x @ w

def fast(x, w):
    return {kernel}

@pytest.fixture
def kernel(use_reference):
    return reference if use_reference else fast

def data(m, k, n):
    generator = torch.Generator().manual_seed(0)
    return torch.randn(m, k, generator=generator), torch.randn(k, n, generator=generator)

class TestMatmul(TestBase):
    {marks}
    @pytest.mark.parametrize("shape", {shapes})
    def test_right(self, kernel, shape):
        x, w = data(*shape)
        {check}

    @pytest.mark.performance
    def test_fast(self, kernel, measure_runtime_torch):
        measure_runtime_torch(kernel, "cpu", args=data(64, 96, 32), perf_trials_min_iters=10)

{more}
"""
GOOD = {
    "kernel": "x @ w",
    "marks": "",
    "shapes": "[(4, 4, 4), (64, 96, 32)]",
    "check": "assert_allclose(kernel(x, w), reference(x, w))",
    "more": "",
}


def _in_a_fork(words, *, limit_s, **_options):
    """What ``child.run_module`` does, without loading torch anew: a tenth of the time."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.dup2(writing, 1)
        os.dup2(writing, 2)
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
        torch.set_num_threads(1)  # the pool of threads has not come along
        code = int(pytest.main([*words[1:], "-p", "no:cacheprovider"]))
        sys.stdout.flush()
        sys.stderr.flush()
        posix._exit(code)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return child.Ended(code, said.strip())


@pytest.fixture
def judged(tmp_path, monkeypatch):
    monkeypatch.setenv("OPTEST_BUDGET_S", "0.02")
    monkeypatch.setattr(child, "run_module", Mock(side_effect=_in_a_fork))

    def go(*pytest_args, **changes):
        (tmp_path / "task.py").write_text(TASK.format(**{**GOOD, **changes}))
        return speedup(Request(tmp_path / "task.py", pytest_args, build=False, limit_s=60))

    return go


# --- whole runs ---------------------------------------------------------------------------------


def test_a_right_task_gets_a_row_with_an_interval(judged, caplog):
    more = """
    @pytest.mark.performance
    def test_other(self, kernel, measure_runtime_torch):
        measure_runtime_torch(kernel, "cpu", args=data(8, 8, 8))
"""
    counted, other = judged(more=more)
    assert counted.benchmark.endswith("::test_fast")
    assert counted.counted
    assert not other.counted
    low, high = counted.interval
    assert 0 < low <= counted.speedup <= high < math.inf
    stages = [record.message for record in caplog.records if record.message.endswith(" ...")]
    assert [stage.partition(" ...")[0] for stage in stages] == [
        "correctness",
        "benchmark",
        "reference: correctness",
        "reference: benchmark",
    ]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kernel": "x @ w * 1.5"}, r"correctness failed .*\n.*test_right\[shape0\]: .*not equal"),
        ({"kernel": "(x @ w)[:, :1]"}, "shapes differ"),
        ({"kernel": "x @ gone"}, "NameError"),
        ({"kernel": "x @ w if len(x) < 9 else __import__('posix')._exit(0)"}, "in the middle"),
        ({"kernel": "__import__('os').abort()"}, "killed by SIGABRT"),
        ({"marks": "@pytest.mark.skip(reason='no card')"}, "(?s)no correctness test.*no card"),
        ({"shapes": "[(4, 4, 4)]"}, r"test_fast was never checked: .*float32\[64, 96\]"),
        ({"shapes": "[(64, 4, 32)]"}, "never checked"),  # the output's shape alone is not enough
        ({"check": "kernel(x, w)"}, "they compared no tensor"),
        ({"check": "assert_allclose(kernel(x[:4], w), reference(x[:4], w))"}, "never checked"),
        ({"check": "pass; assert_allclose(x, x)"}, "never checked"),
    ],
    ids=lambda value: str(value)[:50],
)
def test_a_task_that_may_not_state_one_is_refused_with_the_reason(judged, changes, words):
    with pytest.raises(NoSpeedupError, match=words):
        judged(**changes)


def test_a_benchmark_that_is_missing_is_refused(judged):
    with pytest.raises(NoSpeedupError, match="no benchmark recorded runtimes"):
        judged("--deselect", "task.py::TestMatmul::test_fast", "-k", "not test_fast")


def test_a_reference_that_is_wrong_is_refused(judged):
    check = "assert_allclose(kernel(x, w), fast(x, w)) if kernel is fast else pytest.fail('ref')"
    with pytest.raises(NoSpeedupError, match=r"(?s)reference: correctness failed.*test_right.*ref"):
        judged(check=check)


def test_a_stage_that_takes_too_long_is_named(judged, monkeypatch):
    monkeypatch.setattr(child, "run_module", lambda *_words, **_options: child.Ended(None, "..."))
    with pytest.raises(NoSpeedupError, match=r"correctness failed \(it took too long"):
        judged()


def test_a_child_that_takes_too_long_is_ended_and_what_it_said_is_kept():
    wait = "print('begun', flush=True); import time; time.sleep(60)"
    ended = child.run_module(["timeit", "-n1", "-r1", wait], limit_s=2)
    assert ended == child.Ended(None, "begun")


def test_a_mark_lets_a_test_speak_that_holds_the_accumulated_dimension(judged):
    mark = "@pytest.mark.benchmark_shape(holds=96)"
    (row,) = judged(shapes="[(64, 96, 8)]", marks=mark)
    assert row.counted


def test_the_tasks_neighbours_can_be_imported_however_pytest_is_configured(tmp_path):
    (tmp_path / "neighbour.py").write_text("from mine import answer\n")
    (tmp_path / "mine.py").write_text("answer = 42\nprint(answer)\n")
    ended = child.run_module(["neighbour"], limit_s=60, folder=tmp_path)
    assert ended == child.Ended(0, "42")


def test_nothing_is_stated_where_nothing_may_be_timed(judged, monkeypatch):
    monkeypatch.setenv("OPTEST_MODE", "check")
    with pytest.raises(NoSpeedupError, match=r"(?s)no benchmark.*skipped: OPTEST_MODE=check"):
        judged()


@pytest.mark.parametrize(
    ("task", "changes", "words"),
    [
        ("gone.py", {}, "there is no such file"),
        (".", {}, "no Python file"),
        ("task.py", {"kernel": ")("}, r"task\.py:\d+: no Python"),
    ],
)
def test_what_is_no_task_is_a_usage_error(tmp_path, task, changes, words):
    (tmp_path / "task.py").write_text(TASK.format(**{**GOOD, **changes}))
    with pytest.raises(UsageError, match=words):
        speedup(Request(tmp_path / task))


@pytest.mark.parametrize("word", ["-m", "--ref", "--performance-out=x", "--correctness-out"])
def test_what_the_stages_set_cannot_be_given(judged, word):
    with pytest.raises(UsageError, match=r"sets .* itself"):
        judged(word)


def test_arguments_that_pytest_refuses_are_a_usage_error(judged):
    with pytest.raises(UsageError, match=r"(?s)pytest refused.*--no-such-option"):
        judged("--no-such-option")


# --- the rule -----------------------------------------------------------------------------------

X, W, OUT = (Shape((64, 96), "f32"), Shape((96, 32), "f32"), Shape((64, 32), "f32"))
TIMED = Seen(given={X, W}, returned={OUT})
HALVES = {Shape((64, 96), "f16"), Shape((96, 8), "f16")}
HELD = {Shape((64, 96), "f32"), Shape((96, 8), "f32"), Shape((64, 8), "f32")}


@pytest.mark.parametrize(
    ("timed", "test", "own", "speaks"),
    [
        (TIMED, {}, Seen({OUT}, {X, W, OUT}), True),
        (TIMED, {"outcome": "failed"}, Seen({OUT}, {X, W, OUT}), False),
        (TIMED, {"outcome": "skipped"}, Seen({OUT}, {X, W, OUT}), False),
        (TIMED, {}, Seen(set(), {X, W, OUT}), False),
        (TIMED, {}, Seen({OUT}, {X, OUT}), False),
        (TIMED, {}, Seen({OUT}, {X, Shape((96, 32), "f16"), OUT}), False),  # another dtype
        (TIMED, {}, Seen({Shape((64 * 32,), "f64")}, {X, W}), True),  # compared flat and wide
        (TIMED, {}, Seen({Shape((64, 8), "f32")}, {X, W}), False),
        (TIMED, {}, None, False),
        # A kernel that writes an argument and returns nothing.
        (Seen(given={X}), {}, Seen({X}, {X}), True),
        (Seen(given={X}), {}, Seen({OUT}, {X, OUT}), False),
        # Held: the accumulated dimension is whole, others are shrunk.
        (TIMED, {"stands": True, "holds": (96,)}, Seen({OUT}, HELD), True),
        (TIMED, {"stands": True, "holds": (64,)}, Seen({OUT}, HELD), True),
        (TIMED, {"stands": True, "holds": (32,)}, Seen({OUT}, HELD), False),
        (TIMED, {"stands": True, "holds": (97,)}, Seen({OUT}, HELD), False),
        (TIMED, {"stands": True, "holds": (96,)}, Seen(set(), HELD), False),
        (TIMED, {"stands": True, "holds": (96,)}, Seen({OUT}, HALVES), False),  # another dtype
        (TIMED, {"stands": True, "holds": (96,)}, Seen({OUT}, {Shape((96, 0), "f32"), X}), False),
        (TIMED, {}, Seen({OUT}, HELD), False),
        # The author's word, where nothing can be seen.
        (None, {"stands": True}, None, True),
        (TIMED, {"stands": True}, None, True),
        (None, {"stands": True, "outcome": "failed"}, None, False),
        (None, {}, Seen({OUT}, {X, W, OUT}), False),
        (Seen(given=set()), {}, Seen({OUT}, {X, W, OUT}), False),
    ],
)
def test_a_test_speaks_for_the_benchmark_if_it_checked_what_is_timed(timed, test, own, speaks):
    tested = Outcome(**{"id": "t", "outcome": "passed", **test})
    reason = benchmark_shape.unchecked(timed, [tested], {"t": own} if own else {})
    assert (reason == "") is speaks


def test_shapes_of_several_tests_are_not_pieced_together():
    tests = [Outcome("a", "passed"), Outcome("b", "passed")]
    seen = {"a": Seen({OUT}, {X, OUT}), "b": Seen({Shape((4,), "f32")}, {W})}
    assert benchmark_shape.unchecked(TIMED, tests, seen)


# --- what is noted ------------------------------------------------------------------------------


@pytest.fixture
def notes(tmp_path):
    notebook = Notebook(tmp_path / "notes")
    put_back = witness.watch(notebook)
    yield notebook, lambda: witness.read(tmp_path / "notes")
    put_back()


@pytest.mark.parametrize(
    "compare",
    [
        lambda x: optest.testing.assertions.assert_allclose(x, x),
        lambda x: optest.testing.assertions.all_close_with_slack(x, x),
        lambda x: optest.testing.relative.cosine_similarity(x, x),
        lambda x: optest.cases.check.checkAllclose(x, x),
        lambda x: torch.allclose(x, x),
        lambda x: torch.equal(x, x),
        lambda x: torch.testing.assert_close(x, x),
        lambda x: torch.testing.assert_close(actual=x, expected=x),
        lambda x: np.testing.assert_allclose(x.numpy(), x.numpy()),
        lambda x: np.allclose(x.numpy(), x.numpy()),
    ],
)
def test_comparisons_that_hold_are_noted_with_what_stands_around(notes, compare):
    notebook, read = notes

    def inner(x):
        compare(x)

    def test_it():
        pair = {"data": [torch.ones(3), np.zeros((2, 2))]}
        inner(torch.ones(5, dtype=torch.bfloat16).float())
        return pair

    notebook.begin("t", test_it)
    test_it()
    own = read().seen["t"]
    assert own.compared == {Shape((5,), "float32")}
    assert own.near == {
        Shape((5,), "float32"),
        Shape((3,), "float32"),
        Shape((2, 2), "float64"),
    }


@pytest.mark.parametrize(
    "compare",
    [
        lambda x: torch.allclose(x, -x),
        lambda x: torch.equal(x, -x),
        lambda x: optest.testing.relative.all_close_with_slack(x, -x),
        lambda x: optest.testing.assertions.assert_allclose(x, -x),
        lambda x: torch.testing.assert_close(x, -x),
    ],
)
def test_comparisons_that_do_not_hold_are_not_noted(notes, compare):
    notebook, read = notes
    notebook.begin("t", compare)
    with sessions.using(Session(judged_by="")), contextlib.suppress(AssertionError):
        compare(torch.ones(3))
    assert not read().seen


def test_what_a_library_compares_for_itself_is_not_noted(notes):
    notebook, read = notes
    notebook.begin("t", None)
    assert optest.tensors.same_bytes(torch.ones(3), torch.ones(3))
    assert not read().seen


def test_a_comparison_outside_the_test_has_its_own_variables_alone(notes):
    notebook, read = notes

    def compare():
        y = torch.ones(7)
        torch.equal(y, y)

    def test_it():
        x = torch.ones(3)
        thread = threading.Thread(target=compare)
        thread.start()
        thread.join()
        return x

    notebook.begin("t", test_it)
    test_it()
    assert read().seen["t"].near == {Shape((7,), "float32")}


def test_the_timed_call_is_noted_on_copies_of_what_it_gets(notes):
    notebook, read = notes
    x, weight = torch.ones(3), torch.ones(4, 3)
    calls = []

    def measure(target, device, args=None, kwargs=None):
        calls.append((target, device, args, kwargs))

    def kernel(x, *, w):
        x += 1
        return w @ x, x

    notebook.begin("t", kernel)
    notebook.measuring(measure)(kernel, "cpu", (x,), {"w": weight})
    own = read().seen["t"]
    assert own.given == {Shape((3,), "float32"), Shape((4, 3), "float32")}
    assert own.returned == {Shape((4,), "float32"), Shape((3,), "float32")}
    assert calls == [(kernel, "cpu", (x,), {"w": weight})]
    assert torch.equal(x, torch.ones(3))

    notebook.begin("closure", kernel)
    notebook.measuring(measure)(lambda: weight + 1, None)
    assert read().seen["closure"].given == {Shape((4, 3), "float32")}


def test_a_face_that_was_asked_before_is_watched_too(tmp_path):
    import optest.testing

    plain = optest.testing.assert_allclose
    put_back = witness.watch(Notebook(tmp_path / "notes"))
    watched = optest.testing.assert_allclose
    put_back()
    assert watched is not plain
    assert optest.testing.assert_allclose is plain


def test_what_was_watched_is_put_back(tmp_path):
    before = (torch.allclose, optest.cases.check.checkAllclose)
    put_back = witness.watch(Notebook(tmp_path / "notes"))
    assert torch.allclose is not before[0]
    put_back()
    assert (torch.allclose, optest.cases.check.checkAllclose) == before


# --- rows and table -----------------------------------------------------------------------------


def _row(name, kernel, reference, *, counted=True, trials=20):
    wobble = [1 + 0.001 * (i % 5) for i in range(trials)]
    return Row(
        name,
        tuple(kernel * w for w in wobble),
        tuple(reference * w for w in wobble),
        counted=counted,
    )


def test_the_overall_speedup_is_the_geometric_mean_of_what_counts():
    rows = [_row("a", 1, 2), _row("b", 1, 8), _row("c", 1, 100, counted=False)]
    assert overall(rows) == pytest.approx(4.0)
    assert [row.speedup for row in rows] == pytest.approx([2, 8, 100])


@pytest.mark.parametrize(
    ("kernel", "reference", "trials", "words"),
    [
        (1.0, 2.0, 20, "overall: 2x, the kernel is faster"),
        (2.0, 1.0, 20, "overall: 0.5x, the kernel is slower"),
        (1.0, 1.0, 20, "no difference is shown"),
        (1.0, 2.0, 3, "overall: 2x; too few trials to say how sure that is"),
    ],
)
def test_the_table_says_what_it_comes_to(kernel, reference, trials, words):
    text = speedup_table.table([_row("t[a|b]", kernel, reference, trials=trials)])
    assert text.splitlines()[-1].endswith(words)
    assert r"t[a\|b]" in text
    cells = [len(line.replace(r"\|", "").split("|")) for line in text.splitlines()[:3]]
    assert all(one == two for one, two in pairwise(cells))


def test_times_that_others_have_lengthened_are_named_so():
    quiet, busy = _row("a", 1, 2), dataclasses.replace(_row("b", 1, 2), contended=True)
    assert "contended" not in speedup_table.table([quiet])
    assert "contended, so that the times are too long: b\n" in speedup_table.table([quiet, busy])


def test_what_does_not_count_is_named_so():
    rows = [_row("a", 1, 2), _row("b", 1, 8, counted=False)]
    assert "| b (not counted) |" in speedup_table.table(rows)
