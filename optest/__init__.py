"""optest: which kernels are right, how fast each is, one markdown table per test function.

Importing this package imports neither torch nor a GPU runtime; each name loads when it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from optest.lazy import face

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
    "logger": "optest.log",
    "get_arch": "optest.arch",
    "get_gfx": "optest.arch",
    "get_gfx_runtime": "optest.arch",
    "benchmark": "optest.cases.benchmark",
    "run_perftest": "optest.cases.perftest",
    "perftest": "optest.cases.perftest",
    "checkAllclose": "optest.cases.check",
    "assertAllclose": "optest.cases.check",
    "expect_failure": "optest.cases.session",
    "summarize": "optest.cases.summary",
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

__getattr__, __dir__ = face(__name__, _WHERE)
