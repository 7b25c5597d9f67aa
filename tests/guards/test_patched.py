"""Replaced names are found, each of the tables; what libraries wrap themselves is none."""

from __future__ import annotations

import functools
import importlib
import operator
import random
import time

import numpy as np
import pytest
import torch

import optest.test_common
from optest.guards import clocks, patched

# All that may be patched is there to be looked at.
for _name in (
    *("cases.benchmark", "checking", "golden", "stats", "tensors", "test_common", "timing.wall"),
    *("testing.assertions", "testing.measuring", "timing.sampling"),
):
    importlib.import_module(f"optest.{_name}")


def stand_in(*args, **kwargs):
    return True


OWNERS = {
    "time": time,
    "torch": torch,
    "numpy": np,
    "random": random,
    "torch.Tensor": torch.Tensor,
    "torch.cuda": torch.cuda,
    "torch.testing": torch.testing,
    "numpy.testing": np.testing,
}
CLOCKS = ["perf_counter", "perf_counter_ns", "monotonic", "time", "time_ns", "process_time"]
BUILTIN = [
    *(("torch", name) for name in "allclose isclose equal eq abs sub max manual_seed".split()),
    *(("torch.Tensor", name) for name in "__eq__ __sub__ allclose equal max item copy_".split()),
    *(("numpy", name) for name in "allclose isclose array_equal abs max".split()),
    *(("random", name) for name in "random randint seed".split()),
]
DEEP = [
    *(("torch.Tensor", name) for name in "sum mean __ne__ detach isnan numpy cpu".split()),
    ("torch.cuda", "synchronize"),
    ("torch.cuda", "Event.record"),
    ("torch.cuda", "Event.elapsed_time"),
    ("torch.testing", "assert_close"),
    ("numpy.testing", "assert_allclose"),
    ("numpy.testing", "assert_array_equal"),
]


def replaced(monkeypatch, where, path, look, by=stand_in):
    """What ``look`` says while the name is replaced; pytest itself needs it back at once."""
    owner = OWNERS.get(where) or importlib.import_module(where)
    *classes, name = path.split(".")
    for each in classes:
        owner = getattr(owner, each)
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, by)
        return look()


def test_nothing_is_replaced_here():
    """A false alarm here would be one in every case."""
    assert clocks.finding() is None
    assert patched.builtin() is None
    assert patched.everything() is None


@pytest.mark.parametrize("name", CLOCKS)
def test_a_clock_is_found_at_every_depth(monkeypatch, name):
    for look in (clocks.finding, patched.builtin, patched.everything):
        finding = replaced(monkeypatch, "time", name, look)
        assert finding is not None
        assert f"time.{name} was replaced by stand_in (test_patched.py:" in finding.evidence
    assert finding.guard == "patched names"
    assert not finding.declarable


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("optest.timing.wall", "time"),
        ("optest.timing.sampling", "time"),
        ("optest.timing.wall", "NS_PER_US"),
        ("optest.testing.measuring", "US_PER_MS"),
    ],
)
def test_the_way_to_the_clock_is_found(monkeypatch, module, name):
    """A module's own ``time``, or its nanoseconds in a microsecond, scale every reading."""
    finding = replaced(monkeypatch, module, name, clocks.finding, by=7.0)
    assert finding is not None
    assert f"{module}.{name}" in finding.evidence


@pytest.mark.parametrize(("where", "name"), BUILTIN)
def test_a_function_that_comparisons_are_made_of_is_found(monkeypatch, where, name):
    for look in (patched.builtin, patched.everything):
        finding = replaced(monkeypatch, where, name, look)
        assert finding is not None
        assert finding.evidence.startswith(f"{where}.{name} was replaced")
    assert replaced(monkeypatch, where, name, clocks.finding) is None


@pytest.mark.parametrize(("where", "name"), DEEP)
def test_what_is_dear_to_look_at_is_found_by_the_full_look(monkeypatch, where, name):
    finding = replaced(monkeypatch, where, name, patched.everything)
    assert finding is not None
    assert f"{where}.{name} was replaced" in finding.evidence


