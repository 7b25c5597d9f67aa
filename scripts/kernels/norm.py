"""Normalisation: of root mean squares, with a sum before it, of layers."""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F  # noqa: N812

from kernels.contest import Contest, Makers, against_torch
from kernels.inputs import random_rows, rows_of
from optest import native

LENGTH = 8192


def rms_normed(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return F.rms_norm(x, (x.shape[-1],), weight, 1e-6)


def added_and_normed(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    total = x + residual
    return rms_normed(total, weight), total


def layer_normed(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x, (x.shape[-1],), weight, bias, 1e-6)


def rmsnorm(mib: int) -> Contest:
    x = random_rows(rows_of(mib, LENGTH), LENGTH)
    weight, out = torch.randn(LENGTH).bfloat16(), torch.empty_like(x)
    run = native.csrc("norm").rmsnorm
    return Contest(
        f"{len(x)}x{LENGTH}",
        2 * x.nbytes,
        lambda: run(out, x, weight, 1e-6),
        against_torch(rms_normed, x, weight),
    )


def fused_add_rmsnorm(mib: int) -> Contest:
    x = random_rows(rows_of(mib, LENGTH, 0.5), LENGTH)
    weight, residual = torch.randn(LENGTH).bfloat16(), torch.zeros_like(x)
    run = native.csrc("norm").fused_add_rmsnorm
    return Contest(
        f"{len(x)}x{LENGTH}",
        4 * x.nbytes,
        lambda: run(x, residual, weight, 1e-6),
        against_torch(added_and_normed, x, residual, weight),
    )


def layernorm(mib: int) -> Contest:
    x = random_rows(rows_of(mib, LENGTH), LENGTH)
    weight, bias = torch.randn(2, LENGTH).bfloat16()
    out, run = torch.empty_like(x), native.csrc("layernorm").layernorm
    return Contest(
        f"{len(x)}x{LENGTH}",
        2 * x.nbytes,
        lambda: run(out, x, weight, bias, 1e-6),
        against_torch(layer_normed, x, weight, bias),
    )


def contests(mib: int) -> Makers:
    makers = (rmsnorm, fused_add_rmsnorm, layernorm)
    return {make.__name__: partial(make, mib) for make in makers}
