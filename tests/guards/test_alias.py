"""Results in the memory of an input."""

from __future__ import annotations

import pytest
import torch

from optest.guards import alias


def x_of():
    return torch.arange(24.0).reshape(4, 6)


SHARES = {
    "the input": lambda x, y: x,
    "a view": lambda x, y: x[1:, ::2],
    "reshaped": lambda x, y: x.reshape(-1),
    "other bits": lambda x, y: x.view(torch.int32),
    "transposed, in a container": lambda x, y: {"out": (y + 1, x.t())},
    "the second input": lambda x, y: y.view(-1),
    "detached": lambda x, y: torch.nn.Parameter(x.detach()),
}
OWN = {
    "computed": lambda x, y: x + 1,
    "a clone": lambda x, y: x.clone(),
    "nothing": lambda x, y: None,
    "a number": lambda x, y: 3.0,
    "an empty view": lambda x, y: x[:0],
}


@pytest.mark.parametrize("kernel", SHARES.values(), ids=SHARES)
def test_a_result_in_the_memory_of_an_input_is_found(kernel):
    x, y = x_of(), torch.ones(3, 3)
    finding = alias.finding(kernel(x, y), [x, y])
    assert finding is not None
    assert (finding.guard, finding.declarable) == ("alias", True)
    assert "aliases=" in finding.meaning


@pytest.mark.parametrize("kernel", OWN.values(), ids=OWN)
def test_memory_of_its_own_is_none(kernel):
    x, y = x_of(), torch.ones(3, 3)
    assert alias.finding(kernel(x, y), [x, y]) is None


@pytest.mark.parametrize("kernel", SHARES.values(), ids=SHARES)
def test_what_is_allowed_is_none_by_whatever_view(kernel):
    x, y = x_of(), torch.ones(3, 3)
    assert alias.finding(kernel(x, y), [x, y], [x[1:], y[0]]) is None


def test_what_is_allowed_of_one_input_says_nothing_of_another():
    x, y = x_of(), torch.ones(3, 3)
    assert alias.finding([x, y], [x, y], [x]) is not None
    assert alias.finding([x, y], [x, y], [y]) is not None


def test_the_evidence_names_both():
    x = x_of()
    finding = alias.finding(x[0].view(torch.int32), [x])
    assert finding is not None
    assert "returned 6 int32 in the memory of an input 4x6 float32" in finding.evidence


@pytest.mark.parametrize(
    ("tensor", "words"),
    [
        (torch.ones(16, 64, dtype=torch.bfloat16), "16x64 bfloat16"),
        (torch.ones(()), "scalar float32"),
        (torch.ones(0), "0 float32"),
    ],
)
def test_words(tensor, words):
    assert alias.words(tensor) == words