@pytest.mark.parametrize(
    ("module", "path"),
    [
        ("optest.cases.check", "compare"),
        ("optest.checking", "compare"),
        ("optest.checking.verdict", "Verdict.raise_if_failed"),
        ("optest.cases.session", "Session.note_check"),
        ("optest.cases.perftest", "measure"),
        ("optest.guards.plain", "finding"),
        ("optest.stats", "median"),
        ("optest.tensors", "same_bytes"),
        ("optest.testing.assertions", "assert_allclose"),
        ("optest.test_common", "checkAllclose"),
    ],
)
def test_a_function_of_the_house_is_found(monkeypatch, module, path):
    finding = replaced(monkeypatch, module, path, patched.everything)
    assert finding is not None
    assert f"{module}.{path} was replaced by stand_in" in finding.evidence


class StandIn:
    def __call__(self, *args, **kwargs):
        return True


def made_by_exec():
    scope = {}
    exec("def compare(*args, **kwargs):\n    return True", scope)
    return scope["compare"]


@pytest.mark.parametrize(
    "stand_in",
    [StandIn(), StandIn, functools.partial(stand_in), operator.eq, [].append, made_by_exec()],
    ids=["object", "class", "partial", "built-in", "method of a list", "exec"],
)
@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("optest.cases.check", "compare"),
        ("optest.timing.wall", "WallClock"),
        ("optest.checking.decode", "codes_of"),
    ],
)
def test_whatever_stands_in_for_a_function_or_a_class_is_found(monkeypatch, module, name, stand_in):
    """Only functions with code from another file would be a gap that anybody finds."""
    finding = replaced(monkeypatch, module, name, patched.everything, by=stand_in)
    assert finding is not None
    assert f"{module}.{name} was replaced" in finding.evidence


def test_a_method_that_exec_made_is_found(monkeypatch):
    """Only what dataclass makes, by names of its kind, may come from no file."""
    by = made_by_exec()
    finding = replaced(
        monkeypatch, "optest.cases.session", "Session.note_check", patched.everything, by=by
    )
    assert finding is not None
    assert "Session.note_check was replaced" in finding.evidence


def _code_of(module, path):
    value = importlib.import_module(module)
    for part in path.split("."):
        value = vars(value)[part]
    return getattr(value, "fget", None) or getattr(value, "__func__", None) or value


@pytest.mark.parametrize(
    ("module", "path"),
    [
        ("optest.tensors", "same_bytes"),
        ("optest.checking.verdict", "Verdict.passed"),  # a property
        ("optest.cases.session", "Session.from_environment"),  # a class method
        ("optest.cases.check", "_record"),
    ],
)
def test_code_that_was_exchanged_in_place_is_found(monkeypatch, module, path):
    """The name still holds the function that it held; only what it does is another's."""
    function = _code_of(module, path)
    with monkeypatch.context() as patch:
        patch.setattr(function, "__code__", stand_in.__code__)
        finding = patched.everything()
    assert finding is not None
    assert "test_patched.py" in finding.evidence
    assert patched.everything() is None


def test_a_wrapper_of_torchs_own_is_accepted(monkeypatch):
    """Its compiler puts wrappers around a few of its functions; that is no cheat."""
    own = torch.functional.norm
    assert replaced(monkeypatch, "torch", "manual_seed", patched.everything, by=own) is None
    assert replaced(monkeypatch, "torch.Tensor", "sum", patched.everything, by=own) is None


def test_a_name_that_is_gone_is_found(monkeypatch):
    with monkeypatch.context() as patch:
        patch.delattr(time, "monotonic_ns")
        finding = clocks.finding()
    assert finding is not None
    assert "time.monotonic_ns" in finding.evidence


def test_the_face_is_the_houses_own():
    assert optest.test_common.run_perftest.__module__.startswith("optest.")
