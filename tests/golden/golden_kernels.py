"""Kernels, golden functions and specs that the tests of the golden harness share."""

from __future__ import annotations

import torch

from optest.golden import InOut, Out, ScalarSpec, TensorSpec


def axpy(a: float, x: torch.Tensor, y: Out[torch.Tensor]):
    y.copy_(a * x)


def golden_axpy(values):
    values["y"][:] = values["a"] * values["x"]


def axpy_specs(a=2.0, dtype=torch.float32, shape=(4, 8)):
    return [
        ScalarSpec("a", torch.float32, a),
        TensorSpec("x", list(shape), dtype, torch.randn),
        TensorSpec("y", list(shape), dtype),
    ]


def accumulate(x: torch.Tensor, total: InOut[torch.Tensor], y: Out[torch.Tensor]):
    total += x
    y.copy_(total * 2)


def golden_accumulate(values):
    values["total"] += values["x"]
    values["y"][:] = values["total"] * 2


def accumulate_specs():
    return [
        TensorSpec("x", [6], torch.float32, torch.randn),
        TensorSpec("total", [6], torch.float32, torch.randn),
        TensorSpec("y", [6], torch.float32),
    ]
