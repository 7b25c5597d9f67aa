"""Golden tests: specs of a kernel's arguments, a torch reference, and the call that compares them.

Importing this package imports neither torch nor a GPU runtime; each name loads when it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from optest.lazy import face

if TYPE_CHECKING:
    from optest.golden.config import Config
    from optest.golden.direction import In, InOut, Out
    from optest.golden.result import RunResult
    from optest.golden.runner import run
    from optest.golden.scalar import ScalarSpec
    from optest.golden.spec import TensorSpec
    from optest.golden.triton_kernel import TritonKernel
    from optest.golden.validation import (
        error_distribution,
        mapped_pool_ratio_allclose,
        mapped_pool_ratio_reldiff,
        ratio_allclose,
        ratio_reldiff,
        topk_pair_compare,
        validate_golden,
    )

_WHERE = {
    "Config": "optest.golden.config",
    "In": "optest.golden.direction",
    "InOut": "optest.golden.direction",
    "Out": "optest.golden.direction",
    "RunResult": "optest.golden.result",
    "ScalarSpec": "optest.golden.scalar",
    "TensorSpec": "optest.golden.spec",
    "TritonKernel": "optest.golden.triton_kernel",
    "error_distribution": "optest.golden.validation",
    "mapped_pool_ratio_allclose": "optest.golden.validation",
    "mapped_pool_ratio_reldiff": "optest.golden.validation",
    "ratio_allclose": "optest.golden.validation",
    "ratio_reldiff": "optest.golden.validation",
    "run": "optest.golden.runner",
    "topk_pair_compare": "optest.golden.validation",
    "validate_golden": "optest.golden.validation",
}

__all__ = [
    "Config",
    "In",
    "InOut",
    "Out",
    "RunResult",
    "ScalarSpec",
    "TensorSpec",
    "TritonKernel",
    "error_distribution",
    "mapped_pool_ratio_allclose",
    "mapped_pool_ratio_reldiff",
    "ratio_allclose",
    "ratio_reldiff",
    "run",
    "topk_pair_compare",
    "validate_golden",
]

__getattr__, __dir__ = face(__name__, _WHERE)
