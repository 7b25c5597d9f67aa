"""Each kind of kernel: its directions, its arguments, and its results."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Annotated

import pytest
import torch

from optest import expect_failure, native
from optest.errors import CheckFailedError, UsageError
from optest.golden import abi
from optest.golden import run as run_golden
from optest.golden.config import Config
from optest.golden.direction import In, InOut, Out
from optest.golden.held import HeldInputs
from optest.golden.kernel import Artifact, ResultError, compile_kernel
from optest.golden.scalar import ScalarSpec
from optest.golden.spec import TensorSpec

N = 16


def tensor(name, init=None, shape=(4, N), dtype=torch.float32):
    return TensorSpec(name, shape, dtype, init_value=init)


X, W = functools.partial(tensor, "x", torch.randn), functools.partial(tensor, "w", torch.randn)


def compiled(fn, specs, tmp_path, **config):
    return compile_kernel(fn, specs, Config(**config), tmp_path)


def run(fn, specs, tmp_path):
    """Directions, and the tensors after one dispatch."""
    artifact = compiled(fn, specs, tmp_path)
    abi.check(artifact, specs)
    abi.stamp(artifact, specs)
    values = [s.create_tensor() if isinstance(s, TensorSpec) else s.to_python() for s in specs]
    artifact.dispatch(*values)
    named = {s.name: v for s, v in zip(specs, values, strict=True)}
    return dict(artifact.directions), named


def marked(x: In[torch.Tensor], w: In[...], y: Out[torch.Tensor]):
    y.copy_(x * w)


def marked_in_part(x, w, y: Annotated[torch.Tensor, Out]):
    y.copy_(x * w)


def unmarked(x, w, y):
    y.copy_(x * w)


def typed(x: torch.Tensor, w: torch.Tensor, y: torch.Tensor) -> None:
    y.copy_(x * w)


def by_keyword(x, w, *, y, scale=1.0):
    y.copy_(x * w * scale)


def any_number(*tensors):
    tensors[2].copy_(tensors[0] * tensors[1])


class Callable:
    def __call__(self, x, w, y: Out[...]):
        y.copy_(x * w)

    def method(self, x, w, y):
        y.copy_(x * w)


@pytest.mark.parametrize(
    "fn",
    [
        marked,
        marked_in_part,
        unmarked,
        typed,
        by_keyword,
        any_number,
        Callable(),
        Callable().method,
        functools.partial(by_keyword, scale=1.0),
        torch.compile(unmarked, backend="eager"),
        functools.wraps(unmarked)(lambda *args: unmarked(*args)),
    ],
    ids=[
        *("marked", "marked in part", "unmarked", "typed", "by keyword", "any number"),
        *("object", "method", "partial", "compiled", "wrapped"),
    ],
)
def test_a_python_callable(fn, tmp_path):
    directions, values = run(fn, [X(), W(), tensor("y")], tmp_path)
    assert list(directions.items()) == [("x", "in"), ("w", "in"), ("y", "out")]
    assert torch.equal(values["y"], values["x"] * values["w"])


def test_a_marked_callable_runs_only_when_it_is_dispatched(tmp_path):
    def kernel(x: InOut[...]):
        raise AssertionError("ran")

    assert compiled(kernel, [X()], tmp_path).directions == {"x": "inout"}


def test_compiling_only_runs_nothing(tmp_path):
    def kernel(x, y):
        raise AssertionError("ran")

    compiled(kernel, [X(), tensor("y")], tmp_path, compile_only=True)


def test_targets_for_what_is_no_triton_kernel_are_said_to_mean_nothing(
    tmp_path, caplog, monkeypatch
):
    monkeypatch.setattr("optest.log.logger.propagate", True)
    compiled(marked, [X(), W(), tensor("y")], tmp_path, compile_only=True, targets=("sm_90",))
    assert "marked is a callable: targets concern Triton kernels" in caplog.text


def one_result(x, w):
    return x * w


def two_results(x, w):
    return x * w, x.argmax(-1)


def result_and_in_place(x, w, acc):
    acc.add_(x)
    return x * w


@pytest.mark.parametrize(
    ("fn", "further", "expected"),
    [
        (one_result, [tensor("r")], {"r": "out"}),
        (
            two_results,
            [tensor("r"), tensor("at", shape=(4,), dtype=torch.int64)],
            {"r": "out", "at": "out"},
        ),
        (result_and_in_place, [tensor("acc", 1), tensor("r")], {"acc": "inout", "r": "out"}),
    ],
)
def test_specs_beyond_the_parameters_stand_for_results(fn, further, expected, tmp_path):
    directions, values = run(fn, [X(), W(), *further], tmp_path)
    assert directions == {"x": "in", "w": "in", **expected}
    assert torch.equal(values["r"], values["x"] * values["w"])
    if "at" in values:
        assert torch.equal(values["at"], values["x"].argmax(-1))


@pytest.mark.parametrize(
    ("fn", "words"),
    [
        (lambda x: None, "returned None for r, expected a tensor"),
        (lambda x: 3, "returned 3 for r"),
        (lambda x: x[:1], r"returned torch.float32 \(1, 16\) for r.*\(4, 16\)"),
        (lambda x: x.double(), "returned torch.float64"),
        (lambda x: (x, x), "returned 2 values, the specs after its parameters are 1: r"),
        (lambda x: (), "returned 0 values"),
    ],
)
def test_results_that_do_not_fit_are_a_failed_check(fn, words, tmp_path):
    """Never broadcast or converted into the spec's tensor."""

    def kernel(x: In[...]):
        return fn(x)

    specs = [X(), tensor("r")]
    artifact = compiled(kernel, specs, tmp_path)
    with pytest.raises(ResultError, match=words) as caught:
        artifact.dispatch(torch.ones(4, N), torch.zeros(4, N))
    assert isinstance(caught.value, CheckFailedError)


