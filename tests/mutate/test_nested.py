"""A result with one tensor exchanged keeps its structure."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass

import pytest
import torch

from optest.mutate.nested import replaced
from optest.tensors import tensors_in

Pair = namedtuple("Pair", ["values", "scales"])  # noqa: PYI024 - what kernels return


@dataclass(frozen=True)
class Result:
    values: torch.Tensor
    note: str = "kept"


OLD, NEW, OTHER = torch.zeros(2), torch.ones(2), torch.zeros(2)


@pytest.mark.parametrize(
    "value",
    [OLD, [OTHER, OLD], (OLD, 3), {"a": [OLD], "b": OTHER}, Pair(OLD, OTHER), Result(OLD)],
    ids=lambda value: type(value).__name__,
)
def test_the_tensor_is_exchanged_and_nothing_else(value):
    made = replaced(value, OLD, NEW)
    assert type(made) is type(value)
    want = [NEW if each is OLD else each for each in tensors_in(value)]
    assert [id(each) for each in tensors_in(made)] == [id(each) for each in want]
    assert any(each is OLD for each in tensors_in(value)), "the result as returned was changed"
