"""Gated activations."""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F  # noqa: N812

from kernels.contest import SHARE_OF_COPY, Contest, Makers, against_torch
from kernels.inputs import random_rows, rows_of
from optest import native

D = 14336


def silu_and_mul(x: torch.Tensor) -> torch.Tensor:
    gate, up = x.chunk(2, -1)
    return F.silu(gate) * up


def gelu_and_mul(x: torch.Tensor) -> torch.Tensor:
    gate, up = x.chunk(2, -1)
    return F.gelu(gate) * up


# Arithmetic, not memory, limits the error function.
WAYS = {"silu_and_mul": (silu_and_mul, SHARE_OF_COPY), "gelu_and_mul": (gelu_and_mul, 0.0)}


def gated(mib: int, name: str) -> Contest:
    way, of_copy = WAYS[name]
    x = random_rows(rows_of(mib, 2 * D), 2 * D)
    out, run = torch.empty(len(x), D, dtype=x.dtype), getattr(native.csrc("activation"), name)
    return Contest(
        f"{len(x)}x{2 * D}",
        x.nbytes + out.nbytes,
        lambda: run(out, x),
        against_torch(way, x),
        of_copy,
    )


def contests(mib: int) -> Makers:
    return {name: partial(gated, mib, name) for name in WAYS}