def test_what_is_timed_does_not_copy_results(tmp_path):
    specs = [X(), W(), tensor("r")]
    x, w, r = (spec.create_tensor() for spec in specs)
    returned = compiled(one_result, specs, tmp_path).launch(x, w, r)
    assert torch.equal(returned, x * w)
    assert not r.any()
    assert compiled(unmarked, [X(), W(), tensor("y")], tmp_path).launch is unmarked


@torch.library.custom_op("optest_golden_test::scaled", mutates_args={"y", "count"})
def scaled(x: torch.Tensor, y: torch.Tensor, count: torch.Tensor, k: int = 2) -> torch.Tensor:
    y.copy_(x * k)
    count.add_(1)
    return x + 1


@pytest.mark.parametrize(
    "fn",
    [
        scaled,
        torch.ops.optest_golden_test.scaled,
        torch.ops.optest_golden_test.scaled.default,
    ],
    ids=["custom_op", "packet", "overload"],
)
def test_a_custom_operator(fn, tmp_path):
    """Its schema says that y and count are written; which of them is read, a look at it."""
    count = tensor("count", 5, (1,))
    specs = [X(), tensor("y"), count, ScalarSpec("k", torch.int32, 3), tensor("plus")]
    directions, values = run(fn, specs, tmp_path)
    assert directions == {"x": "in", "y": "out", "count": "inout", "plus": "out"}
    assert torch.equal(values["y"], values["x"] * 3)
    assert torch.equal(values["plus"], values["x"] + 1)
    assert values["count"].item() == 6


@pytest.mark.parametrize(
    ("further", "overload", "directions"),
    [
        ([tensor("other", 2), tensor("out")], "out", {"self": "in", "other": "in", "out": "out"}),
        ([tensor("other", 2), tensor("r")], "Tensor", {"self": "in", "other": "in", "r": "out"}),
        (
            [ScalarSpec("other", torch.float32, 2), tensor("r")],
            "Scalar",
            {"self": "in", "r": "out"},
        ),
    ],
)
def test_of_overloads_the_one_that_fits_the_specs(further, overload, directions, tmp_path):
    specs = [tensor("self", torch.randn), *further]
    found, values = run(torch.ops.aten.add, specs, tmp_path)
    assert found == directions
    assert torch.equal(values[specs[-1].name], values["self"] + 2)
    assert compiled(torch.ops.aten.add, specs, tmp_path).name.startswith("aten::add")


