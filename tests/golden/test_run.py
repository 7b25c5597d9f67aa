"""``run``: its stages, what comes back in the result, what the session is told."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
import textwrap

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

from optest import expect_failure
from optest.golden import (
    In,
    InOut,
    Out,
    RunResult,
    ScalarSpec,
    TensorSpec,
    ratio_allclose,
    run,
)
from optest.log import logger


def lines(capsys):
    return [re.sub(r"[0-9.]+s", "_s", line) for line in capsys.readouterr().out.splitlines()]


def test_the_stages_print_in_the_documented_order(recorded, capsys):
    assert run(axpy, axpy_specs(), golden_axpy).passed
    said = [line for line in lines(capsys) if not line.startswith("[RUN]   ")]
    stages = ["compile", "generate inputs", "compute golden", "runtime", "validate"]
    wanted = [f"[RUN] {name} {end}" for name in stages for end in ("...", "done (_s)")]
    assert said == [*wanted, "[RUN] PASS (_s)"]


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (RunResult(passed=True, execution_time=1.234), "PASS (1.23s)"),
        (RunResult(passed=True), "PASS"),
        (RunResult(passed=False, error="msg", execution_time=0.5), "FAIL: msg (0.50s)"),
        (RunResult(passed=False), "FAIL"),
    ],
)
def test_a_result_reads_as_upstreams(result, text):
    assert str(result) == text


def test_golden_runs_before_the_kernel_on_clones(recorded):
    order = []

    def kernel(x: torch.Tensor, y: Out[torch.Tensor]):
        order.append("kernel")
        y.copy_(x)

    def golden(values):
        order.append("golden")
        assert not values["y"].any()
        values["y"][:] = values["x"]
        values["x"].zero_()  # its own clone: the kernel must still see the values

    specs = [
        TensorSpec("x", [8], torch.float32, torch.randn),
        TensorSpec("y", [8], torch.float32),
    ]
    assert run(kernel, specs, golden).passed
    assert order == ["golden", "kernel"]


def test_inout_starts_from_its_init_value_on_both_sides(recorded):
    assert run(accumulate, accumulate_specs(), golden_accumulate).passed


def test_an_init_value_of_a_pure_output_reaches_the_golden_function_only(recorded):
    seen = {}

    def kernel(x: torch.Tensor, y: Out[torch.Tensor]):
        seen["kernel"] = y.clone()
        y.copy_(x)

    def golden(values):
        seen["golden"] = values["y"].clone()
        values["y"][:] = values["x"]

    specs = [TensorSpec("x", [4], torch.float32), TensorSpec("y", [4], torch.float32, 3.0)]
    assert run(kernel, specs, golden).passed
    assert (seen["golden"] == 3.0).all()
    assert not (seen["kernel"] == 3.0).any()


def test_golden_may_put_a_tensor_in_place_of_filling_one(recorded):
    def golden(values):
        values["y"] = values["a"] * values["x"]

    assert run(axpy, axpy_specs(), golden).passed


@pytest.mark.parametrize("put", [None, torch.zeros(3), torch.zeros(4, 8, dtype=torch.int32)])
def test_what_golden_puts_must_fit_the_spec(recorded, put):
    def golden(values):
        values["y"] = put

    result = run(axpy, axpy_specs(), golden)
    assert not result.passed
    assert "y" in result.error
    assert "golden_fn" in result.error


def broken(a: float, x: torch.Tensor, y: Out[torch.Tensor]):
    y.copy_(a * x)
    y[1, 2] += 1


def test_a_mismatch_comes_back_in_upstreams_words(recorded):
    result = run(broken, axpy_specs(), golden_axpy)
    assert not result.passed
    assert "Output(s) does not match golden: ['y']" in result.error
    assert "Mismatched elements: 1/32  rtol=1e-05 atol=1e-05" in result.error
    assert re.search(r"\[1, 2\] actual=\S+ expected=\S+", result.error)
    (failure,) = recorded.session.failures
    assert failure.status == "failed"
    assert failure.case_id.startswith("test_run.py::broken[a=2.0-x=4x8:fp32-y=4x8:fp32]")


def unfinished(a: float, x: torch.Tensor, y: Out[torch.Tensor]):
    y[:3].copy_(a * x[:3])


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.int8, torch.uint8, torch.int64, torch.bool]
)
@pytest.mark.parametrize("fill", [0, 1, 127, -1])
def test_what_the_kernel_leaves_unwritten_never_matches(recorded, dtype, fill):
    """Zeros on the device would match a golden of zeros; one poison matches one value."""

    def kernel(x: torch.Tensor, y: Out[torch.Tensor]):
        y[:3].copy_(x[:3])

    value = bool(fill) if dtype == torch.bool else fill % 256 if dtype == torch.uint8 else fill

    def golden(values):
        values["y"].fill_(value)

    specs = [TensorSpec("x", [4, 2], dtype, value), TensorSpec("y", [4, 2], dtype)]
    result = run(kernel, specs, golden)
    assert not result.passed
    assert "did not write 2 elements" in result.error


def test_an_unwritten_scale_is_seen_although_every_scale_is_near_zero(recorded):
    # Powers of two below atol: whatever finite one stood there would be near enough.
    tiny = 2.0**-100

    def kernel(y: Out[torch.Tensor]):
        y[:3].fill_(tiny)

    def golden(values):
        values["y"].fill_(tiny)

    result = run(kernel, [TensorSpec("y", [4], torch.float8_e8m0fnu)], golden)
    assert not result.passed
    assert "did not write 1 elements" in result.error


def test_a_second_look_at_what_is_unwritten_starts_from_the_same_state(recorded):
    """Else a kernel that adds to a tensor would have added twice."""

    def kernel(x: torch.Tensor, total: InOut[torch.Tensor], y: Out[torch.Tensor]):
        total += x
        y[1:].copy_(total[1:] * 2)

    result = run(kernel, accumulate_specs(), golden_accumulate)
    assert "does not match golden: ['y']" in result.error
    assert "did not write 1 elements" in result.error


def test_poison_that_is_the_right_answer_is_no_fault(recorded):
    def kernel(y: Out[torch.Tensor]):
        y.fill_(127)

    def golden(values):
        values["y"].fill_(127)

    assert run(kernel, [TensorSpec("y", [16], torch.int8)], golden).passed


def test_a_kernel_that_changes_an_input_fails_by_name(recorded):
    def kernel(x: torch.Tensor, w: torch.Tensor, y: Out[torch.Tensor]):
        y.copy_(x + w)
        w.zero_()

    def golden(values):
        values["y"][:] = values["x"] + values["w"]

    specs = [TensorSpec(n, [4], torch.float32, torch.randn) for n in ("x", "w")]
    result = run(kernel, [*specs, TensorSpec("y", [4], torch.float32)], golden)
    assert result.error == "the kernel changed its inputs: w"
    assert recorded.session.failures


@pytest.mark.parametrize("how", ["set_", "resize_", "data"])
def test_a_kernel_that_puts_other_memory_in_place_of_an_output_fails(recorded, how):
    # Its caller's memory stays unwritten, whatever the tensor object says.
    def kernel(x: torch.Tensor, y: Out[torch.Tensor]):
        if how == "set_":
            y.set_(x)
        elif how == "data":
            y.data = x.clone()
        else:
            y.resize_(4096).resize_(64).copy_(x)

    def golden(values):
        values["y"][:] = values["x"]

    specs = [TensorSpec("x", [64], torch.float32, torch.randn)]
    specs += [TensorSpec("y", [64], torch.float32)]
    result = run(kernel, specs, golden)
    assert not result.passed
    assert "other memory in place of y" in result.error


def test_a_kernel_that_replaces_torchs_comparisons_is_wrong_all_the_same(recorded, monkeypatch):
    def kernel(x: torch.Tensor, y: Out[torch.Tensor]):
        monkeypatch.setattr(torch, "allclose", lambda *_, **__: True)
        monkeypatch.setattr(torch, "equal", lambda *_, **__: True)
        y.zero_()

    def golden(values):
        values["y"][:] = values["x"]

    specs = [TensorSpec("x", [64], torch.float32, torch.randn)]
    specs += [TensorSpec("y", [64], torch.float32)]
    result = run(kernel, specs, golden)
    monkeypatch.undo()
    assert not result.passed


def test_an_output_that_golden_does_not_fill_is_said(recorded, caplog):
    logger.addHandler(caplog.handler)
    try:
        result = run(axpy, axpy_specs(), lambda values: None)
    finally:
        logger.removeHandler(caplog.handler)
    assert "golden_fn did not fill the output y" in caplog.text
    assert "golden_fn did not fill it" in result.error


def test_writes_through_numpy_count_as_filling(recorded, caplog):
    def golden(values):
        values["y"].numpy()[:] = (values["a"] * values["x"]).numpy()

    logger.addHandler(caplog.handler)
    try:
        assert run(axpy, axpy_specs(), golden).passed
    finally:
        logger.removeHandler(caplog.handler)
    assert "did not fill" not in caplog.text


def test_an_output_that_the_kernel_never_writes_is_no_input_that_passes(recorded):
    """Its direction is then In, by observation, and nothing would compare it."""

    def kernel(x, y, z):
        y.copy_(x)

    def golden(values):
        values["y"][:] = values["x"]
        values["z"][:] = values["x"] + 1

    specs = [
        TensorSpec("x", [8], torch.float32, torch.randn),
        TensorSpec("y", [8], torch.float32),
        TensorSpec("z", [8], torch.float32),
    ]
    result = run(kernel, specs, golden)
    assert result.error.startswith("golden_fn fills z, and the kernel does not write it")
    assert recorded.session.failures[0].status == "failed"


def test_an_input_without_values_that_golden_fills_is_an_output_in_its_eyes(recorded):
    """A Triton kernel that lost its store declares such an input, as this one does."""

    def kernel(x: torch.Tensor, y: Out[torch.Tensor], z: torch.Tensor):
        y.copy_(x)

    def golden(values):
        values["y"][:] = values["x"]
        values["z"][:] = values["x"] + 1

    specs = [TensorSpec("x", [8], torch.float32, torch.randn)]
    specs += [TensorSpec(name, [8], torch.float32) for name in "yz"]
    assert run(kernel, specs, golden).error.startswith("golden_fn fills z")


class _Kernel:
    """Has no parameters of its own to hold specs against."""


FAULTS = {
    "runtime_dir with compile_only": (
        {"compile_only": True, "runtime_dir": "there"},
        "runtime_dir is incompatible with compile_only",
    ),
    "runtime_dir missing": ({"runtime_dir": "nowhere"}, "runtime_dir does not exist: nowhere"),
    "duplicate names": (
        {"specs": [*axpy_specs(), TensorSpec("x", [1], torch.int8)]},
        "duplicate spec names: ['x']",
    ),
    "no specs": ({"specs": None}, "specs is a NoneType: expected a list"),
    "one spec": ({"specs": TensorSpec("x", [1], torch.int8)}, "specs is a TensorSpec"),
    "no dict of comparators": ({"compare_fn": ratio_allclose()}, "expected a dict of comparators"),
    "a comparator not made": ({"compare_fn": {"y": ratio_allclose}}, "as ratio_allclose()"),
    "no path": ({"golden_data": 3}, "golden_data=3: expected a folder's path"),
    "no path either": ({"runtime_dir": b"x"}, "runtime_dir=b'x': expected a folder's path"),
    "no spec": ({"specs": [torch.zeros(3)]}, "specs[0] is a Tensor"),
    "abi": ({"specs": axpy_specs()[::-1]}, "compiled parameter ABI mismatch"),
    "comparator for nobody": ({"compare_fn": {"z": print}}, "'z'"),
    "comparator for an input": ({"compare_fn": {"x": print}}, "names no output"),
    "no comparator": ({"compare_fn": {"y": 1e-3}}, "expected a comparator"),
    "golden_fn": ({"golden_fn": 3}, "golden_fn is a int"),
    "golden_data missing": ({"golden_data": "nowhere"}, "golden_data does not exist: nowhere"),
    "no name of a folder": ({"golden_data": "x" * 300}, "golden_data does not exist"),
    "nor of an artifact's": ({"runtime_dir": "x" * 300}, "runtime_dir does not exist"),
    "platform": ({"config": {"platform": "gfx942x"}}, "platform 'gfx942x' is not on this machine"),
    "ascend": ({"config": {"platform": "a2a3"}}, "platform 'a2a3' is not on this machine"),
    "tolerance": ({"rtol": -1}, "rtol=-1"),
    "config value": ({"config": {"device_id": -1}}, "device_id=-1"),
    "kernel": ({"fn": _Kernel()}, "fn is a _Kernel"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_set_up_comes_back_in_the_result_and_fails_the_process(recorded, name):
    changes, words = FAULTS[name]
    result = run(**{"fn": axpy, "specs": axpy_specs(), "golden_fn": golden_axpy, **changes})
    assert not result.passed
    assert words in result.error
    (failure,) = recorded.session.failures
    assert failure.status == "error"


@pytest.mark.parametrize("kind", [RuntimeError, ValueError, AssertionError, KeyError])
@pytest.mark.parametrize("where", ["golden", "kernel"])
def test_exceptions_of_golden_and_kernel_propagate_and_are_noted(recorded, kind, where):
    def fail(*_args):
        raise kind("mine")

    def kernel(a: float, x: torch.Tensor, y: Out[torch.Tensor]):
        fail()

    changes = {"golden_fn": fail} if where == "golden" else {"fn": kernel}
    with pytest.raises(kind, match="mine"):
        run(**{"fn": axpy, "specs": axpy_specs(), "golden_fn": golden_axpy, **changes})
    assert [failure.status for failure in recorded.session.failures] == ["error"]
    assert "mine" in recorded.session.failures[0].reason


@pytest.mark.parametrize("kind", [RuntimeError, ValueError])
def test_exceptions_propagate_also_of_a_kernel_that_is_observed_first(recorded, kind):
    def kernel(a, x, y):
        raise kind("mine")

    with pytest.raises(kind, match="mine"):
        run(kernel, axpy_specs(), golden_axpy)
    assert "mine" in recorded.session.failures[0].reason


def test_an_unknown_config_key_is_a_type_error(recorded):
    with pytest.raises(TypeError, match=r"'platfrom': did you mean 'platform'"):
        run(axpy, axpy_specs(), golden_axpy, config={"platfrom": "cpu"})


def test_a_run_without_golden_says_so_and_counts_as_no_check(recorded, capsys):
    assert run(axpy, axpy_specs()).passed
    last = lines(capsys)[-1]
    assert last == "[RUN] PASS (_s, validation skipped: no golden_fn or golden_data)"
    assert recorded.session.totals == {"empty": 1}
    (finished,) = recorded.finished()
    assert finished["status"] == "empty"
    assert finished["checks"] == []


def test_a_run_is_one_case_of_the_session(recorded):
    run(axpy, axpy_specs(), golden_axpy)
    started, finished = recorded.events
    assert started["event"] == "started"
    assert started["id"] == "test_run.py::axpy[a=2.0-x=4x8:fp32-y=4x8:fp32]"
    assert started["seed"] > 0
    assert finished["status"] == "passed"
    assert len(finished["checks"]) == 1
    assert recorded.session.totals == {"passed": 1}


def test_expected_failures_fail_nothing(recorded):
    with expect_failure():
        assert not run(broken, axpy_specs(), golden_axpy).passed
    assert not recorded.session.failures


@pytest.mark.parametrize("marked", [True, False])
def test_a_result_that_does_not_fit_its_spec_is_a_failed_check(recorded, marked):
    def observed(x):
        return x[:2]

    def declared(x: In[torch.Tensor]):
        return x[:2]

    specs = [
        TensorSpec("x", [4], torch.float32, torch.randn),
        TensorSpec("y", [4], torch.float32),
    ]
    with expect_failure():
        result = run(declared if marked else observed, specs, lambda values: None)
    assert "returned" in result.error
    assert not recorded.session.failures


def test_a_fault_of_set_up_is_no_expected_failure(recorded):
    with expect_failure():
        run(broken, axpy_specs(), golden_axpy)
        run(axpy, axpy_specs()[::-1], golden_axpy)
    assert [failure.status for failure in recorded.session.failures] == ["error"]


def test_comparators_get_all_outputs_and_the_pure_inputs(recorded):
    seen = {}

    def mine(actual, expected, **given):
        seen.update(given)
        return torch.equal(actual, expected), "detail"

    assert run(accumulate, accumulate_specs(), golden_accumulate, compare_fn={"y": mine}).passed
    assert set(seen["actual_outputs"]) == set(seen["expected_outputs"]) == {"total", "y"}
    assert set(seen["inputs"]) == {"x"}
    assert (seen["rtol"], seen["atol"]) == (1e-5, 1e-5)

    run(axpy, axpy_specs(3.0), golden_axpy, compare_fn={"y": mine})
    assert seen["inputs"]["a"] == torch.tensor(3.0)
    assert seen["inputs"]["a"].dim() == 0


def test_a_comparators_no_is_a_mismatch_with_its_words(recorded):
    def never(*_args, **_options):
        return False, "because"

    result = run(axpy, axpy_specs(), golden_axpy, compare_fn={"y": never})
    assert "never: because" in result.error
    assert recorded.session.failures[0].status == "failed"


def test_a_comparator_that_answers_otherwise_is_a_type_error(recorded):
    with pytest.raises(TypeError, match="returned None for y"):
        run(axpy, axpy_specs(), golden_axpy, compare_fn={"y": lambda *a, **k: None})


@pytest.mark.parametrize(
    ("dtype", "off", "atol", "passes"),
    [
        (torch.float32, 9e-6, 1e-5, True),
        (torch.float32, 3e-5, 1e-5, False),
        (torch.int32, 1, 1e-5, False),  # torch.allclose allows it: rtol times a large index
        (torch.int64, 1, 1e-5, False),
        (torch.int8, 1, 1.0, True),
        (torch.int8, 2, 1.0, False),
        (torch.bool, 1, 1.0, False),
    ],
)
def test_the_default_comparison_knows_the_dtype(recorded, dtype, off, atol, passes):
    base = {torch.bool: 0, torch.int8: 5}.get(dtype, 1 if dtype.is_floating_point else 2**20)

    def kernel(y: Out[torch.Tensor]):
        y.fill_(base)
        y[3] = base + off

    def golden(values):
        values["y"].fill_(base)

    result = run(kernel, [TensorSpec("y", [8], dtype)], golden, rtol=1e-5, atol=atol)
    assert result.passed is passes


def test_nan_equals_nothing_by_default(recorded):
    def kernel(y: Out[torch.Tensor]):
        y.fill_(float("nan"))

    def golden(values):
        values["y"].fill_(float("nan"))

    assert not run(kernel, [TensorSpec("y", [8], torch.float32)], golden).passed


def test_outputs_that_atol_swallows_pass_as_with_torch_and_are_warned_about(recorded, caplog):
    def kernel(y: Out[torch.Tensor]):
        y.fill_(0)

    def golden(values):
        values["y"].fill_(8e-6)

    logger.addHandler(caplog.handler)
    try:
        result = run(kernel, [TensorSpec("y", [8], torch.float32)], golden)
    finally:
        logger.removeHandler(caplog.handler)
    assert result.passed
    assert "atol" in caplog.text


@pytest.mark.parametrize("fails", [False, True])
def test_the_log_level_holds_for_the_run_and_is_given_back(recorded, fails):
    before, seen = logger.level, []

    def golden(values):
        seen.append(logger.level)
        if fails:
            raise RuntimeError("mine")
        golden_axpy(values)

    config = {"log_level": "error"}
    if fails:
        with pytest.raises(RuntimeError):
            run(axpy, axpy_specs(), golden, config=config)
    else:
        assert run(axpy, axpy_specs(), golden, config=config).passed
    assert seen == [logging.ERROR]
    assert logger.level == before


def test_each_run_has_a_work_folder_of_its_own(recorded):
    folders = [run(axpy, axpy_specs(), golden_axpy).work_dir for _ in range(3)]
    assert len(set(folders)) == 3
    assert all((folder / "artifact.json").is_file() for folder in folders)


def test_a_saved_artifact_runs_again_and_is_refused_where_it_no_longer_fits(recorded, capsys):
    first = run(axpy, axpy_specs(), golden_axpy)
    again = run(axpy, axpy_specs(), golden_axpy, runtime_dir=first.work_dir)
    assert again.passed
    assert again.work_dir == first.work_dir
    assert "[RUN] runtime_only: skipping compile, using" in capsys.readouterr().out
    other = run(axpy, axpy_specs(shape=(2, 2)), golden_axpy, runtime_dir=first.work_dir)
    assert "ABI mismatch" in other.error
    assert "x: shape [2, 2], compiled for [4, 8]" in other.error


def test_compile_only_runs_nothing(recorded):
    def never(*_args):
        raise AssertionError("ran")

    def kernel(x: torch.Tensor, y: Out[torch.Tensor]):
        never()

    specs = [TensorSpec("x", [2], torch.float32, never), TensorSpec("y", [2], torch.float32)]
    result = run(kernel, specs, never, compile_only=True, config={"platform": "gfx942"})
    assert result.passed
    assert recorded.session.totals == {"empty": 1}


def test_what_the_list_leaves_out_is_not_run(recorded):
    recorded.session.only = frozenset({"another"})
    assert run(broken, axpy_specs(), golden_axpy).passed
    assert not recorded.session.ran
    assert recorded.session.filtered == 1


def test_collect_mode_runs_nothing(recorded):
    recorded.session.mode = "collect"
    assert run(broken, axpy_specs(), golden_axpy).passed
    assert [each.id for each in recorded.session.collected] == [recorded.events[0]["id"]]
    assert not recorded.session.ran


def test_the_same_run_has_the_same_inputs_and_a_seed_of_ones_own_is_used(recorded):
    seen = []

    def golden(values):
        seen.append(values["x"].clone())
        golden_axpy(values)

    run(axpy, axpy_specs(), golden)
    torch.randn(3)
    run(axpy, axpy_specs(), golden)
    run(axpy, axpy_specs(), golden, config={"seed": 7})
    recorded.session.seed = 1
    run(axpy, axpy_specs(), golden)
    assert torch.equal(seen[0], seen[1])
    torch.manual_seed(7)
    assert torch.equal(seen[2], torch.randn(4, 8))
    assert not torch.equal(seen[0], seen[3])


def test_a_timeline_is_written_on_request(recorded):
    result = run(axpy, axpy_specs(), golden_axpy, config={"enable_chip_swimlane": 2})
    (trace,) = (result.work_dir / "timeline").glob("*.json")
    assert "traceEvents" in trace.read_text()


def test_the_tensors_of_a_failing_run_are_kept_on_request(recorded, monkeypatch, tmp_path):
    monkeypatch.setenv("OPTEST_SAVE_FAILED", str(tmp_path / "kept"))
    run(broken, axpy_specs(), golden_axpy)
    kept = sorted(path.name for path in (tmp_path / "kept").rglob("*.safetensors"))
    assert kept == ["inputs.safetensors", "y.safetensors"]


def test_dumping_passes_of_what_is_not_compiled_is_noted(recorded, caplog):
    logger.addHandler(caplog.handler)
    try:
        assert run(axpy, axpy_specs(), golden_axpy, config={"dump_passes": True}).passed
    finally:
        logger.removeHandler(caplog.handler)
    assert "dump_passes: nothing is compiled" in caplog.text or torch.cuda.is_available()


def test_with_guards_off_outputs_are_zeros(recorded):
    recorded.session.guards = "off"
    assert run(lambda y: None, [TensorSpec("y", [4], torch.int8)]).error is not None
    seen = {}

    def kernel(y: Out[torch.Tensor]):
        seen["y"] = y.clone()
        y.fill_(1)

    assert run(kernel, [TensorSpec("y", [4], torch.int8)]).passed
    assert not seen["y"].any()


SCRIPT = """
    import torch
    from optest.golden import Out, TensorSpec, run

    def kernel(x: torch.Tensor, y: Out[torch.Tensor]):
        y.copy_(x + {off})

    def golden(values):
        values["y"][:] = values["x"]

    specs = [TensorSpec(n, [4], torch.float32) for n in "xy"]
    run(kernel, specs, golden{more})
