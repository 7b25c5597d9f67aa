"""What "Golden and Run" and "Golden Harness" say and no other test shows, in their own manner."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys

import pytest
import torch
from golden_kernels import accumulate, accumulate_specs, axpy, axpy_specs, golden_accumulate

import optest.golden
from optest.golden import (
    Config,
    InOut,
    Out,
    RunResult,
    ScalarSpec,
    TensorSpec,
    error_distribution,
    ratio_allclose,
    run,
)

# The four parts in their order; only the import of the harness and the kernel are ours.
FILE = """
from optest.golden import Out

EPS, D = 1e-6, 32
MODES = {"decode": (4, 1), "prefill": (2, 8)}


def rms_norm_test(x, norm_w, x_normed: Out[...]):
    wide = x.float()
    inverse = (wide.square().sum(-1, keepdim=True) / D + EPS).rsqrt()
    x_normed.copy_(wide * inverse * norm_w.float())


def golden_rms_norm(x, norm_w):
    import torch

    x, norm_w = x.float(), norm_w.float()
    inv = torch.rsqrt(x.square().mean(-1, keepdim=True) + EPS)
    return (x * inv * norm_w).to(torch.bfloat16)


def golden_rms_norm_test(tensors):
    tensors["x_normed"][:] = golden_rms_norm(tensors["x"], tensors["norm_w"])


def build_tensor_specs(B, S):
    import torch
    from optest.golden import TensorSpec

    T = B * S

    def init_x():
        return torch.randn(T, D) - 0.5

    def init_norm_w():
        return torch.randn(D) * 0.1 + 1.0

    return [
        TensorSpec("x", [T, D], torch.bfloat16, init_value=init_x),
        TensorSpec("norm_w", [D], torch.bfloat16, init_value=init_norm_w),
        TensorSpec("x_normed", [T, D], torch.bfloat16),
    ]


if __name__ == "__main__":
    import argparse

    from optest.golden import ratio_allclose, run

    parser = argparse.ArgumentParser()
    parser.add_argument("-p", "--platform", default="cpu")
    parser.add_argument("-d", "--device", type=int, default=0)
    parser.add_argument("--mode", choices=MODES, nargs="+", default=list(MODES))
    parser.add_argument("--enable-chip-swimlane", type=int, nargs="?", const=1, default=0)
    parser.add_argument("--dump-passes", action="store_true")
    parser.add_argument("--compile-only", action="store_true")
    parser.add_argument("--runtime-dir")
    parser.add_argument("--golden-data")
    parser.add_argument("--save-data", action="store_true")
    args = parser.parse_args()
    for mode_name in args.mode:
        B, S = MODES[mode_name]
        result = run(
            fn=rms_norm_test,
            specs=build_tensor_specs(B, S),
            golden_fn=golden_rms_norm_test,
            runtime_dir=args.runtime_dir,
            golden_data=args.golden_data,
            config=dict(
                platform=args.platform,
                device_id=args.device,
                enable_chip_swimlane=args.enable_chip_swimlane,
                dump_passes=args.dump_passes,
            ),
            rtol=5e-3,
            atol=5e-3,
            compare_fn={"x_normed": ratio_allclose(atol=1e-4, rtol=1.0 / 128)},
            compile_only=args.compile_only,
            save_data=args.save_data,
        )
        if not result.passed:
            if result.error:
                print(result.error)
            raise SystemExit(1)
"""


@pytest.fixture
def kernel_file(tmp_path):
    """Runs the document's file, with a line of it changed or not."""

    def call(*words, old="", new=""):
        assert old in FILE
        path = tmp_path / "kernel.py"
        path.write_text(FILE.replace(old, new) if old else FILE)
        return subprocess.run(
            [sys.executable, str(path), *words], cwd=tmp_path, capture_output=True, text=True
        )

    return call


def folder_in(done):
    return re.search(r"work_dir: (\S+)", done.stdout)[1]


def test_the_file_of_the_document_runs_with_its_import_changed(kernel_file):
    done = kernel_file()
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(re.findall(r"^\[RUN\] PASS", done.stdout, re.MULTILINE)) == 2
    assert "2 cases: 2 passed" in done.stderr


def test_it_exits_1_with_the_mismatch_where_its_kernel_is_wrong(kernel_file):
    done = kernel_file(old="wide * inverse * norm_w.float()", new="wide * inverse")
    assert done.returncode == 1
    assert "Output(s) does not match golden: ['x_normed']" in done.stdout


def test_a_distribution_that_is_not_realistic_proves_little(kernel_file):
    """Without its mean the kernel is right on N(0, 1) only: the closure's values must arrive."""
    layer_norm = {"old": "inverse = (wide", "new": "inverse = ((wide - wide.mean(-1, True))"}
    assert kernel_file(**layer_norm).returncode == 1


