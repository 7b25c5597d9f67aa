"""Quantisation to mxfp4, and products of it. Weights are cold: each round's copies drop them."""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F  # noqa: N812

from kernels.contest import SHARE_OF_COPY_FP8, Contest, Makers, against_inductor, against_torch
from kernels.inputs import random_rows, rows_of
from kernels.linear import FEW, bf16_rivals
from optest import native, ops

BLOCK = 32
NUMBERS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def to_mxfp4(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """For finite x: a power of two scales a block, so that fp32 is exact."""
    blocks = x.float().view(len(x), -1, BLOCK)
    scale = ((blocks.abs().amax(-1).view(torch.int32) >> 23) - 2).clamp(min=0)
    scaled = blocks * ((254 - scale) << 23).view(torch.float32).unsqueeze(-1)
    size = scaled.abs().clamp(max=6)
    rounded = torch.where(size < 4, size.round() + 2, (size / 2).round() + 4)
    code = torch.where(size < 2, (size * 2).round(), rounded).int() | (scaled < 0).int() << 3
    pairs = code.view(len(x), -1, 2)
    return (pairs[:, :, 0] | pairs[:, :, 1] << 4).to(torch.uint8), scale.to(torch.uint8)


def quant_mxfp4(mib: int) -> Contest:
    """Rounding to fp4 takes as much arithmetic as to fp8."""
    k = 4096
    x = random_rows(rows_of(mib, k), k)
    codes, scales = (torch.empty(len(x), k // each, dtype=torch.uint8) for each in (2, BLOCK))
    run = native.csrc("mx").quant_mxfp4
    return Contest(
        f"{len(x)}x{k}",
        x.nbytes + codes.nbytes + scales.nbytes,
        lambda: run(codes, x, scales),
        against_torch(to_mxfp4, x),
        SHARE_OF_COPY_FP8,
    )


def decoded(codes: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    table = torch.tensor([*NUMBERS, *(-number for number in NUMBERS)]).bfloat16()
    pairs = torch.stack((table[(codes & 15).long()], table[(codes >> 4).long()]), dim=-1)
    power = (scales.int() << 23).view(torch.float32).bfloat16()
    blocks = pairs.view(len(codes), -1, BLOCK) * power.unsqueeze(-1)
    return blocks.view(len(codes), -1)


def product_of_decoded(
    x: torch.Tensor, w: torch.Tensor, x_scale: torch.Tensor, w_scale: torch.Tensor
) -> torch.Tensor:
    return F.linear(decoded(x, x_scale), decoded(w, w_scale))


def gemm_a4w4(mib: int, m: int) -> Contest:
    """Of Llama-3-70B's gate_up_proj, as one rank of two has it."""
    n, k = max(56 * mib, 64), 8192
    x, x_scale = ops.mx.quant_mxfp4(torch.randn(m, k))
    w, w_scale = ops.mx.quant_mxfp4(random_rows(n, k))
    out, run = torch.empty(m, n).bfloat16(), native.csrc("mx").gemm_a4w4
    packed, packed_scale = ops.mx.pack_mxfp4_weight(w, w_scale)
    return Contest(
        f"{m}x{n}x{k}",
        x.nbytes + x_scale.nbytes + w.nbytes + w_scale.nbytes + out.nbytes,
        lambda: run(out, x, packed, x_scale, packed_scale),
        {
            **against_inductor(product_of_decoded, x, w, x_scale, w_scale, slow=True),
            **bf16_rivals(m, n, k, w.dtype),
        },
        of_copy=0.0,
    )


def contests(mib: int) -> Makers:
    products = {f"gemm_a4w4 {m}": partial(gemm_a4w4, mib, m) for m in (1, FEW, 512)}
    return {"quant_mxfp4": partial(quant_mxfp4, mib), **products}
