"""The benchmark of a golden run: when it runs, how often, what it prints, what it refuses."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest
import torch
from golden_kernels import (
    accumulate,
    accumulate_specs,
    axpy,
    axpy_specs,
    golden_accumulate,
    golden_axpy,
)

from optest.golden import InOut, Out, ScalarSpec, TensorSpec, TritonKernel, run
from optest.golden.bench import Calls
from optest.golden.rounds import Rounds
from optest.log import _said

HEADLINE = r"effective_us .*mean=([0-9.]+)"
FEW = {"bench": {"rounds": 12, "warmup": 3}}


@pytest.mark.parametrize("value", ["", "0", "false", "False"])
@pytest.mark.parametrize("name", ["OPTEST_BENCH", "PYPTO_BENCH"])
def test_values_that_leave_it_off(recorded, monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    assert run(axpy, axpy_specs(), golden_axpy).bench is None


@pytest.mark.parametrize("value", ["1", "true"])
@pytest.mark.parametrize("prefix", ["OPTEST", "PYPTO"])
def test_values_that_switch_it_on(recorded, monkeypatch, capsys, prefix, value):
    monkeypatch.setenv(f"{prefix}_BENCH", value)
    monkeypatch.setenv(f"{prefix}_BENCH_ROUNDS", "12")
    monkeypatch.setenv(f"{prefix}_BENCH_WARMUP", "2")
    result = run(axpy, axpy_specs(), golden_axpy)
    assert (result.bench.rounds, result.bench.warmup) == (12, 2)
    assert result.bench.timing.n == 12
    out = capsys.readouterr().out
    assert len(re.findall(HEADLINE, out)) == 1
    form = r"\[RUN\]   effective_us \(12 rounds\) min=\S+ median=\S+ mean=\S+ max=\S+$"
    assert re.search(form, out, re.MULTILINE)


@pytest.mark.parametrize(
    ("bench", "environment", "wanted"),
    [
        (None, {}, None),
        (False, {"OPTEST_BENCH": "1"}, None),
        (True, {}, (100, 5)),
        (Rounds(3), {}, (3, 5)),
        (Rounds(3), {"OPTEST_BENCH_ROUNDS": "8", "OPTEST_BENCH_WARMUP": "0"}, (3, 0)),
        (True, {"OPTEST_BENCH_ROUNDS": "8", "PYPTO_BENCH_ROUNDS": "9"}, (8, 5)),
        (None, {"PYPTO_BENCH": "1", "PYPTO_BENCH_ROUNDS": "9"}, (9, 5)),
        (None, {"PYPTO_BENCH": "1", "PYPTO_BENCH_ROUNDS": "nine"}, (100, 5)),
        (None, {"PYPTO_BENCH": "1", "PYPTO_BENCH_ROUNDS": "0"}, (100, 5)),
        (None, {"PYPTO_BENCH": "1", "PYPTO_BENCH_WARMUP": "-1"}, (100, 5)),
        (Rounds.of({"rounds": 0, "warmup": -1}), {}, (100, 5)),
        (Rounds.of(SimpleNamespace(rounds=4, warmup=0)), {}, (4, 0)),
    ],
)
def test_how_often_it_calls(monkeypatch, bench, environment, wanted):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert Rounds.wanted(bench) == wanted


def test_a_bad_number_of_upstreams_is_warned_about(monkeypatch):
    monkeypatch.setenv("PYPTO_BENCH_ROUNDS", "ten")
    Rounds.wanted(True)
    assert any("PYPTO_BENCH_ROUNDS='ten'" in said for said in _said)


def test_a_bad_number_of_ours_is_a_fault(recorded, monkeypatch):
    monkeypatch.setenv("OPTEST_BENCH_ROUNDS", "ten")
    result = run(axpy, axpy_specs(), golden_axpy, config={"bench": True})
    assert "OPTEST_BENCH_ROUNDS='ten'" in result.error


def test_a_wrong_kernel_is_not_timed(recorded, capsys):
    def kernel(a: float, x: torch.Tensor, y: Out[torch.Tensor]):
        y.copy_(x)

    result = run(kernel, axpy_specs(), golden_axpy, config=FEW)
    assert not result.passed
    assert result.bench is None
    assert "benchmark" not in capsys.readouterr().out


def test_check_mode_times_nothing(recorded, capsys):
    recorded.session.mode = "check"
    assert run(axpy, axpy_specs(), golden_axpy, config=FEW).bench is None
    assert "benchmark skipped: OPTEST_MODE=check" in capsys.readouterr().out


def test_what_a_bench_knows(recorded):
    bench = run(axpy, axpy_specs(), golden_axpy, config=FEW).bench
    assert bench.per_round() == list(bench.timing.samples_us)
    assert 1 <= len(bench.per_round()) <= 12
    assert recorded.finished()[0]["row"]["us"]["n"] == 12


def test_raw_lines_do_not_match_the_headline(recorded, monkeypatch, capsys):
    monkeypatch.setenv("OPTEST_BENCH_RAW", "1")
    bench = run(axpy, axpy_specs(), golden_axpy, config=FEW).bench
    out = capsys.readouterr().out
    assert len(re.findall(HEADLINE, out)) == 1
    assert out.count("eff_us round") == len(bench.per_round())


def test_inout_tensors_are_given_back_between_rounds(recorded):
    starts = []

    def kernel(x: torch.Tensor, total: InOut[torch.Tensor], y: Out[torch.Tensor]):
        starts.append(total.clone())
        accumulate(x, total, y)

    assert run(kernel, accumulate_specs(), golden_accumulate, config=FEW).passed
    # The clock gives tensors back every few calls: the first of each stretch meets the first value.
    assert sum(torch.equal(start, starts[0]) for start in starts[1:]) >= 2
    assert (starts[-1] - starts[0]).abs().max() < 100


def test_a_kernel_that_remembers_answers_is_refused(recorded):
    answers = {}

    def kernel(x: torch.Tensor, y: Out[torch.Tensor]):
        key = x.data_ptr()
        if key not in answers:
            for _ in range(200):
                answers[key] = (x @ x).clone()
        y.copy_(answers[key])

    def golden(values):
        values["y"][:] = values["x"] @ values["x"]

    specs = [
        TensorSpec("x", [64, 64], torch.float32, torch.randn),
        TensorSpec("y", [64, 64], torch.float32),
    ]
    result = run(kernel, specs, golden, rtol=1e-3, atol=1e-3, config=FEW)
    assert not result.passed
    assert result.error.startswith("benchmark refused")
    assert recorded.session.failures


@pytest.mark.skipif(torch.cuda.is_available(), reason="kernels are compiled there")
def test_the_time_of_an_interpreted_kernel_is_called_what_it_is(recorded, capsys):
    from golden_triton_kernels import scale_kernel  # triton loads where it is used

    specs = [
        TensorSpec("x", [32], torch.float32, torch.randn),
        TensorSpec("y", [32], torch.float32),
        ScalarSpec("n", torch.int32, 32),
    ]
    kernel = TritonKernel(scale_kernel, (1,), constexprs={"FACTOR": 2, "BLOCK": 32})

    def golden(values):
        values["y"][:] = values["x"] * 2

    assert run(kernel, specs, golden, config={"bench": {"rounds": 3, "warmup": 0}}).passed
    assert "note: Triton's interpreter ran the kernel" in capsys.readouterr().out


def stepped(**options):
    return [
        ScalarSpec("n", torch.int32, 10, compile_runtime=True, benchmark_step=3, **options),
        TensorSpec("y", [4], torch.int32),
    ]


def fill_stepped(values):
    values["y"].fill_(values["n"])


def test_stepped_scalars_advance_with_every_dispatch_warm_up_included(recorded):
    """Control calls, made where a kernel takes floats, would be dispatches nobody asked for."""
    seen = []

    def kernel(n: int, x: torch.Tensor, y: Out[torch.Tensor]):
        seen.append(n)
        y.copy_(x + n)

    specs = [
        stepped()[0],
        TensorSpec("x", [32], torch.float32, torch.randn),
        TensorSpec("y", [32], torch.float32),
    ]

    def golden(values):
        values["y"][:] = values["x"] + values["n"]

    assert run(kernel, specs, golden, config=FEW).passed
    validated, *dispatches = seen
    assert validated == 10
    assert dispatches == [10 + 3 * i for i in range(15)]


def test_what_a_kernel_can_reach_is_known_before_it_ran():
    """Weights in a closure are dropped from the caches too; an answer kept since is no input."""
    weights, answers = torch.randn(8), {}

    def kernel(x, y):
        answers[0] = x * weights
        y.copy_(answers[0])

    calls = Calls.wanted(True, kernel)
    kernel(torch.randn(8), torch.empty(8))
    assert [tensor is weights for tensor in calls.reachable] == [True]


def test_steps_that_leave_the_dtype_are_refused_before_the_first(recorded):
    def kernel(n: int, y: Out[torch.Tensor]):
        y.fill_(n)

    specs = [
        ScalarSpec("n", torch.int8, 100, compile_runtime=True, benchmark_step=3),
        TensorSpec("y", [4], torch.int32),
    ]
    result = run(kernel, specs, fill_stepped, config=FEW)
    assert "benchmark_step leaves the range" in result.error
    assert "n:" in result.error


def test_steps_and_a_timeline_exclude_each_other(recorded):
    result = run(axpy, stepped(), config={"enable_chip_swimlane": True})
    assert "incompatible with enable_chip_swimlane" in result.error
    assert "['n']" in result.error


class Folding:
    """A kernel whose compiler folds its scalars in, as upstream's does by default."""

    def compile(self, specs, config):
        return SimpleNamespace(
            directions={"y": "out"},
            dispatch=lambda n, y: y.fill_(n),
            output_dir=".",
            constants={"n": 10},
        )


