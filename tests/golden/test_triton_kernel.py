"""Triton kernels with their grid: interpreted here, and compiled for GPUs that are not here."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import torch

tl = pytest.importorskip("triton.language")

import golden_triton_kernels as kernels  # noqa: E402

from optest.errors import BuildError, UsageError  # noqa: E402
from optest.golden import abi, triton_lowered  # noqa: E402
from optest.golden.config import Config  # noqa: E402
from optest.golden.kernel import compile_kernel, load_artifact  # noqa: E402
from optest.golden.scalar import ScalarSpec  # noqa: E402
from optest.golden.spec import TensorSpec  # noqa: E402
from optest.golden.triton_kernel import TritonKernel  # noqa: E402
from optest.native.triton_aot import TARGETS  # noqa: E402
from optest.ops.triton import norm, quant  # noqa: E402

N = 64


def tensor(name, init=None, shape=(N,), dtype=torch.float32):
    return TensorSpec(name, shape, dtype, init_value=init)


def number(name, value, dtype=torch.int32, **more):
    return ScalarSpec(name, dtype, value, **more)


def scale_specs(**constants):
    given = [number(name, value) for name, value in constants.items()]
    return [tensor("x", torch.randn), tensor("y"), number("n", N), *given]


def compiled(fn, specs, tmp_path, **config):
    return compile_kernel(fn, specs, Config(**config), tmp_path)


def run(fn, specs, tmp_path):
    artifact = compiled(fn, specs, tmp_path)
    abi.stamp(artifact, specs)
    values = [s.create_tensor() if isinstance(s, TensorSpec) else s.to_python() for s in specs]
    artifact.dispatch(*values)
    return dict(artifact.directions), {s.name: v for s, v in zip(specs, values, strict=True)}


FOUR = {"FACTOR": 3, "BLOCK": 16}


@pytest.mark.parametrize(
    ("fn", "specs"),
    [
        (TritonKernel(kernels.scale_kernel, (4,), FOUR), scale_specs()),
        (TritonKernel(kernels.scale_kernel, [4], FOUR, num_warps=2), scale_specs()),
        (
            TritonKernel(kernels.scale_kernel, lambda args: (N // args["BLOCK"],), FOUR),
            scale_specs(),
        ),
        (TritonKernel(kernels.scale_kernel, (4,), {"BLOCK": 16}), scale_specs(FACTOR=3)),
        (kernels.scale_kernel[(4,)], scale_specs(FACTOR=3, BLOCK=16)),
        (kernels.scale_kernel[lambda args: (4,)], scale_specs(FACTOR=3, BLOCK=16)),
    ],
    ids=["tuple", "list", "function", "constexpr by spec", "launcher", "launcher of a function"],
)
def test_a_kernel_with_its_grid(fn, specs, tmp_path):
    directions, values = run(fn, specs, tmp_path)
    assert directions == {"x": "in", "y": "out"}
    assert torch.equal(values["y"], values["x"] * 3)


def test_scalars_that_come_in_another_place_than_the_constants(tmp_path):
    """``BLOCK`` stands behind ``n`` in the signature and is given by name."""
    m, n = 3, 24
    specs = [
        tensor("out", shape=(m, n)),
        tensor("x", torch.randn, (m, n)),
        tensor("weight", torch.randn, (n,)),
        number("n", n),
        number("eps", 1e-6, torch.float32),
        number("out_row", n),
        number("x_row", n),
    ]
    fn = TritonKernel(norm.rmsnorm_kernel, (m,), constexprs={"BLOCK": 32})
    directions, values = run(fn, specs, tmp_path)
    assert directions == {"out": "out", "x": "in", "weight": "in"}
    expected = torch.nn.functional.rms_norm(values["x"], (n,), values["weight"], 1e-6)
    assert torch.allclose(values["out"], expected, atol=1e-5)


def test_a_constant_between_the_arguments(tmp_path):
    fn = TritonKernel(kernels.middle_kernel, (1,), {"BLOCK": N})
    values = run(fn, [tensor("x", torch.randn), tensor("y")], tmp_path)[1]
    assert torch.equal(values["x"], values["y"])


def test_what_is_added_to_is_read(tmp_path):
    specs = [tensor("x", torch.randn), tensor("total", torch.randn)]
    fn = TritonKernel(kernels.accumulate_kernel, (1,), {"BLOCK": N})
    assert run(fn, specs, tmp_path)[0] == {"x": "in", "total": "inout"}


def test_an_output_with_contents_keeps_what_is_not_written(tmp_path):
    """Stores may leave a part as it was: the tensor's first contents belong to the result."""
    specs = [tensor("x", torch.randn), tensor("y", 7.0), number("n", 10)]
    fn = TritonKernel(kernels.scale_kernel, (1,), {"FACTOR": 1, "BLOCK": 16})
    directions, values = run(fn, specs, tmp_path)
    assert directions == {"x": "in", "y": "inout"}
    assert (values["y"][10:] == 7).all()


