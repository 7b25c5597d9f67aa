"""Products of 8-bit matrices. Their weights are cold: the copies of each round drop them."""

from __future__ import annotations

from functools import partial

import torch

from kernels import scaling
from kernels.contest import Contest, Makers, Rival, against_inductor
from kernels.linear import FEW, bf16_rivals, of_bf16, random_codes
from optest import native, ops

ROWS = (1, FEW, 512)
BLOCK = 128


def product(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Exact sums of int8; e4m3 is exact in bf16, of which oneDNN has a product."""
    if x.dtype == torch.int8:
        return torch._int_mm(x, w.t())  # noqa: SLF001 - the only one of int8 that torch has
    return x.bfloat16() @ w.bfloat16().t()


def scaled_product(
    x: torch.Tensor, w: torch.Tensor, x_scale: torch.Tensor, w_scale: torch.Tensor
) -> torch.Tensor:
    return (product(x, w) * x_scale * w_scale.t()).bfloat16()


def product_of_scaled(
    x: torch.Tensor, w: torch.Tensor, x_scale: torch.Tensor, w_scale: torch.Tensor
) -> torch.Tensor:
    """Both operands scaled in bf16 before they are multiplied."""
    (m, k), n = x.shape, len(w)
    x_each = x.bfloat16().view(m, -1, BLOCK) * x_scale.bfloat16().unsqueeze(-1)
    w_each = w.bfloat16().view(n // BLOCK, BLOCK, -1, BLOCK)
    w_each = w_each * w_scale.bfloat16()[:, None, :, None]
    return x_each.view(m, k) @ w_each.view(n, k).t()


def int_mm(x: torch.Tensor, w: torch.Tensor) -> dict[str, Rival]:
    """For int8 alone: e4m3 has to be multiplied as bf16, at half the rate of int8."""
    if x.dtype != torch.int8:
        return {}
    return {"int_mm": Rival(lambda: product(x, w), of_bf16(len(x)) if len(x) > FEW else 0.0)}


def gemm_a8w8(mib: int, kind: str, m: int) -> Contest:
    """Of Llama-3-70B's gate_up_proj, as one rank of two has it."""
    dtype, n, k = scaling.WAYS[kind][0], max(56 * mib, 64), 8192
    x, w, out = random_codes(m, k, dtype), random_codes(n, k, dtype), torch.empty(m, n)
    out, x_scale, w_scale = out.bfloat16(), torch.rand(m, 1), torch.rand(n, 1)
    packed, run = ops.gemm_quant.pack_weight(w), native.csrc("gemm_quant").gemm_a8w8
    compiled = against_inductor(scaled_product, x, w, x_scale, w_scale, slow=kind == "fp8")
    return Contest(
        f"{m}x{n}x{k}",
        x.nbytes + w.nbytes + out.nbytes + x_scale.nbytes + w_scale.nbytes,
        lambda: run(out, x, packed, x_scale, w_scale),
        {**compiled, **bf16_rivals(m, n, k, dtype), **int_mm(x, w)},
        of_copy=0.0,
    )


def gemm_a8w8_blockscale(mib: int, kind: str, m: int) -> Contest:
    """Of DeepSeek-V3's hidden_size, n being as many as fill the memory."""
    dtype, n, k = scaling.WAYS[kind][0], max(32 * mib, BLOCK), 7168
    x, w, out = random_codes(m, k, dtype), random_codes(n, k, dtype), torch.empty(m, n)
    out, x_scale, w_scale = (
        out.bfloat16(),
        torch.rand(m, k // BLOCK),
        torch.rand(n // BLOCK, k // BLOCK),
    )
    packed, run = ops.gemm_quant.pack_weight(w), native.csrc("gemm_quant").gemm_a8w8_blockscale
    return Contest(
        f"{m}x{n}x{k}",
        x.nbytes + w.nbytes + out.nbytes + x_scale.nbytes + w_scale.nbytes,
        lambda: run(out, x, packed, x_scale, w_scale),
        {
            **against_inductor(product_of_scaled, x, w, x_scale, w_scale, slow=True),
            **bf16_rivals(m, n, k, dtype),
            **int_mm(x, w),
        },
        of_copy=0.0,
    )


def batched_gemm_a8w8(mib: int, kind: str, m: int) -> Contest:
    """Of DeepSeek-V3's W_UK: few rows by the heads of as many layers as fill the memory."""
    dtype, n, k = scaling.WAYS[kind][0], 512, 128
    b = 4 * mib if m <= FEW else 128
    x, w = random_codes(b * m, k, dtype).view(b, m, k), random_codes(b * n, k, dtype).view(b, n, k)
    x_scale, w_scale = torch.rand(b, m, 1), torch.rand(b, n, 1)
    out, packed = torch.empty(b, m, n).bfloat16(), ops.gemm_quant.pack_weight(w)
    run, wide_x, wide_w = native.csrc("gemm_quant").batched_gemm_a8w8, x.bfloat16(), w.bfloat16()

    def way(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return (torch.bmm(x.bfloat16(), w.bfloat16().mT) * x_scale * w_scale.mT).bfloat16()

    return Contest(
        f"{b}x{m}x{n}x{k}",
        x.nbytes + w.nbytes + out.nbytes + x_scale.nbytes + w_scale.nbytes,
        lambda: run(out, x, packed, x_scale, w_scale),
        {
            **against_inductor(way, x, w, slow=True),
            "bf16": Rival(lambda: torch.bmm(wide_x, wide_w.mT), of_bf16(m)),
        },
        of_copy=0.0,
    )


def contests(mib: int) -> Makers:
    return {
        f"{make.__name__} {kind} {m}": partial(make, mib, kind, m)
        for make in (gemm_a8w8, gemm_a8w8_blockscale, batched_gemm_a8w8)
        for kind in scaling.WAYS
        for m in ROWS
    }