def test_steps_of_a_scalar_that_is_compiled_in_are_refused(recorded):
    specs = stepped()
    assert run(Folding(), specs, fill_stepped, config=FEW).passed
    specs[0] = ScalarSpec("n", torch.int32, 10, benchmark_step=3)
    result = run(Folding(), specs, fill_stepped, config=FEW)
    assert "benchmark_step requires compile_runtime=True" in result.error
    assert "['n']" in result.error


def test_steps_of_a_saved_artifact_are_not_timed(recorded, capsys):
    def kernel(n: int, y: Out[torch.Tensor]):
        y.fill_(n)

    first = run(kernel, stepped(), fill_stepped)
    again = run(kernel, stepped(), fill_stepped, runtime_dir=first.work_dir, config=FEW)
    assert again.passed
    assert again.bench is None
    assert re.search(r"benchmark skipped: .*\['n'\]", capsys.readouterr().out)


def test_a_saved_artifact_without_steps_is_timed(recorded):
    first = run(axpy, axpy_specs(), golden_axpy)
    again = run(axpy, axpy_specs(), golden_axpy, runtime_dir=first.work_dir, config=FEW)
    assert again.bench.rounds == 12


def _only_early(calls):
    def lazy(x: torch.Tensor, y: Out[torch.Tensor]):
        calls.append(1)
        if len(calls) == 1:
            torch.add(x, 1, out=y)

    return lazy


