"""Microscaling by one convention (``aiter_ref.mx``): csrc on the CPU, Triton on a GPU.

fp4 (e2m1) lies two a byte, as ``torch.float4_e2m1fn_x2`` or uint8; scales are e8m0, as
``torch.float8_e8m0fnu`` or uint8.
"""

from __future__ import annotations

import torch

from optest.ops.dispatch import csrc, kernels, on_cpu

_BLOCK = 32
_PANEL, _PANEL_BLOCK = 16, 64


def quant_mxfp4(
    x: torch.Tensor, *, out: torch.Tensor | None = None, scales: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantise rows in blocks of 32; the last may be short, and an odd last column gets a zero.

    x [m, k] bf16, fp16 or fp32 -> codes [m, ceil(k/2)], scales [m, ceil(k/32)]; uint8 where they
    are allocated here.
    """
    m, k = x.shape
    q = x.new_empty(m, -(-k // 2), dtype=torch.uint8) if out is None else out
    s = x.new_empty(m, -(-k // _BLOCK), dtype=torch.uint8) if scales is None else scales
    kernels(x, "mx").quant_mxfp4(q.view(torch.uint8), x, s.view(torch.uint8))
    return q, s


def pack_mxfp4_weight(w: torch.Tensor, w_scale: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A weight and its scales in the order in which the kernels of their device read them.

    w [n, ceil(k/2)], w_scale [n, ceil(k/32)] -> on a GPU the same two; on a CPU, as uint8 and in
    panels of 16 rows, codes [ceil(n/16), ceil(k/64) * 512] as [pair of k][16 rows] and scales
    [ceil(n/16), ceil(k/64) * 32] as [32 k][16 rows].
    """
    if not on_cpu(w):
        return w, w_scale
    panels, blocks = -(-w.shape[0] // _PANEL), -(-2 * w.shape[1] // _PANEL_BLOCK)
    codes = w.new_empty(panels, blocks * _PANEL * _PANEL_BLOCK // 2, dtype=torch.uint8)
    scales = w.new_empty(panels, blocks * _PANEL * _PANEL_BLOCK // _BLOCK, dtype=torch.uint8)
    csrc("mx").pack_mxfp4_w(codes, scales, w.view(torch.uint8), w_scale.view(torch.uint8))
    return codes, scales


def gemm_a4w4(
    x: torch.Tensor,
    w: torch.Tensor,
    x_scale: torch.Tensor,
    w_scale: torch.Tensor,
    out: torch.Tensor,
) -> torch.Tensor:
    """The product of mxfp4 operands, ``w`` and ``w_scale`` as ``pack_mxfp4_weight`` makes them.

    x [m, ceil(k/2)], x_scale [m, ceil(k/32)] -> out [m, n] bf16, fp16 or fp32. Sums are fp32; what
    is below bf16's normal numbers may count as zero.
    """
    as_bytes = [tensor.view(torch.uint8) for tensor in (x, w, x_scale, w_scale)]
    kernels(x, "mx").gemm_a4w4(out, *as_bytes)
    return out
