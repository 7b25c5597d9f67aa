"""The drop-in face: what scripts written for aiter's ``test_common`` import, by the same names."""

from optest.arch import get_arch, get_gfx
from optest.cases.benchmark import benchmark
from optest.cases.check import assertAllclose, checkAllclose
from optest.cases.dump import tensor_dump, tensor_load
from optest.cases.perftest import perftest, run_perftest
from optest.cases.session import expect_failure
from optest.cases.spawn import ensure_spawn_method
from optest.cases.summary import summarize
from optest.timing.profiler import get_trace_perf

__all__ = [
    "assertAllclose",
    "benchmark",
    "checkAllclose",
    "ensure_spawn_method",
    "expect_failure",
    "get_arch",
    "get_gfx",
    "get_trace_perf",
    "perftest",
    "run_perftest",
    "summarize",
    "tensor_dump",
    "tensor_load",
]
