"""Operators that run on the tensors' own device: csrc on a CPU, Triton on a GPU.

Importing this package builds nothing and imports no Triton.
"""

from optest.ops import activation, batched_gemm, cache, gemm, inductor, norm, quant
from optest.ops.dispatch import own_kernel

__all__ = ["activation", "batched_gemm", "cache", "gemm", "inductor", "norm", "own_kernel", "quant"]
