"""Importing does nothing: no heavy library, no state changed, no circle, whatever comes first."""

from __future__ import annotations

import json
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import aiter_ref
import optest
from optest import lazy

OP_TESTS = Path(__file__).parents[1] / "op_tests"

# One process per module would load torch some seventy times; a fork each loads it once. Each child
# imports one module first, as a user's script might, and reports what that changed.
IN_FORKS = """
import importlib, json, os, sys, threading, traceback
import numpy, pandas, torch

def state():
    return {
        "environment": dict(os.environ),
        "working folder": os.getcwd(),
        "default device": str(torch.get_default_device()),
        "default dtype": str(torch.get_default_dtype()),
        "threads of torch": torch.get_num_threads(),
        "seed": torch.initial_seed(),
        "threads": threading.active_count(),
        "import path": list(sys.path),
        "standard output": id(sys.stdout),
        "cuda initialised": torch.cuda.is_initialized(),
    }

def changed_by(name):
    before = state()
    try:
        importlib.import_module(name)
    except BaseException:
        return traceback.format_exc(limit=-3)
    after = state()
    return ", ".join(key for key in before if before[key] != after[key])

faults = {}
for name in sys.argv[1:]:
    out_of_child, into_parent = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(into_parent, changed_by(name).encode()[:60000])
        os._exit(0)
    os.close(into_parent)
    with os.fdopen(out_of_child) as pipe:
        if fault := pipe.read():
            faults[name] = fault
    os.waitpid(child, 0)
print(json.dumps(faults))
"""

COST = """
import sys, time
import torch, pandas
start = time.perf_counter()
import optest.test_common
print(time.perf_counter() - start)
"""


def _python(code: str, *args: str, **environ: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, *args],
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _modules() -> list[str]:
    names = []
    for package in (optest, aiter_ref):
        names.append(package.__name__)
        names += [
            found.name for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
        ]
    return names + [f"op_tests.{path.stem}" for path in sorted(OP_TESTS.glob("test_*.py"))]


@pytest.mark.parametrize(
    "module", ["optest", "optest.arch", "optest.dtypes", "optest.settings", "optest.log"]
)
def test_the_ground_floor_loads_without_torch(module):
    heavy = _python(
        f"import sys, {module}; "
        "print([m for m in ('torch', 'triton', 'numpy', 'pandas', 'jax') if m in sys.modules])"
    )
    assert heavy.strip() == "[]"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_each_module_can_be_imported_first_and_changes_nothing():
    faults = json.loads(_python(IN_FORKS, *_modules()))
    assert not faults, "\n".join(f"{name}: {fault}" for name, fault in faults.items())


def test_references_import_nothing_but_torch():
    loaded = _python(
        "import importlib, sys, torch; before = set(sys.modules)\n"
        "for name in sys.argv[1:]: importlib.import_module(name)\n"
        "new = {m.split('.')[0] for m in set(sys.modules) - before}\n"
        "print(sorted(new - {'aiter_ref', 'torch'} - sys.stdlib_module_names))",
        *[name for name in _modules() if name.startswith("aiter_ref")],
    )
    assert loaded.strip() == "[]"


def test_the_face_costs_a_fifth_of_a_second_at_most():
    # The least of three: a busy machine only ever adds.
    assert min(float(_python(COST)) for _ in range(3)) <= 0.2


def test_a_face_gives_sub_modules_themselves_and_of_others_the_name():
    get, names = lazy.face("optest", {"arch": "optest.arch", "get_gfx": "optest.arch"})
    assert get("arch") is sys.modules["optest.arch"]
    assert get("get_gfx") is sys.modules["optest.arch"].get_gfx
    assert {"arch", "get_gfx", "__name__"} <= set(names())
    with pytest.raises(AttributeError, match="module 'optest' has no attribute 'gfx'"):
        get("gfx")
