"""Looking at a tensor leaves its storage as it was: a kernel may resize its buffer afterwards."""

from __future__ import annotations

import pytest
import torch

from optest.checking import Tolerance, compare, fallback
from optest.checking.domain import domain_of
from optest.checking.pair import Pair
from optest.checking.table import Bounds
from optest.guards import outputs, poison
from optest.tensors import as_array


def resizable(tensor):
    return tensor.untyped_storage().resizable()


@pytest.mark.parametrize("shape", [(), (1,), (16,), (3, 5), (300, 70)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8, torch.int64])
def test_the_guards_look_without_locking_the_storage(shape, dtype):
    for tensor in (torch.ones(shape).to(dtype), torch.randn(shape).to(dtype)):
        outputs.is_blank(tensor)
        poison.holding(tensor, poison.FIRST, filled=True)
        poison.holding(tensor, poison.BUFFERS)
        assert resizable(tensor)


@pytest.mark.parametrize("wrong", [0, 1, 3000])
def test_neither_does_a_comparison(wrong):
    a = torch.randn(1 << 16).bfloat16()
    b = a.clone()
    b[:wrong] += 1
    pair = Pair.of(a, b)
    domain = domain_of(a.dtype, b.dtype)
    fallback.scan(pair, domain, Bounds(rtol=1e-2, atol=1e-2))
    compare(a, b, Tolerance())
    assert resizable(a)
    assert resizable(b)


def test_an_array_is_the_same_memory():
    x = torch.arange(6).reshape(2, 3)
    seen = as_array(x)
    x[1, 2] = 42
    assert seen.tolist() == [[0, 1, 2], [3, 4, 42]]
    assert resizable(x)


@pytest.mark.parametrize(
    ("values", "blank"),
    [([7.0] * 9, True), ([7.0] * 8 + [6.0], False), ([0.0] * 64 + [1.0], False), ([1.0], False)],
)
def test_blank_is_one_value_throughout(values, blank):
    tensor = torch.tensor(values)
    assert outputs.is_blank(tensor) is blank
    assert outputs.is_blank(tensor.reshape(1, -1, 1)) is blank
