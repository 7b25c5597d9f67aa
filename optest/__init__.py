"""optest: which kernels are right, how fast each is, one markdown table per test function.

Importing this package imports neither torch nor a GPU runtime; each name loads when it is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optest import arch, dtypes, native, ops
    from optest.arch import get_arch, get_gfx, get_gfx_runtime
    from optest.cases.benchmark import benchmark
    from optest.cases.check import assertAllclose, checkAllclose
    from optest.cases.perftest import perftest, run_perftest
    from optest.cases.session import expect_failure
    from optest.cases.summary import summarize
    from optest.log import logger

__version__ = "0.1.0"

_WHERE = {
    "arch": "optest.arch",
    "dtypes": "optest.dtypes",
    "native": "optest.native",
    "ops": "optest.ops",
    "logger": "optest.log:logger",
    "get_arch": "optest.arch:get_arch",
    "get_gfx": "optest.arch:get_gfx",
    "get_gfx_runtime": "optest.arch:get_gfx_runtime",
    "benchmark": "optest.cases.benchmark:benchmark",
    "run_perftest": "optest.cases.perftest:run_perftest",
    "perftest": "optest.cases.perftest:perftest",
    "checkAllclose": "optest.cases.check:checkAllclose",
    "assertAllclose": "optest.cases.check:assertAllclose",
    "expect_failure": "optest.cases.session:expect_failure",
    "summarize": "optest.cases.summary:summarize",
}

__all__ = [
    "arch",
    "assertAllclose",
    "benchmark",
    "checkAllclose",
    "dtypes",
    "expect_failure",
    "get_arch",
    "get_gfx",
    "get_gfx_runtime",
    "logger",
    "native",
    "ops",
    "perftest",
    "run_perftest",
    "summarize",
]


def __getattr__(name: str) -> object:
    if name not in _WHERE:
        raise AttributeError(f"module 'optest' has no attribute {name!r}")
    module, _, attribute = _WHERE[name].partition(":")
    loaded = importlib.import_module(module)
    value = getattr(loaded, attribute) if attribute else loaded
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
