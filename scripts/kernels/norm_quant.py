"""Quantisation with what stands before it: a normalised sum, a smoothed activation."""

from __future__ import annotations

from functools import partial

import torch

from kernels import scaling
from kernels.contest import Contest, Makers, against_torch
from kernels.inputs import random_rows, rows_of
from optest import native


def add_rmsnorm_quant(mib: int, kind: str) -> Contest:
    (dtype, to), length = scaling.WAYS[kind], 7168
    x = random_rows(rows_of(mib, length, 0.5), length)
    weight, residual = torch.randn(length).bfloat16(), torch.zeros_like(x)
    out, scales = torch.empty(x.shape, dtype=dtype), torch.empty(len(x))
    run = native.csrc("norm_quant").fused_add_rmsnorm_quant

    def way(
        x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor
    ) -> tuple[object, torch.Tensor]:
        total = x + residual
        wide = total.float()
        inverse = torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)
        return to(wide * inverse * weight.float()), total

    return Contest(
        f"{len(x)}x{length}",
        3 * x.nbytes + out.nbytes + scales.nbytes,
        lambda: run(out, scales, x, residual, weight, 1e-6),
        against_torch(way, x, residual, weight, eager=scaling.OF_EAGER[kind]),
        scaling.OF_COPY[kind],
    )


def smoothquant(mib: int, kind: str) -> Contest:
    (dtype, to), length = scaling.WAYS[kind], 14336
    x = random_rows(rows_of(mib, length), length)
    by = torch.rand(length) + 0.1
    out, scales = torch.empty(x.shape, dtype=dtype), torch.empty(len(x))
    run = native.csrc("norm_quant").smoothquant

    def way(x: torch.Tensor, by: torch.Tensor) -> object:
        return to(x.float() * by)

    return Contest(
        f"{len(x)}x{length}",
        x.nbytes + out.nbytes + scales.nbytes,
        lambda: run(out, scales, x, by),
        against_torch(way, x, by, eager=scaling.OF_EAGER[kind]),
        scaling.OF_COPY[kind],
    )


def contests(mib: int) -> Makers:
    return {
        f"{make.__name__} {kind}": partial(make, mib, kind)
        for make in (add_rmsnorm_quant, smoothquant)
        for kind in scaling.WAYS
    }