def test_compiling_only_needs_no_device_and_dispatches_nothing(kernel_file):
    done = kernel_file(
        "--compile-only", "-p", "gfx942", old="    wide = x.float()", new="    raise SystemExit(9)"
    )
    assert done.returncode == 0, done.stderr
    assert "runtime" not in done.stdout


def test_a_timeline_is_captured_on_request(kernel_file, tmp_path):
    done = kernel_file("--mode", "decode", "--enable-chip-swimlane", "4")
    assert done.returncode == 0, done.stderr
    assert list((tmp_path / folder_in(done) / "timeline").glob("*.json"))


def test_a_build_is_run_again_and_the_reference_frozen_and_replayed(kernel_file):
    first = kernel_file("--mode", "decode", "--save-data")
    folder = folder_in(first)
    again = kernel_file("--mode", "decode", "--runtime-dir", folder)
    assert again.returncode == 0, again.stdout
    assert "[RUN] compile" not in again.stdout
    changed = {"old": "wide * inverse * norm_w.float()", "new": "wide * inverse"}
    replayed = kernel_file("--mode", "decode", "--golden-data", f"{folder}/data", **changed)
    assert replayed.returncode == 1
    assert "does not match golden" in replayed.stdout


def test_the_kernel_half_is_imported_without_torch(kernel_file, tmp_path):
    kernel_file("--help")
    code = "import sys, kernel; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=tmp_path).returncode == 0


def test_a_card_that_is_not_here_is_said_and_its_simulator_is_the_cpu(kernel_file):
    done = kernel_file("-p", "a2a3", "-d", "0")
    assert done.returncode == 1
    assert "platform 'a2a3' is not on this machine" in done.stdout
    assert kernel_file("-p", "a2a3sim", "--mode", "decode").returncode == 0


def test_the_entry_points_are_exported():
    names = (
        "TensorSpec ScalarSpec run RunResult validate_golden ratio_allclose ratio_reldiff "
        "mapped_pool_ratio_allclose mapped_pool_ratio_reldiff topk_pair_compare error_distribution"
    ).split()
    from optest.golden import spec, validation

    assert set(names) <= set(optest.golden.__all__)
    assert spec.TensorSpec is TensorSpec
    for name in names[4:]:
        assert getattr(validation, name) is getattr(optest.golden, name)


def wrong_total(x, total, y):
    golden_accumulate({"x": x, "total": total, "y": y})
    total[3] += 1


def wrong_y(x, total, y):
    golden_accumulate({"x": x, "total": total, "y": y})
    y[3] += 1


@pytest.mark.parametrize(("wrong", "name"), [(wrong_total, "total"), (wrong_y, "y")])
def test_every_out_and_inout_is_validated_against_its_own_golden(recorded, wrong, name):
    def kernel(x: torch.Tensor, total: InOut[torch.Tensor], y: Out[torch.Tensor]):
        wrong(x, total, y)

    result = run(kernel, accumulate_specs(), golden_accumulate)
    assert not result.passed
    assert f"does not match golden: ['{name}']" in result.error


def test_a_comparator_overrides_the_default_for_its_output_alone(recorded):
    def one_off(values):
        golden_accumulate(values)
        values["y"][0] += 1
        values["total"][0] += 1

    lenient = ratio_allclose(max_error_ratio=0.2)
    result = run(accumulate, accumulate_specs(), one_off, compare_fn={"y": lenient})
    assert "does not match golden: ['total']" in result.error
    both = {"y": lenient, "total": lenient}
    assert run(accumulate, accumulate_specs(), one_off, compare_fn=both).passed


def test_the_example_of_the_document_adds_a_number(recorded):
    """``values["a"]`` is what the kernel gets: a tensor would have another dtype in the sum."""
    seen = []

    def hello_world(x, a, y: Out[...]):
        seen.append(type(a))
        y.copy_(x + a)

    def golden_hello_world(values):
        seen.append(type(values["a"]))
        values["y"][:] = values["x"] + values["a"]

    specs = [
        TensorSpec("x", [8], torch.float32, torch.randn),
        ScalarSpec("a", torch.float32, 2.0),
        TensorSpec("y", [8], torch.float32),
    ]
    assert run(fn=hello_world, specs=specs, golden_fn=golden_hello_world).passed
    assert seen == [float, float]


def test_a_measurement_passes_whatever_it_measures(recorded, capsys):
    def wrong(values):
        values["y"][:] = values["a"] * values["x"] + 1

    result = run(axpy, axpy_specs(), wrong, compare_fn={"y": error_distribution()})
    assert result.passed
    assert "cos" in capsys.readouterr().out.lower()