def _wrong_later(calls):
    def wrong(x: torch.Tensor, y: Out[torch.Tensor]):
        calls.append(1)
        torch.add(x, 1 if len(calls) == 1 else 2, out=y)

    return wrong


def _skipping_seen_pointers(seen):
    def remembering(x: torch.Tensor, y: Out[torch.Tensor]):
        if x.data_ptr() not in seen:
            seen.append(x.data_ptr())
            torch.add(x, 1, out=y)

    return remembering


@pytest.mark.parametrize("make", [_only_early, _wrong_later, _skipping_seen_pointers])
def test_a_kernel_that_is_right_only_until_it_was_validated_is_not_timed(recorded, make):
    def golden(values):
        values["y"][:] = values["x"] + 1

    specs = [TensorSpec("x", [512], torch.float32, torch.randn)]
    specs += [TensorSpec("y", [512], torch.float32)]
    result = run(make([]), specs, golden, config=FEW)
    assert not result.passed
    assert result.error.startswith(
        "benchmark refused: a call after it no longer gives the golden y"
    )
    assert result.bench is None
    assert recorded.session.failures
    assert "us" not in recorded.finished()[0]["row"]


def test_a_kernel_of_random_numbers_that_its_comparator_accepts_is_timed(recorded):
    def noise(x: torch.Tensor, y: Out[torch.Tensor]):
        y.copy_(x + torch.rand(512))

    def golden(values):
        values["y"][:] = values["x"] + 0.5

    def near(actual, expected, **_):
        return bool((actual - expected).abs().max() <= 0.5001), ""

    specs = [TensorSpec("x", [512], torch.float32, torch.randn)]
    specs += [TensorSpec("y", [512], torch.float32)]
    assert run(noise, specs, golden, compare_fn={"y": near}, config=FEW).passed
