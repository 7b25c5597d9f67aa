"""Specs held against a kernel's parameters: everything that differs, in one error."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from optest.golden import abi
from optest.golden.kernel import Parameter
from optest.golden.scalar import ScalarSpec
from optest.golden.spec import TensorSpec

PARAMETERS = (
    Parameter("x", "tensor", "in", (-1, 8), torch.float32),
    Parameter("n", "scalar", dtype=torch.int32),
    Parameter("free"),
    Parameter("y", "tensor", "out", (4, 8), torch.float32),
)


def specs(**changed):
    made = {
        "x": TensorSpec("x", [2, 8], torch.float32),
        "n": ScalarSpec("n", torch.int32, 1),
        "free": TensorSpec("free", [3], torch.int8),
        "y": TensorSpec("y", [4, 8], torch.float32),
    } | changed
    return [spec for spec in made.values() if spec is not None]


def artifact(directions=None, parameters=PARAMETERS):
    return SimpleNamespace(parameters=parameters, directions=directions)


@pytest.mark.parametrize("free", [TensorSpec("free", [3], torch.int8), specs()[1]])
def test_what_fits(free):
    abi.check(artifact(), specs(free=ScalarSpec("free", torch.int8, 1)))
    abi.check(artifact(), specs())
    abi.check(artifact(parameters=None), [free])
    abi.check(SimpleNamespace(directions={}), [free])


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"x": None}, "no spec for parameter x"),
        ({"z": TensorSpec("z", [1], torch.int8)}, "spec z names no parameter"),
        ({"x": TensorSpec("x", [2, 9], torch.float32)}, "x: shape [2, 9], compiled for [any, 8]"),
        ({"x": TensorSpec("x", [8], torch.float32)}, "x: shape [8], compiled for [any, 8]"),
        ({"y": TensorSpec("y", [4, 8], torch.int8)}, "y: torch.int8, compiled for torch.float32"),
        ({"n": ScalarSpec("n", torch.int64, 1)}, "n: torch.int64, compiled for torch.int32"),
        (
            {"n": TensorSpec("n", [1], torch.int32)},
            "n: the spec is a tensor, the parameter a scalar",
        ),
        ({"x": ScalarSpec("x", torch.int32, 1)}, "x: the spec is a scalar, the parameter a tensor"),
    ],
)
def test_one_difference(changed, words):
    with pytest.raises(ValueError, match="ABI mismatch") as caught:
        abi.check(artifact(), specs(**changed))
    message = f"compiled parameter ABI mismatch ({words}); recompile the artifact"
    assert str(caught.value) == message


def test_the_order_is_rejected_and_never_repaired():
    given = specs()
    given[0], given[3] = given[3], given[0]
    with pytest.raises(ValueError, match="order: specs y, n, free, x, parameters x, n, free, y"):
        abi.check(artifact(), given)


def test_all_differences_at_once():
    given = specs(
        x=TensorSpec("x", [2, 9], torch.float16), free=None, n=TensorSpec("n", [1], torch.int8)
    )
    given.reverse()
    with pytest.raises(ValueError, match="ABI mismatch") as caught:
        abi.check(artifact(), given)
    for words in ("parameter free", "order:", "x: shape", "x: torch.float16", "n: the spec"):
        assert words in str(caught.value)


def test_directions_are_written_onto_the_specs():
    given = specs()
    abi.stamp(artifact({"x": "in", "free": "inout", "y": "out"}), given)
    assert [(s.name, s.direction) for s in given if isinstance(s, TensorSpec)] == [
        ("x", "in"),
        ("free", "inout"),
        ("y", "out"),
    ]


@pytest.mark.parametrize(
    ("directions", "words"),
    [
        ({"x": "in", "y": "out"}, "no direction for free: None"),
        ({"x": "input", "free": "OUT", "y": "out"}, "x: 'input', free: 'OUT'"),
        ({"x": "in", "free": "in", "y": "in"}, r"writes none of its tensors \(x, free, y\)"),
    ],
)
def test_directions_that_cannot_be(directions, words):
    with pytest.raises(ValueError, match=words):
        abi.stamp(artifact(directions), specs())