"""


@pytest.mark.parametrize(
    ("off", "more", "code"),
    [(0, "", 0), (1, "", 1), (0, ", runtime_dir='nowhere'", 1)],
)
def test_the_exit_code_is_the_sessions_even_where_the_script_ignores_the_result(
    tmp_path, off, more, code
):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT.format(off=off, more=more)))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    assert "optest: 1 case" in done.stderr


@pytest.mark.parametrize("end", ["os._exit(0)", "atexit.register(os._exit, 0)"])
def test_a_process_that_leaves_early_does_not_end_well_either(tmp_path, end):
    script = tmp_path / "script.py"
    source = textwrap.dedent(SCRIPT.format(off=1, more=""))
    script.write_text(f"import atexit, os\n{source}\n{end}\n")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert "optest: 1 case: 1 failed" in done.stderr


def test_importing_changes_nothing_and_imports_no_torch():
    code = "import sys, optest.golden; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_scalars_reach_the_kernel_as_numbers_of_their_dtype(recorded):
    seen = []

    def kernel(n: int, eps: float, flag: bool, y: Out[torch.Tensor]):
        seen.append((n, eps, flag))
        y.fill_(n)

    specs = [
        ScalarSpec("n", torch.int32, 3),
        ScalarSpec("eps", torch.float32, 0.1),
        ScalarSpec("flag", torch.bool, value=True),
        TensorSpec("y", [2], torch.float32),
    ]
    assert run(kernel, specs, lambda values: values["y"].fill_(values["n"])).passed
    assert seen[0] == (3, torch.tensor(0.1).item(), True)
