"""Candidates and outputs are called what the test calls them."""

from __future__ import annotations

import pytest
import torch

from optest.mutate.names import candidate_name, output_name


def kernel(x):
    return x


LAMBDA, OTHER = lambda x: x, lambda x: x


@pytest.mark.parametrize(
    ("func", "variables", "name"),
    [
        (LAMBDA, {"candidates": {"cpp": OTHER, "triton": LAMBDA}}, "triton"),
        (LAMBDA, {"fns": {"cpp": OTHER, "triton": kernel}, "fn": kernel, "k": "triton"}, "triton"),
        (LAMBDA, {"name": "triton", "fn": LAMBDA}, "triton"),
        (LAMBDA, {"name": "triton", "fn": OTHER}, "candidate 3"),
        (kernel, {"sizes": {"m": 3}}, "kernel"),
        (LAMBDA, {}, "candidate 3"),
    ],
)
def test_of_a_candidate(func, variables, name):
    assert candidate_name(func, variables, 2) == name


def test_of_an_output():
    y, z = torch.zeros(4, 2), torch.zeros(2)
    variables = {"outs": {"a": [torch.ones(4, 2), y]}, "z": z[:1]}
    assert output_name(y.view(4, 2), y, variables) == "outs['a'][1]"
    assert output_name(z, (y, z), variables) == "result[1]"
    assert output_name(torch.zeros(3), None, variables) == "3 float32"
