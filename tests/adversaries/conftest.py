"""Makes the kernels of this folder importable, and puts the process back after each of them."""

from __future__ import annotations

import gc
import os
import random
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

sys.path.append(str(Path(__file__).parent))


@pytest.fixture(autouse=True, scope="module")
def _small_heap():
    """Guards collect garbage where memory grows; what the modules hold need not be looked at."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def _warm(monkeypatch):
    """Emptying the caches before each call is timing's own to test, and takes most of the time."""
    monkeypatch.setenv("OPTEST_CACHE", "warm")
    monkeypatch.setenv("OPTEST_BUDGET_S", "0.05")


@pytest.fixture(autouse=True)
def _process_as_it_was():
    from cheats import undo

    before = {name: read() for name, (read, _) in _STATE.items()}
    yield
    undo.everything()
    for name, (_, write) in _STATE.items():
        write(before[name])


def _write_environment(variables):
    os.environ.clear()
    os.environ.update(variables)


_STATE = {
    "default dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "threads": (torch.get_num_threads, torch.set_num_threads),
    "gradients": (torch.is_grad_enabled, torch._C._set_grad_enabled),
    "default device": (
        torch.get_default_device,
        lambda device: torch.set_default_device(None if device.type == "cpu" else device),
    ),
    "deterministic": (
        torch.are_deterministic_algorithms_enabled,
        torch.use_deterministic_algorithms,
    ),
    "matmul precision": (
        torch.get_float32_matmul_precision,
        torch.set_float32_matmul_precision,
    ),
    "folder": (os.getcwd, os.chdir),
    "environment": (lambda: dict(os.environ), _write_environment),
    "torch's numbers": (torch.get_rng_state, torch.set_rng_state),
    "numpy's numbers": (np.random.get_state, np.random.set_state),
    "random's numbers": (random.getstate, random.setstate),
}