def test_an_out_argument_that_is_keyword_only_is_never_read(tmp_path):
    """Every out-variant of torch's is declared so: nothing has to be run for it."""
    specs = [tensor("self"), tensor("other"), tensor("out")]
    artifact = compiled(torch.ops.aten.add.out, specs, tmp_path, compile_only=True)
    assert artifact.declared == {"self": "in", "other": "in", "out": "out"}


def test_an_operator_that_changes_its_first_argument(tmp_path):
    specs = [tensor("self", torch.randn), tensor("other", torch.randn)]
    assert run(torch.ops.aten.add_, specs, tmp_path)[0] == {"self": "inout", "other": "in"}


@pytest.mark.skipif(not native.available(), reason="needs a compiler")
def test_an_operator_of_csrc(tmp_path):
    specs = [
        tensor("out"),
        X(),
        tensor("weight", torch.randn, (N,)),
        ScalarSpec("eps", torch.float32, 1e-6),
    ]
    directions, values = run(native.csrc("norm").rmsnorm, specs, tmp_path)
    assert directions == {"out": "out", "x": "in", "weight": "in"}
    expected = torch.nn.functional.rms_norm(values["x"], (N,), values["weight"], 1e-6)
    assert torch.allclose(values["out"], expected, atol=1e-5)
    fused = [X(), tensor("residual", torch.randn), *specs[2:]]
    assert run(native.csrc("norm").fused_add_rmsnorm, fused, tmp_path)[0] == {
        "x": "inout",
        "residual": "inout",
        "weight": "in",
    }


class Backend:
    """Another compiler: what it must have, and no more."""

    def __init__(self, artifact):
        self.artifact = artifact

    def compile(self, specs, config):
        assert isinstance(config, Config)
        return self.artifact


class Made:
    directions = {"x": "in", "y": "out"}  # noqa: RUF012
    output_dir = Path()

    def dispatch(self, x, y):
        y.copy_(x)


def test_an_object_that_compiles_itself(tmp_path):
    artifact = compiled(Backend(Made()), [X(), tensor("y")], tmp_path)
    assert isinstance(artifact, Made)
    assert isinstance(artifact, Artifact)
    specs = [X(), tensor("y")]
    abi.check(artifact, specs)
    abi.stamp(artifact, specs)
    assert [spec.direction for spec in specs] == ["in", "out"]


def test_an_object_that_compiles_to_something_else(tmp_path):
    with pytest.raises(UsageError, match="int without directions, dispatch, output_dir"):
        compiled(Backend(3), [X()], tmp_path)


def test_a_module_of_torch_is_a_callable(tmp_path):
    """Its own ``compile`` is torch.compile, and takes no specs."""
    module = torch.nn.Linear(N, N)
    specs = [tensor("input", torch.randn), tensor("r")]
    directions, values = run(module, specs, tmp_path)
    assert directions == {"input": "in", "r": "out"}
    assert torch.equal(values["r"], module(values["input"]))


@pytest.mark.parametrize("fn", [3, "kernel", None])
def test_what_is_no_kernel(fn, tmp_path):
    with pytest.raises(UsageError, match="expected a Python callable, a torch operator, a Triton"):
        compiled(fn, [X()], tmp_path)


@pytest.mark.parametrize(
    ("fn", "specs", "words"),
    [
        (unmarked, [X(), W()], "no spec for parameter y"),
        (unmarked, [X(), W(), tensor("yy")], "no spec for parameter y; spec yy names no parameter"),
        (unmarked, [W(), X(), tensor("y")], "order: specs w, x, y, parameters x, w, y"),
        (
            scaled,
            [X(), tensor("y"), ScalarSpec("count", torch.int32, 1)],
            "count: the spec is a scalar, the parameter a tensor",
        ),
        (torch.ops.aten.add_, [tensor("self"), tensor("b")], "no spec for parameter other"),
        (torch.ops.aten.relu_, [tensor("self"), tensor("r")], "spec r names no parameter"),
    ],
)
def test_specs_that_do_not_fit_the_signature(fn, specs, words, tmp_path):
    with pytest.raises(ValueError, match=f"compiled parameter ABI mismatch .*{words}"):
        compiled(fn, specs, tmp_path)


