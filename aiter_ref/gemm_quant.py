"""Matrix products of 8-bit operands with fp32 scales; weights are kept as [n, k].

int8 by int8 is exact in any order of summing, and in fp64; e4m3 by e4m3 is exact in each product.
"""

from __future__ import annotations

import torch

from aiter_ref.cost import Cost

SCALE_BLOCK = 128  # columns, and rows of a weight, that share a scale
_SCALE_BYTES = 4


def gemm_a8w8(
    x: torch.Tensor,
    w: torch.Tensor,
    x_scale: torch.Tensor,
    w_scale: torch.Tensor,
    dtype: torch.dtype,
) -> torch.Tensor:
    """``y = (x @ w.T) * x_scale * w_scale.T``: one scale a token, one an output channel.

    x [..., m, k], w [..., n, k] int8 or fp8, x_scale [..., m, 1], w_scale [..., n, 1] fp32 ->
    [..., m, n] ``dtype``. Source: Dettmers et al., LLM.int8(), 2022, equation 3 (outer product of
    scales).
    """
    product = x.double() @ w.double().transpose(-1, -2)
    scales = x_scale.double() * w_scale.double().transpose(-1, -2)
    return (product * scales).to(dtype)


def gemm_a8w8_blockscale(
    x: torch.Tensor,
    w: torch.Tensor,
    x_scale: torch.Tensor,
    w_scale: torch.Tensor,
    dtype: torch.dtype,
) -> torch.Tensor:
    """The product of what x and w stand for: x scaled by 1 x 128, w by 128 x 128.

    x [m, k], w [n, k] int8 or fp8, x_scale [m, ceil(k/128)], w_scale [ceil(n/128), ceil(k/128)]
    fp32 -> [m, n] ``dtype``; the last blocks may be short. Source: DeepSeek-V3 Technical Report,
    2024, section 3.3.2.
    """
    n, k = w.shape
    x_each = x_scale.double().repeat_interleave(SCALE_BLOCK, 1)[:, :k]
    w_each = w_scale.double().repeat_interleave(SCALE_BLOCK, 0)[:n]
    w_each = w_each.repeat_interleave(SCALE_BLOCK, 1)[:, :k]
    return ((x.double() * x_each) @ (w.double() * w_each).t()).to(dtype)


def block_quant(w: torch.Tensor, quant_dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantise a weight with one scale for 128 by 128 of it.

    w [n, k] -> q [n, k] ``quant_dtype``, scales [ceil(n/128), ceil(k/128)] fp32: amax over the
    largest finite value, 1 where that is 0.
    """
    n, k = w.shape
    block = SCALE_BLOCK
    down, across = -(-n // block), -(-k // block)
    padded = torch.nn.functional.pad(w.float(), (0, across * block - k, 0, down * block - n))
    blocks = padded.view(down, block, across, block)
    info = torch.finfo if quant_dtype.is_floating_point else torch.iinfo
    limit = float(info(quant_dtype).max)
    scales = (
        blocks.abs().amax(dim=(1, 3)) / limit if blocks.numel() else blocks.new_ones(down, across)
    )
    scales = torch.where(scales == 0, 1.0, scales)
    scaled = (blocks / scales[:, None, :, None]).clamp(-limit, limit)
    if not quant_dtype.is_floating_point:
        scaled = scaled.round()
    q = scaled.to(quant_dtype).view(down * block, across * block)
    return q[:n, :k].contiguous(), scales


def gemm_a8w8_cost(m: int, n: int, k: int, itemsize: int, batch: int = 1) -> Cost:
    """Of ``gemm_a8w8`` to results of ``itemsize`` bytes: 2mnk as BLAS counts, 2mn of scaling."""
    nbytes = (m + n) * (k + _SCALE_BYTES) + m * n * itemsize
    return Cost(batch * (2 * m * n * k + 2 * m * n), batch * nbytes)


def gemm_a8w8_blockscale_cost(m: int, n: int, k: int, itemsize: int) -> Cost:
    """Of ``gemm_a8w8_blockscale``: 2mnk as BLAS counts; a scaling of each operand's elements."""
    down, across = -(-n // SCALE_BLOCK), -(-k // SCALE_BLOCK)
    nbytes = (m + n) * k + _SCALE_BYTES * (m + down) * across + m * n * itemsize
    return Cost(2 * m * n * k + (m + n) * k, nbytes)
