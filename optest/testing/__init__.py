"""KernelFoundry-style tests of a kernel: a task file, its build, its checks and its one benchmark.

Importing this package imports neither torch nor pytest; each name loads when it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from optest.lazy import face

if TYPE_CHECKING:
    from optest.testing.assertions import all_close_with_slack, assert_allclose, cosine_similarity
    from optest.testing.base import CustomTest, TestBase
    from optest.testing.blocks import get_block, update_block
    from optest.testing.measuring import measure_runtime, measure_runtime_torch
    from optest.testing.names import get_test_names
    from optest.testing.options import get_runtime_params_from_argv
    from optest.testing.profiler import detect_profiler, profiler_session

_WHERE = {
    "TestBase": "optest.testing.base",
    "CustomTest": "optest.testing.base",
    "assert_allclose": "optest.testing.assertions",
    "all_close_with_slack": "optest.testing.assertions",
    "cosine_similarity": "optest.testing.assertions",
    "get_block": "optest.testing.blocks",
    "update_block": "optest.testing.blocks",
    "get_test_names": "optest.testing.names",
    "measure_runtime": "optest.testing.measuring",
    "measure_runtime_torch": "optest.testing.measuring",
    "get_runtime_params_from_argv": "optest.testing.options",
    "detect_profiler": "optest.testing.profiler",
    "profiler_session": "optest.testing.profiler",
}

__all__ = [
    "CustomTest",
    "TestBase",
    "all_close_with_slack",
    "assert_allclose",
    "cosine_similarity",
    "detect_profiler",
    "get_block",
    "get_runtime_params_from_argv",
    "get_test_names",
    "measure_runtime",
    "measure_runtime_torch",
    "profiler_session",
    "update_block",
]

__getattr__, __dir__ = face(__name__, _WHERE)
