"""Results are plain tensors, numbers, and containers of such."""

from __future__ import annotations

import collections
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from optest.guards import plain

X = torch.arange(4.0)


class Lazy(torch.Tensor):
    pass


class Sum(NamedTuple):
    values: Any
    count: int


class LazyTuple(Sum):
    def __getitem__(self, at):
        return super().__getitem__(at) * 2


class LazyIterator(Sum):
    def __iter__(self):
        return iter([X])


class LazyList(list):
    pass


class LazyDict(dict):
    pass


@dataclass
class Box:
    value: Any


class Slotted:
    __slots__ = ()


def lazy():
    return X.as_subclass(Lazy)


def nested(value, depth):
    for _ in range(depth):
        value = [value]
    return value


PLAIN = {
    "a tensor": X,
    "a parameter": torch.nn.Parameter(X),
    "nothing": None,
    "numbers": [1, 2.0, 3j, True, "words", b"bytes"],
    "dtypes, devices, shapes": (torch.float32, torch.device("cpu"), X.shape),
    "an array": np.ones(3),
    "a number of NumPy's": np.float32(1),
    "containers": {"a": [X, (X, {"b": X})], "c": {1, 2}, "d": frozenset({3})},
    "a named tuple": Sum(X, 1),
    "a named tuple of torch's": torch.topk(X, 2),
    "a dataclass": Box([X]),
    "a conjugated view": torch.ones(3, dtype=torch.complex64).conj(),
    "a negated view": torch.ones(3, dtype=torch.complex64).conj().imag,
    "a view": X[1:],
    "sparse": X.to_sparse(),
}
REFUSED = {
    "a subclass": (lazy(), "a tensor of the subclass test_plain.Lazy"),
    "a subclass in a list": ([X, lazy()], "Lazy"),
    "a subclass in a mapping": ({"a": {"b": lazy()}}, "Lazy"),
    "a subclass in a named tuple": (Sum(lazy(), 1), "Lazy"),
    "a subclass in a dataclass": (Box(lazy()), "Lazy"),
    "a subclass, deep": (nested(lazy(), 8), "Lazy"),
    "a tuple that computes": (LazyTuple(X, 1), "LazyTuple"),
    "a tuple that walks elsewhere": (LazyIterator(X, 1), "LazyIterator"),
    "a list of its own": (LazyList([X]), "an object of the class test_plain.LazyList"),
    "a mapping of its own": (LazyDict(a=X), "LazyDict"),
    "an ordered dict": (collections.UserDict(a=X), "UserDict"),
    "a function": (lambda: X, "function"),
    "a generator": ((x for x in [X]), "generator"),
    "any object": (Slotted(), "Slotted"),
    "a class": (Box, "type"),
    "the 1000th of a list": ([0] * 999 + [lazy()], "Lazy"),
}


@pytest.mark.parametrize("data", PLAIN.values(), ids=PLAIN)
def test_plain(data):
    assert plain.finding(data) is None


@pytest.mark.parametrize(("data", "words"), REFUSED.values(), ids=REFUSED)
def test_refused(data, words):
    """Such a result could be computed when the check looks at it, after the clock has stopped."""
    finding = plain.finding(data)
    assert finding is not None
    assert words.replace("test_plain", __name__) in finding.evidence
    assert (finding.guard, finding.declarable) == ("plain tensors", False)


def test_a_long_list_and_a_list_in_itself_come_to_an_end():
    endless: list[Any] = [X]
    endless.append(endless)
    assert plain.finding(endless) is None
    assert plain.finding([0] * 5000) is None