def test_annotations_come_before_stores(tmp_path):
    specs = [tensor("x", torch.randn), tensor("y", 7.0)]
    fn = TritonKernel(kernels.marked_kernel, (1,), {"BLOCK": N})
    assert run(fn, specs, tmp_path)[0] == {"x": "in", "y": "out"}


def test_a_store_that_cannot_be_followed_is_observed(tmp_path):
    """The pointer comes out of a helper that is no Triton function, so a run has to tell."""
    specs = [tensor("x", torch.randn), tensor("y")]
    fn = TritonKernel(kernels.opaque_kernel, (1,), {"BLOCK": N})
    directions, values = run(fn, specs, tmp_path)
    assert directions == {"x": "in", "y": "out"}
    assert torch.equal(values["x"], values["y"])


@pytest.mark.parametrize(
    ("fn", "specs", "words"),
    [
        (
            TritonKernel(kernels.scale_kernel, (4,), {"BLOCK": 16}),
            [*scale_specs(), number("FACTOR", 3, compile_runtime=True)],
            "FACTOR: compile_runtime=True, but scale_kernel takes it as tl.constexpr",
        ),
        (
            TritonKernel(kernels.scale_kernel, (4,), FOUR),
            scale_specs(FACTOR=3),
            "FACTOR has a spec and a value in constexprs",
        ),
        (
            TritonKernel(kernels.scale_kernel, (4,), {"BLOCK": 16}),
            scale_specs(),
            "ABI mismatch .*no spec for parameter FACTOR",
        ),
        (
            TritonKernel(kernels.scale_kernel, (4,), FOUR),
            scale_specs()[:2],
            "ABI mismatch .*no spec for parameter n",
        ),
        (
            TritonKernel(kernels.scale_kernel, (4,), FOUR),
            [*scale_specs(), tensor("r")],
            "ABI mismatch .*spec r names no parameter",
        ),
        (
            TritonKernel(kernels.scale_kernel, (4,), {"BLOCK": 16}),
            [*scale_specs(), tensor("FACTOR")],
            "FACTOR: the spec is a tensor, the parameter a scalar",
        ),
        (kernels.scale_kernel, scale_specs(), "scale_kernel is a Triton kernel without a grid"),
    ],
)
def test_specs_that_do_not_fit_the_kernel(fn, specs, words, tmp_path):
    with pytest.raises(ValueError, match=words):
        compiled(fn, specs, tmp_path)


@pytest.mark.parametrize("kernel", [kernels.tuned_kernel, kernels.guessed_kernel])
def test_a_kernel_that_chooses_its_constants_is_refused(kernel, tmp_path):
    """It would be validated for one choice and run with another."""
    words = r"_kernel chooses its constants itself .*TritonKernel\(kernel.fn, grid"
    for fn in (kernel, kernel[(1,)]):
        with pytest.raises(UsageError, match=words):
            compiled(fn, [tensor("x"), tensor("y")], tmp_path)
    with pytest.raises(UsageError, match=words):
        TritonKernel(kernel, (1,))
    chosen = TritonKernel(kernel.fn, (1,), {"BLOCK": N})
    assert run(chosen, [tensor("x"), tensor("y")], tmp_path)[0]["y"] == "out"