def half(x: torch.Tensor, y: Out[torch.Tensor]):
    y[:2] = x[:2]


def half_in_place(x: torch.Tensor, y: InOut[torch.Tensor]):
    y[:2] = x[:2]


def golden_zeros(values):
    values["y"][:2] = values["x"][:2]
    values["y"][2:] = 0


def golden_nan(values):
    golden_zeros(values)
    values["y"][2:] = float("nan")


# What the document offers for a region that the kernel does not write, and the assertion of
# zeros there that it warns of.
REGIONS = {
    "zeros that nobody promised": (half, golden_zeros, {}, False),
    "nan without ignore_nan": (half, golden_nan, {}, False),
    "nan in the golden": (half, golden_nan, {"ignore_nan": True}, True),
    "valid rows": (half, golden_zeros, {"valid_rows": 2}, True),
    "one row too many": (half, golden_zeros, {"valid_rows": 3, "max_error_ratio": 0}, False),
    "an InOut of zeros": (half_in_place, golden_zeros, {}, True),
}


@pytest.mark.parametrize("name", REGIONS)
def test_a_region_that_the_kernel_does_not_write(recorded, name):
    kernel, golden, options, passes = REGIONS[name]
    specs = [
        TensorSpec("x", [4, 8], torch.float32, torch.randn),
        TensorSpec("y", [4, 8], torch.float32),
    ]
    result = run(kernel, specs, golden, compare_fn={"y": ratio_allclose(**options)})
    assert result.passed is passes, result.error


def test_a_result_has_the_documented_fields(recorded):
    config = {"bench": {"rounds": 10, "warmup": 1}}
    result = run(axpy, axpy_specs(), lambda v: v["y"].copy_(v["a"] * v["x"]), config=config)
    names = ["passed", "error", "execution_time", "work_dir", "bench"]
    assert [field.name for field in dataclasses.fields(RunResult)] == names
    assert result.passed is True
    assert result.error is None
    assert result.execution_time > 0
    assert result.work_dir.is_dir()
    assert result.bench.rounds == 10


def test_a_ready_config_is_reused_with_a_change(recorded):
    seen = []

    def golden(values):
        seen.append(values["x"].clone())
        values["y"][:] = values["a"] * values["x"]

    ready = Config(seed=3)
    for config in (ready, ready, dataclasses.replace(ready, seed=4)):
        assert run(axpy, axpy_specs(), golden, config=config).passed
    assert torch.equal(seen[0], seen[1])
    assert not torch.equal(seen[0], seen[2])


def test_a_replay_of_an_artifact_is_benchmarked_like_a_fresh_one(recorded, monkeypatch):
    monkeypatch.setenv("PYPTO_BENCH", "1")
    monkeypatch.setenv("PYPTO_BENCH_ROUNDS", "10")
    first = run(axpy, axpy_specs())
    again = run(axpy, axpy_specs(), runtime_dir=first.work_dir)
    assert (first.bench.rounds, again.bench.rounds) == (10, 10)


def scale_specs(**scalars):
    return [
        TensorSpec("x", [16], torch.float32, torch.randn),
        TensorSpec("y", [16], torch.float32),
        *(ScalarSpec(name, torch.int32, *given) for name, given in scalars.items()),
    ]


def test_a_marked_scalar_is_passed_to_each_dispatch_and_others_may_be_compiled_in(recorded):
    """``n`` is an argument of the Triton kernel, ``FACTOR`` a constexpr; none is annotated."""
    kernels = pytest.importorskip("golden_triton_kernels")
    fn = optest.golden.TritonKernel(kernels.scale_kernel, (1,), {"BLOCK": 16})

    def golden(values):
        values["y"][: values["n"]] = values["x"][: values["n"]] * values["FACTOR"]
        values["y"][values["n"] :] = float("nan")

    compare_fn = {"y": ratio_allclose(ignore_nan=True)}
    first = run(fn, scale_specs(n=(9, True), FACTOR=(3,)), golden, compare_fn=compare_fn)
    assert first.passed, first.error
    saved = {"golden_fn": golden, "compare_fn": compare_fn, "runtime_dir": first.work_dir}
    other_n = run(fn, scale_specs(n=(12, True), FACTOR=(3,)), **saved)
    assert other_n.passed, other_n.error
    other_factor = run(fn, scale_specs(n=(9, True), FACTOR=(4,)), **saved)
    assert "compiled with" in other_factor.error
    marked_later = run(fn, scale_specs(n=(9, True), FACTOR=(3, True)), **saved)
    assert "FACTOR: compile_runtime=True, but" in marked_later.error
