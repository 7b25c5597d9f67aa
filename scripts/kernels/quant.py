"""Quantisation by token and by group."""

from __future__ import annotations

from functools import partial

import torch

from kernels import scaling
from kernels.contest import Contest, Makers, against_torch
from kernels.inputs import random_rows, rows_of
from optest import native

LENGTH, GROUP = 4096, 128


def per_token(mib: int, kind: str) -> Contest:
    (dtype, way), rows = scaling.WAYS[kind], rows_of(mib, LENGTH)
    x, out = random_rows(rows, LENGTH), torch.empty(rows, LENGTH, dtype=dtype)
    scales, run = torch.empty(rows, 1), native.csrc("quant").dynamic_per_token_quant
    return Contest(
        f"{rows}x{LENGTH}",
        x.nbytes + out.nbytes + scales.nbytes,
        lambda: run(out, x, scales),
        against_torch(way, x, eager=scaling.OF_EAGER[kind]),
        scaling.OF_COPY[kind],
    )


def per_group(mib: int, kind: str) -> Contest:
    (dtype, way), rows = scaling.WAYS[kind], rows_of(mib, LENGTH)
    x, out = random_rows(rows, LENGTH), torch.empty(rows, LENGTH, dtype=dtype)
    scales = torch.empty(rows, LENGTH // GROUP)
    run, groups = native.csrc("quant").dynamic_per_group_quant, x.view(rows, -1, GROUP)
    return Contest(
        f"{rows}x{LENGTH}",
        x.nbytes + out.nbytes + scales.nbytes,
        lambda: run(out, x, scales, GROUP),
        against_torch(way, groups, eager=scaling.OF_EAGER[kind]),
        scaling.OF_COPY[kind],
    )


def contests(mib: int) -> Makers:
    ways = {"per-token": per_token, "per-group": per_group}
    return {
        f"{name} {kind}": partial(make, mib, kind)
        for kind in scaling.WAYS
        for name, make in ways.items()
    }