@pytest.mark.parametrize(
    ("kernel", "grid", "constexprs", "words"),
    [
        (lambda x: x, (1,), {}, "is no Triton kernel"),
        (kernels.scale_kernel, 4, {}, "grid 4, expected one to three"),
        (kernels.scale_kernel, (), {}, r"grid \(\)"),
        (kernels.scale_kernel, (1, 1, 1, 1), {}, "grid"),
        (kernels.scale_kernel, (0,), {}, r"grid \(0,\)"),
        (kernels.scale_kernel, (2.0,), {}, "grid"),
        (kernels.scale_kernel, (1,), {"BLOK": 1}, "constexprs BLOK: .* FACTOR, BLOCK"),
        (kernels.scale_kernel, (1,), {"n": 1}, "constexprs n: "),
    ],
)
def test_kernels_and_grids_that_are_none(kernel, grid, constexprs, words):
    with pytest.raises(UsageError, match=words):
        TritonKernel(kernel, grid, constexprs)


def test_a_saved_kernel_is_taken_up_again_with_its_constants(tmp_path):
    fn = TritonKernel(kernels.scale_kernel, (4,), FOUR)
    compiled(fn, scale_specs(), tmp_path)
    assert load_artifact(tmp_path, fn, scale_specs(), Config()).directions["y"] == "out"
    other = TritonKernel(kernels.scale_kernel, (4,), {"FACTOR": 4, "BLOCK": 16})
    with pytest.raises(ValueError, match=r"compiled with .*'FACTOR': '3'.* now .*'FACTOR': '4'"):
        load_artifact(tmp_path, other, scale_specs(), Config())


RMSNORM = [
    tensor("out", shape=(3, 128), dtype=torch.bfloat16),
    tensor("x", shape=(3, 128), dtype=torch.bfloat16),
    tensor("weight", shape=(128,), dtype=torch.bfloat16),
    number("n", 128),
    number("eps", 1e-6, torch.float32),
    number("out_row", 128),
    number("x_row", 128),
]


def test_compiling_for_five_gpus(tmp_path):
    """In this process, which interprets: nothing of the kind may reach the one that compiles."""
    fn = TritonKernel(norm.rmsnorm_kernel, (3,), {"BLOCK": 128}, num_warps=4)
    made = compiled(fn, RMSNORM, tmp_path, compile_only=True, targets=TARGETS, dump_passes=True)
    assert [one.target for one in made.compiled] == list(TARGETS)
    rows = json.loads((tmp_path / "compiled/table.json").read_text())
    table = (tmp_path / "compiled/table.md").read_text()
    for target, row in zip(TARGETS, rows, strict=True):
        folder = tmp_path / "compiled" / target
        nvidia = target.startswith("sm_")
        assert (folder / f"rmsnorm_kernel.{'cubin' if nvidia else 'hsaco'}").stat().st_size > 500
        assembly = (folder / f"rmsnorm_kernel.{'ptx' if nvidia else 'amdgcn'}").read_text()
        assert (target if target.startswith("gfx") else f".target {target}") in assembly
        assert (folder / "rmsnorm_kernel.ttir").exists()
        assert row["registers"] > 0
        assert f"| {target} " in table
    assert json.loads((tmp_path / "artifact.json").read_text())["directions"]["out"] == "out"


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        (tensor("x", dtype=torch.bfloat16), "*bf16:16"),
        (tensor("x", dtype=torch.float8_e5m2), "*fp8e5:16"),
        (tensor("x", dtype=torch.bool), "*i1:16"),
        (number("n", 48), "i32:16"),
        (number("n", 47), "i32"),
        (number("n", 48, compile_runtime=True), "i32"),
        (number("n", 32, torch.int8), "i32:16"),
        (number("n", 48, torch.int64), "i64:16"),
        (number("n", 0.5, torch.float16), "fp32"),
        (number("n", True, torch.bool), "i1"),
    ],
)
def test_types_of_arguments(spec, name):
    """As a launch would give them: aligned pointers, and what a number is that is compiled in."""
    assert triton_lowered._type_of(spec) == name


