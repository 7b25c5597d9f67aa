"""Products of a mixture's experts, pair by pair, and their weighted sum."""

from __future__ import annotations

import pytest
import torch

from aiter_ref import moe
from optest import native
from optest.ops.fused_moe import pack_experts

FLOATS = [torch.bfloat16, torch.float16, torch.float32]
CODES = [torch.int8, torch.float8_e4m3fn]
# Tokens, n, k, experts, topk: below, at and above tiles and blocks; more experts than pairs.
SHAPES = [(1, 1, 1, 1, 1), (7, 129, 127, 5, 2), (2, 32, 64, 16, 3), (90, 40, 200, 3, 2)]


LIMIT_UNIT = "limit_moe_dot_unit"


@pytest.fixture(scope="module")
def ops():
    return native.csrc("moe_gemm")


def sorted_pairs(m, experts, topk, block=16):
    ids = torch.rand(m, experts).topk(topk).indices.int()
    made = moe.moe_sorting(ids, torch.ones(m, topk), experts, block)
    return ids, (made.ids, made.experts, made.total)


def operands(shape, dtype):
    m, n, k, experts, topk = shape
    if dtype == torch.int8:
        made = [
            torch.randint(-128, 128, size, dtype=dtype) for size in ((m, k + 3), (experts, n, k))
        ]
    else:
        made = [torch.randn(size).to(dtype) for size in ((m, k + 3), (experts, n, k))]
    return made[0][:, 1 : k + 1], made[1], *sorted_pairs(m, experts, topk)


def wanted(x, w, ids):
    """Row by row: that of the pair's token by the pair's expert."""
    tokens = x.double().repeat_interleave(ids.shape[1], 0)
    return torch.einsum("pk,pnk->pn", tokens, w.double()[ids.flatten().long()])


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_grouped_gemm(ops, unit, shape, dtype):
    """Another token's or expert's row, ragged tiles, weights packed in another order."""
    x, w, ids, order = operands(shape, dtype)
    want = wanted(x, w, ids)
    for out_dtype in (dtype, torch.float32):
        room = torch.full((len(want), shape[1] + 2), torch.nan, dtype=out_dtype)
        ops.grouped_gemm(room[:, 1:-1], x, pack_experts(w), *order, ids.shape[1])
        steps = {torch.bfloat16: 2**-8, torch.float16: 2**-11, torch.float32: 1e-6}
        atol = 1e-6 * float(want.abs().max())
        torch.testing.assert_close(room[:, 1:-1].double(), want, rtol=steps[out_dtype], atol=atol)
        assert room[:, [0, -1]].isnan().all()


