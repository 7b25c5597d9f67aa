"""Triton kernels of microscaling; the convention is that of ``aiter_ref.mx``."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from optest.ops.triton.common import INTERPRETED, block_of, cast, load_fp32, require, require_rows

_BLOCK = 32
_BLOCKS_AT_A_TIME = 64
_OUT_DTYPES = (torch.bfloat16, torch.float16, torch.float32)


@triton.jit
def _e2m1_of(value):
    """Codes of fp32 numbers, ties to the even one: see ``encode_e2m1`` of csrc/mx_kernels.inl."""
    bits = value.to(tl.int32, bitcast=True)
    magnitude = tl.minimum(tl.abs(value), 6.0)
    power = tl.maximum(magnitude.to(tl.int32, bitcast=True) & 0x7F800000, 0x3F800000)
    total = power.to(tl.float32, bitcast=True) * 4194304.0 + magnitude
    code = total.to(tl.int32, bitcast=True)
    return ((code + (code >> 22) - 298) & 7) | ((bits >> 28) & 8)


@triton.jit
def quant_mxfp4_kernel(
    x, q, scales, k, blocks, x_row, q_row, scales_row, BLOCKS: tl.constexpr, BLOCK: tl.constexpr
):
    """Program (i, j) quantises ``BLOCKS`` neighbouring blocks of row i."""
    row = tl.program_id(0).to(tl.int64)
    index = tl.program_id(1) * BLOCKS + tl.arange(0, BLOCKS)
    columns = index[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
    value = load_fp32(x + row * x_row + columns, columns < k)
    largest = tl.max(value.to(tl.int32, bitcast=True) & 0x7FFFFFFF, 1)
    exponent = largest >> 23
    scale = tl.maximum(exponent - 2, 0)
    is_finite = exponent < 255
    inverse = ((254 - scale) << 23).to(tl.float32, bitcast=True)
    scaled = tl.where(is_finite[:, None], value, 0.0) * inverse[:, None]
    even, odd = tl.split(tl.reshape(_e2m1_of(scaled), (BLOCKS, BLOCK // 2, 2)))
    stored = tl.where(is_finite, scale, 255).to(tl.uint8)
    tl.store(scales + row * scales_row + index, stored, mask=index < blocks)
    pairs = index[:, None] * (BLOCK // 2) + tl.arange(0, BLOCK // 2)[None, :]
    tl.store(q + row * q_row + pairs, (even | (odd << 4)).to(tl.uint8), mask=pairs * 2 < k)


@triton.jit
def _number_of(code, scale):
    """bf16 of e2m1 codes times powers of two (e8m0), which is exact; fp32 in the interpreter."""
    size = code & 7
    small = tl.where(size == 1, 0.5, 0.0)
    normal = ((size << 22) + (126 << 23)).to(tl.float32, bitcast=True)
    number = tl.where(size > 1, normal, small)
    number = tl.where((code & 8) != 0, -number, number)
    # The exponent 0 stands for 2^-127, which lies below fp32's normal numbers.
    power = tl.where(scale > 0, scale << 23, 1 << 22)
    power = tl.where(scale == 255, 0x7FC00000, power).to(tl.float32, bitcast=True)
    scaled = number * power
    if INTERPRETED:
        return scaled
    return scaled.to(tl.bfloat16)


@triton.jit
def gemm_a4w4_kernel(
    x, w, y, x_scale, w_scale, m, n, pairs, x_row, w_row, y_row, x_scale_row, w_scale_row,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, PAIRS: tl.constexpr,
):  # fmt: skip
    """Program (i, j) writes one tile: codes of even k by such, then those of odd k by such."""
    rows = (tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
    columns = (tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)).to(tl.int64)
    depth = tl.arange(0, PAIRS)
    total = tl.zeros([BLOCK_M, BLOCK_N], dtype=tl.float32)
    for start in range(0, pairs, PAIRS):
        at = start + depth
        x_inside = (rows[:, None] < m) & (at[None, :] < pairs)
        w_inside = (columns[None, :] < n) & (at[:, None] < pairs)
        a = tl.load(x + rows[:, None] * x_row + at[None, :], mask=x_inside, other=0).to(tl.int32)
        b = tl.load(w + columns[None, :] * w_row + at[:, None], mask=w_inside, other=0)
        b = b.to(tl.int32)
        a_at = x_scale + rows[:, None] * x_scale_row + at[None, :] // 16
        b_at = w_scale + columns[None, :] * w_scale_row + at[:, None] // 16
        a_by = tl.load(a_at, mask=x_inside, other=0).to(tl.int32)
        b_by = tl.load(b_at, mask=w_inside, other=0).to(tl.int32)
        total = tl.dot(
            _number_of(a & 15, a_by), _number_of(b & 15, b_by), total, input_precision="ieee"
        )
        total = tl.dot(
            _number_of(a >> 4, a_by), _number_of(b >> 4, b_by), total, input_precision="ieee"
        )
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    y_at = y + rows[:, None] * y_row + columns[None, :]
    tl.store(y_at, cast(total, y.dtype.element_ty), mask=inside)


def quant_mxfp4(q: torch.Tensor, x: torch.Tensor, scales: torch.Tensor) -> None:
    """Write q [m, ceil(k/2)] and scales [m, ceil(k/32)] uint8 from x [m, k].

    Raises:
        UsageError: a shape, stride or dtype that the kernel does not take.
    """
    require(x.dim() == 2, f"x: shape {tuple(x.shape)}, expected [m, k].")
    m, k = x.shape
    blocks = triton.cdiv(k, _BLOCK)
    require_rows("x", x, (m, k))
    for name, tensor, length in (("out", q, triton.cdiv(k, 2)), ("scales", scales, blocks)):
        require_rows(name, tensor, (m, length))
        require(tensor.dtype is torch.uint8, f"{name}: {tensor.dtype}, expected torch.uint8.")
    if x.numel():
        some = block_of(blocks, largest=_BLOCKS_AT_A_TIME)
        quant_mxfp4_kernel[(m, triton.cdiv(blocks, some))](
            x, q, scales, k, blocks, x.stride(0), q.stride(0), scales.stride(0),
            BLOCKS=some, BLOCK=_BLOCK,
        )  # fmt: skip


def gemm_a4w4(
    y: torch.Tensor,
    x: torch.Tensor,
    w: torch.Tensor,
    x_scale: torch.Tensor,
    w_scale: torch.Tensor,
) -> None:
    """Write y [m, n] from codes x [m, k/2], w [n, k/2] and scales [m, k/32], [n, k/32], all uint8.

    Raises:
        UsageError: a shape, stride or dtype that the kernel does not take.
    """
    for name, tensor in (("x", x), ("w", w)):
        require(tensor.dim() == 2, f"{name}: shape {tuple(tensor.shape)}, expected [rows, k / 2].")
    (m, pairs), n = x.shape, w.shape[0]
    across = triton.cdiv(pairs, _BLOCK // 2)
    for name, tensor, shape in (
        ("x", x, (m, pairs)),
        ("w", w, (n, pairs)),
        ("x_scale", x_scale, (m, across)),
        ("w_scale", w_scale, (n, across)),
    ):
        require_rows(name, tensor, shape)
        require(tensor.dtype is torch.uint8, f"{name}: {tensor.dtype}, expected torch.uint8.")
    require_rows("out", y, (m, n))
    require(y.dtype in _OUT_DTYPES, f"out: {y.dtype}, expected one of {_OUT_DTYPES}.")
    if y.numel():
        block_m = max(16, block_of(m, largest=64))
        block_n = max(16, block_of(n, largest=64))
        gemm_a4w4_kernel[(triton.cdiv(m, block_m), triton.cdiv(n, block_n))](
            x, w, y, x_scale, w_scale, m, n, pairs,
            x.stride(0), w.stride(0), y.stride(0), x_scale.stride(0), w_scale.stride(0),
            BLOCK_M=block_m, BLOCK_N=block_n, PAIRS=32,
        )  # fmt: skip