def test_constants_of_triton_and_defaults_reach_the_compiler(tmp_path):
    fn = TritonKernel(kernels.cast_kernel, (1,), {"TO": tl.bfloat16})
    specs = [tensor("x"), tensor("y", dtype=torch.bfloat16), number("n", 30)]
    compiled(fn, specs, tmp_path, compile_only=True, targets=("sm_90",), dump_passes=True)
    stages = (tmp_path / "compiled/sm_90/cast_kernel.ttir").read_text()
    assert "bf16" in stages
    assert "tensor<32x" in stages  # BLOCK's default


def fp8_specs(dtype):
    rows = [number(name, 128) for name in ("k", "x_row", "q_row")]
    shape = (2, 128)
    return [
        tensor("x", shape=shape),
        tensor("q", shape=shape, dtype=dtype),
        tensor("scale", 1.0, (1,)),
        *rows,
    ]


FP8 = TritonKernel(quant.static_kernel, (2,), {"LIMIT": 240.0, "BLOCK": 128})


def test_a_foreign_fp8_that_does_not_compile_names_the_card_s_own(tmp_path):
    targets = ("gfx942", "sm_90")
    with pytest.raises(BuildError, match="sm_90") as caught:
        compiled(
            FP8, fp8_specs(torch.float8_e4m3fnuz), tmp_path, compile_only=True, targets=targets
        )
    assert "q is torch.float8_e4m3fnuz; the 8-bit float of sm_90 is float8_e4m3fn" in str(
        caught.value
    )
    assert "for gfx942" not in str(caught.value)


def test_a_foreign_fp8_that_compiles_is_warned_about(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr("optest.log.logger.propagate", True)
    specs = fp8_specs(torch.float8_e4m3fn)
    compiled(FP8, specs, tmp_path, compile_only=True, targets=("gfx942", "gfx950"))
    assert "static_kernel compiles for gfx942, but q is torch.float8_e4m3fn" in caplog.text
    assert "for gfx950" not in caplog.text
    kept = {path.name for path in (tmp_path / "compiled/gfx942").iterdir()}
    assert kept == {"static_kernel.hsaco"}, "stages are kept only on request"


@pytest.mark.parametrize(
    ("fn", "specs", "targets", "error", "words"),
    [
        (FP8, fp8_specs(torch.float8_e8m0fnu), ("sm_90",), UsageError, "q: Triton has no type"),
        (FP8, fp8_specs(torch.int8), ("mi300",), UsageError, "target 'mi300'"),
        (
            TritonKernel(kernels.cast_kernel, (1,), {"TO": object()}),
            scale_specs(),
            ("sm_90",),
            UsageError,
            "constexpr TO=<object",
        ),
        (
            TritonKernel(kernels.inside(), (1,), {}),
            [tensor("x")],
            ("sm_90",),
            UsageError,
            "inside.<locals>.kernel is defined inside a function",
        ),
    ],
)
def test_what_cannot_be_compiled_ahead_of_time(fn, specs, targets, error, words, tmp_path):
    with pytest.raises(error, match=words):
        compiled(fn, specs, tmp_path, compile_only=True, targets=targets)


SCRIPT = """
import pathlib, sys
import torch, triton, triton.language as tl
from optest.golden.config import Config
from optest.golden.kernel import compile_kernel
from optest.golden.spec import TensorSpec
from optest.golden.triton_kernel import TritonKernel

@triton.jit
def copy_kernel(x, y, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at))

if __name__ == "__main__":
    specs = [TensorSpec("x", [16], torch.float32), TensorSpec("y", [16], torch.float32)]
    fn = TritonKernel(copy_kernel, (1,), {"BLOCK": 16})
    folder = pathlib.Path(sys.argv[1])
    compile_kernel(fn, specs, Config(compile_only=True, targets=("sm_90",)), folder)
    compile_kernel(fn, specs, Config(platform="cpu"), folder)
"""


def test_a_script_s_own_kernel_without_the_interpreter(tmp_path):
    """It compiles for others; running it on the CPU says what to set."""
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "-m", "script", str(tmp_path / "run")],
        env={**os.environ, "TRITON_INTERPRET": "0"},
        capture_output=True,
        text=True,
    )
    assert "set TRITON_INTERPRET=1 before triton is imported" in done.stderr
    assert (tmp_path / "run/compiled/sm_90/copy_kernel.cubin").exists()