@pytest.mark.parametrize("dtype", CODES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_grouped_gemm_a8w8(ops, unit, shape, dtype):
    """Scales of another token, expert or column."""
    x, w, ids, order = operands(shape, dtype)
    x_scale, w_scale = torch.rand(len(x), 1), torch.rand(*w.shape[:2], 1)
    by_column = w_scale.double()[ids.flatten().long(), :, 0]
    want = wanted(x, w, ids) * x_scale.double().repeat_interleave(ids.shape[1], 0) * by_column
    out = torch.full(want.shape, torch.nan)
    ops.grouped_gemm_a8w8(out, x, pack_experts(w), x_scale, w_scale, *order, ids.shape[1])
    torch.testing.assert_close(
        out.double(), want, rtol=1e-6, atol=2e-6 * float(want.abs().max()) + 1e-9
    )


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_experts_are_multiplied_in_groups(ops, unit, dtype):
    """One that all tokens ask is alone; those of few rows share a group, and do not fit one."""
    m, n, k, experts = 300, 17, 1024, 30
    rare = torch.randint(1, experts, (m,))
    ids = torch.stack([torch.full((m,), 7), rare + (rare == 7)], 1).int()
    made = moe.moe_sorting(ids, torch.ones(m, 2), experts + 1, 16)
    x, w = torch.randn(m, k).to(dtype), torch.randn(experts + 1, n, k).to(dtype)
    out = torch.full((2 * m, n), torch.nan)
    ops.grouped_gemm(out, x, pack_experts(w), made.ids, made.experts, made.total, 2)
    want = wanted(x, w, ids)
    atol = 1e-6 * float(want.abs().max())
    torch.testing.assert_close(out.double(), want, rtol=1e-6, atol=atol)


def test_pairs_of_other_ranks(ops):
    """Their rows are not written, and not read where the parts are added up."""
    ids = torch.tensor([[0, 7], [-1, 1], [5, 5]], dtype=torch.int32)
    made = moe.moe_sorting(ids, torch.ones(3, 2), 2, 16)
    x, w = torch.randn(3, 8), torch.randn(2, 4, 8)
    parts = torch.full((6, 4), torch.nan)
    ops.grouped_gemm(parts, x, pack_experts(w), made.ids, made.experts, made.total, 2)
    assert parts.isnan().all(1).tolist() == [False, True, True, False, True, True]
    out, weights = torch.full((3, 4), torch.nan), torch.rand(3, 2)
    ops.moe_combine(out, parts, weights, ids, 2)
    want = torch.stack([weights[0, 0] * (w[0] @ x[0]), weights[1, 1] * (w[1] @ x[1]), 0 * out[0]])
    want[2] = 0
    torch.testing.assert_close(out, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("shape", [(1, 1, 1), (5, 3, 33), (70, 8, 300), (0, 2, 3), (3, 2, 0)])
def test_moe_combine(ops, shape, dtype):
    m, topk, n = shape
    parts, weights = torch.randn(m * topk, n), torch.rand(m, topk)
    out = torch.full((m, n + 1), torch.nan, dtype=dtype)[:, :n]
    ops.moe_combine(out, parts, weights, torch.zeros(m, topk, dtype=torch.int32), 1)
    want = (parts.view(m, topk, n).double() * weights.double()[..., None]).sum(1)
    rtol = {torch.bfloat16: 2**-8, torch.float16: 2**-11, torch.float32: 1e-6}[dtype]
    torch.testing.assert_close(out.double(), want, rtol=rtol, atol=1e-6)


def test_the_order_of_packed_weights():
    """It may be kept in files: panels of 16 rows, blocks of k; bf16 with two k side by side."""
    w = torch.randn(2, 20, 70)
    full = torch.zeros(2, 32, 128)
    full[:, :20, :70] = w
    want = full.view(2, 2, 16, 128).transpose(2, 3)
    assert torch.equal(pack_experts(w).view(2, 2, 128, 16), want)
    pairs = full.bfloat16().view(2, 2, 16, 64, 2).transpose(2, 3)
    assert torch.equal(pack_experts(w.bfloat16()).view(2, 2, 64, 16, 2), pairs)


X, W, OUT = torch.zeros(2, 8), torch.zeros(3, 1, 1024), torch.zeros(4, 6)
IDS, EXPERTS = torch.full((32,), 4, dtype=torch.int32), torch.zeros(2, dtype=torch.int32)
TOTAL = torch.full((1,), 32, dtype=torch.int32)
ORDER = (IDS, EXPERTS, TOTAL)
BAD = {
    "w has dtype": lambda ops: ops.grouped_gemm(OUT, X.half(), W, *ORDER, 2),
    "out has dtype": lambda ops: ops.grouped_gemm(OUT.half(), X, W, *ORDER, 2),
    r"w has shape \[3, 6, 8\], expected \[experts, 1, 1024\]": lambda ops: ops.grouped_gemm(
        OUT, X, torch.zeros(3, 6, 8), *ORDER, 2
    ),
    r"out has shape \[4, 6\], expected 1 rows": lambda ops: ops.grouped_gemm(OUT, X, W, *ORDER, 1),
    "total is 31": lambda ops: ops.grouped_gemm(OUT, X, W, IDS, EXPERTS, TOTAL - 1, 2),
    "block_experts holds 3": lambda ops: ops.grouped_gemm(OUT, X, W, IDS, EXPERTS + 3, TOTAL, 2),
    "sorted_ids holds -1": lambda ops: ops.grouped_gemm(OUT, X, W, IDS - 5, EXPERTS, TOTAL, 2),
    "sorted_ids has dtype": lambda ops: ops.grouped_gemm(OUT, X, W, IDS.long(), EXPERTS, TOTAL, 2),
    r"x_scale has shape \[3\]": lambda ops: ops.grouped_gemm_a8w8(
        OUT, X.to(torch.int8), W.to(torch.int8), torch.ones(3), torch.ones(18), *ORDER, 2
    ),
    r"y has shape \[3, 6\]": lambda ops: ops.moe_combine(
        OUT[:2], OUT[:3], torch.ones(2, 2), IDS[:4].view(2, 2), 3
    ),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_arguments_are_named(ops, message):
    with pytest.raises(ValueError, match=message):
        BAD[message](ops)
