"""What a candidate leaves changed in the process is named, and put back."""

from __future__ import annotations

import os
import sys

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from optest.guards import process


class Lying(TorchFunctionMode):
    """Says that nothing has changed, whatever is asked."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is torch.get_default_device:
            return torch.device("cpu")
        return func(*args, **(kwargs or {}))


class Passing(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


ENTRIES = {
    "function modes of torch": lambda tmp: Lying().__enter__(),
    "dispatch modes of torch": lambda tmp: Passing().__enter__(),
    "default dtype": lambda tmp: torch.set_default_dtype(torch.float64),
    "thread count": lambda tmp: torch.set_num_threads(torch.get_num_threads() + 1),
    "gradient mode": lambda tmp: torch.set_grad_enabled(not torch.is_grad_enabled()),
    "deterministic algorithms": lambda tmp: torch.use_deterministic_algorithms(
        not torch.are_deterministic_algorithms_enabled(), warn_only=True
    ),
    "default device": lambda tmp: torch.set_default_device("meta"),
    "profiler hook": lambda tmp: sys.setprofile(lambda *_: None),
    "trace hook": lambda tmp: sys.settrace(lambda *_: None),
    "working folder": os.chdir,
    "float32 matmul precision": lambda tmp: torch.set_float32_matmul_precision("medium"),
    "use of oneDNN": lambda tmp: torch._C._set_mkldnn_enabled(not torch._C._get_mkldnn_enabled()),
    "flushing of denormal numbers": lambda tmp: torch.set_flush_denormal(True),
    "environment": lambda tmp: os.environ.update(SOME_SWITCH="1"),
}


@pytest.fixture(autouse=True)
def _as_it_was():
    before = process.now()
    yield
    assert process.put_back(before) in ([], ["environment"])  # pytest keeps a variable of its own


def test_every_entry_of_the_table_is_changed_here():
    assert set(ENTRIES) == set(process.now())


@pytest.mark.parametrize("name", ENTRIES)
def test_a_change_is_named_alone_and_put_back(name, tmp_path):
    """What stays changed decides under which conditions the next candidate runs."""
    before = process.now()
    ENTRIES[name](tmp_path)
    assert process.now()[name] != before[name]
    assert process.put_back(before) == [name]
    assert process.now() == before
    assert process.put_back(before) == []


def test_several_changes_are_all_named(tmp_path):
    before = process.now()
    for change in ENTRIES.values():
        change(tmp_path)
    assert process.put_back(before) == list(process.now())


def test_deterministic_algorithms_come_back_as_a_warning_only():
    """Put back as strict, an operator without a deterministic form would raise from then on."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    before = process.now()
    torch.use_deterministic_algorithms(True)
    assert process.put_back(before) == ["deterministic algorithms"]
    assert torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(False)


def test_a_default_device_of_cpu_leaves_no_mode_behind():
    """A mode costs a microsecond on every torch call, and that would be timed."""
    before = process.now()
    torch.set_default_device("meta")
    process.put_back(before)
    assert torch.overrides._get_current_function_mode() is None


class TestEnvironment:
    @pytest.mark.parametrize(
        ("before", "after"),
        [
            ({}, {"A_SWITCH": "1"}),
            ({"A_SWITCH": "1"}, {}),
            ({"A_SWITCH": "1"}, {"A_SWITCH": "2"}),
            ({"A_SWITCH": "ä"}, {"A_SWITCH": ""}),
        ],
        ids=["added", "taken away", "changed", "no ASCII"],
    )
    def test_a_variable_comes_back(self, monkeypatch, before, after):
        monkeypatch.delenv("A_SWITCH", raising=False)
        for name, value in before.items():
            monkeypatch.setenv(name, value)
        state = process.now()
        monkeypatch.delenv("A_SWITCH", raising=False)
        for name, value in after.items():
            monkeypatch.setenv(name, value)
        assert process.put_back(state) == ["environment"]
        assert os.environ.get("A_SWITCH") == before.get("A_SWITCH")

    def test_the_folders_that_the_compiler_keeps_there_are_no_change_and_stay(self, monkeypatch):
        """torch.compile sets them on first use; taken away, it would compile everything anew."""
        monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/before")
        state = process.now()
        monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/after")
        assert process.put_back(state) == []
        monkeypatch.setenv("A_SWITCH", "1")
        assert process.put_back(state) == ["environment"]
        assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == "/after"
        assert "A_SWITCH" not in os.environ


def test_the_finding_names_what_was_changed():
    finding = process.finding("default dtype")
    assert (finding.guard, finding.declarable) == ("process state", False)
    assert "changed the default dtype of the process" in finding.evidence