def test_shapes_and_dtypes_that_an_annotation_gives(tmp_path):
    def kernel(x: In[[-1, N], torch.float32], y: Out[[4, N], torch.float32]):
        y.copy_(x)

    compiled(kernel, [X(), tensor("y")], tmp_path)
    specs = [tensor("x", None, (7, N, 1)), tensor("y", None, (5, N), torch.float16)]
    with pytest.raises(ValueError, match="ABI mismatch") as caught:
        compiled(kernel, specs, tmp_path)
    assert "x: shape [7, 16, 1], compiled for [any, 16]" in str(caught.value)
    assert "y: shape [5, 16], compiled for [4, 16]" in str(caught.value)
    assert "y: torch.float16, compiled for torch.float32" in str(caught.value)


def test_a_kernel_without_an_output_is_refused(tmp_path):
    """With nothing to validate any kernel would pass."""
    specs = [X(), W()]
    artifact = compiled(one_result, specs, tmp_path)
    with pytest.raises(ValueError, match=r"writes none of its tensors \(x, w\).*returns needs"):
        abi.stamp(artifact, specs)


def test_an_output_that_is_read_and_was_given_nothing_is_said(tmp_path, caplog, monkeypatch):
    def adding(x, y):
        y.add_(x)

    monkeypatch.setattr("optest.log.logger.propagate", True)
    monkeypatch.setattr("optest.log._said", set())
    compiled(adding, [X(), tensor("y")], tmp_path)
    assert "the kernel reads y and writes it, and the spec has no init_value" in caplog.text
    caplog.clear()
    compiled(adding, [X(), tensor("y", 1)], tmp_path)
    compiled(unmarked, [X(), W(), tensor("y")], tmp_path)
    assert "the kernel reads" not in caplog.text


def test_a_changed_input_is_found():
    """Even where no version counter tells, as behind NumPy and in a kernel."""
    specs = [tensor("x", 1), tensor("flags", True, (8,), torch.bool), tensor("y")]
    values = {spec.name: spec.create_tensor() for spec in specs}
    for spec, direction in zip(specs, ("in", "in", "out"), strict=True):
        spec.direction = direction
    held = HeldInputs(specs, values)
    values["y"].fill_(3)
    assert held.changed() == []
    values["flags"].numpy()[3] = False
    assert held.changed() == ["flags"]
    values["x"].view(torch.int32)[2, 3] ^= 1
    assert held.changed() == ["x", "flags"]


@torch.library.custom_op("optest_golden_test::forgetful", mutates_args={"y", "z"})
def forgetful(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> None:
    y.copy_(x)


def test_what_an_operator_declares_to_write_is_an_output_written_or_not(tmp_path):
    artifact = compiled(forgetful, [X(), tensor("y"), tensor("z")], tmp_path)
    assert artifact.directions == {"x": "in", "y": "out", "z": "out"}


def forgets_z(x, y, z):
    y.copy_(x)


def forgets_marked_z(x: In[...], y: Out[...], z: Out[...]):
    y.copy_(x)


@pytest.mark.parametrize(
    ("fn", "words"),
    [
        (forgets_z, "golden_fn fills z, and the kernel does not write it"),
        (forgetful, "does not match golden: ['z']"),
        (forgets_marked_z, "does not match golden: ['z']"),
    ],
)
def test_an_output_that_a_kernel_forgets_is_no_input(fn, words, recorded):
    """Seen from outside it looks like one, and would not be compared."""

    def golden(tensors):
        tensors["y"][:] = tensors["x"]
        tensors["z"][:] = tensors["x"] + 1

    with expect_failure():
        result = run_golden(fn, [X(), tensor("y"), tensor("z")], golden)
    assert not result.passed
    assert words in result.error


def scribbles(tensors):
    tensors["y"][:] = tensors["x"].mul_(2)


def test_a_golden_function_may_use_up_clones_of_declared_inputs(recorded):
    def kernel(x: In[...], y: Out[...]):
        y.copy_(x * 2)

    assert run_golden(kernel, [X(), tensor("y")], scribbles).passed
