"""Triton's products of a mixture in the interpreter, as the layer has them, and for cards."""

from __future__ import annotations

import pytest
import torch
from lowering import assert_lowers

from aiter_ref import fused_moe as ref
from aiter_ref import quant as ref_quant
from optest import ops
from optest.errors import UsageError
from optest.ops.triton import moe_gemm

# Half a step of each rounding on the way: two to the dtype between the products, one of the result.
ATOL = {torch.bfloat16: 2**-7, torch.float16: 2**-10, torch.float32: 1e-5}
# Tokens, hidden, inter, experts, topk; more experts than pairs, ragged tiles, nothing.
SHAPES = [(1, 1, 1, 1, 1), (7, 33, 65, 5, 2), (2, 40, 24, 16, 3), (0, 5, 7, 3, 2), (3, 5, 0, 3, 1)]


@pytest.fixture
def as_on_a_card(monkeypatch):
    """The wrappers take Triton for tensors of the CPU."""
    for home in (ops.dispatch, ops.activation, ops.fused_moe, ops.gemm_quant):
        monkeypatch.setattr(home, "on_cpu", lambda _tensor: False)


def routed(m, experts, topk):
    return torch.rand(m, experts).topk(topk).indices.int(), torch.rand(m, topk)


def experts_of(experts, n, k):
    return torch.randn(experts, n, k) * max(k, 1) ** -0.5


def quantised(x, dtype):
    q, scales = ref_quant.dynamic_per_token_quant(x.flatten(0, -2), dtype)
    return q.view(x.shape), scales.view(*x.shape[:-1], 1)


@pytest.mark.usefixtures("as_on_a_card")
@pytest.mark.parametrize("dtype", ATOL, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_fused_moe(shape, dtype):
    """Rows, experts or weights of another pair; ragged tiles; padding that is added up."""
    m, hidden, inter, experts, topk = shape
    ids, weights = routed(m, experts, topk)
    x = torch.randn(m, hidden).to(dtype)
    w_gate_up = experts_of(experts, 2 * inter, hidden).to(dtype)
    w_down = experts_of(experts, hidden, inter).to(dtype)
    got = ops.fused_moe.fused_moe(x, w_gate_up, w_down, weights, ids, inter=inter)
    want = ref.fused_moe(x, w_gate_up, w_down, weights, ids)
    torch.testing.assert_close(got, want, rtol=ATOL[dtype], atol=ATOL[dtype])


@pytest.mark.usefixtures("as_on_a_card")
@pytest.mark.parametrize("quant_dtype", [torch.int8, torch.float8_e4m3fn], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_fused_moe_a8w8(shape, quant_dtype):
    """Scales of another token, expert or column; h that is quantised as another row."""
    m, hidden, inter, experts, topk = shape
    ids, weights = routed(m, experts, topk)
    x, x_scale = quantised(torch.randn(m, hidden), quant_dtype)
    gate_up = quantised(experts_of(experts, 2 * inter, hidden), quant_dtype)
    down = quantised(experts_of(experts, hidden, inter), quant_dtype)
    operands = (x, x_scale, *gate_up, *down, weights, ids)
    got = ops.fused_moe.fused_moe_a8w8(*operands, out=torch.full((m, hidden), torch.nan))
    want = ref.fused_moe_a8w8(*operands, torch.float32)
    # A code of h may be rounded the other way: a step of 1/127 or 1/16 of one of its elements.
    torch.testing.assert_close(got, want, rtol=1e-5, atol=5e-3)
    exact = torch.isclose(got, want, rtol=1e-5, atol=1e-5).float().mean() if got.numel() else 1.0
    assert exact > 0.5


# The activation runs over their rows, which hold whatever memory held.
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.usefixtures("as_on_a_card")
def test_pairs_of_other_ranks_add_nothing():
    """What memory held in their rows must not be read, even where it is no number."""
    ids = torch.tensor([[0, 7], [-1, 1], [5, 5]], dtype=torch.int32)
    weights, x = torch.rand(3, 2), torch.randn(3, 8)
    w_gate_up, w_down = torch.randn(2, 12, 8), torch.randn(2, 8, 6)
    got = ops.fused_moe.fused_moe(x, w_gate_up, w_down, weights, ids, inter=6)
    want = ref.fused_moe(x, w_gate_up, w_down, weights, ids)
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
    assert (got[2] == 0).all()


OUT, X, W = torch.zeros(4, 6), torch.zeros(2, 8), torch.zeros(3, 6, 8)
IDS, EXPERTS = torch.zeros(32, dtype=torch.int32), torch.zeros(2, dtype=torch.int32)
CODES = (torch.zeros(2, 8, dtype=torch.int8), torch.zeros(3, 6, 8, dtype=torch.int8))
REFUSED = {
    r"w: shape \(6, 8\)": lambda: moe_gemm.grouped_gemm(OUT, X, W[0], IDS, EXPERTS, EXPERTS, 2),
    "expected the same, one of": lambda: moe_gemm.grouped_gemm(
        OUT, X.half(), W, IDS, EXPERTS, EXPERTS, 2
    ),
    r"out: shape \(4, 6\).*expected \[2, 6\]": lambda: moe_gemm.grouped_gemm(
        OUT, X, W, IDS, EXPERTS, EXPERTS, 1
    ),
    "blocks of 8 pairs": lambda: moe_gemm.grouped_gemm(OUT, X, W, IDS[:16], EXPERTS, EXPERTS, 2),
    "sorted_ids: torch.int64": lambda: moe_gemm.grouped_gemm(
        OUT, X, W, IDS.long(), EXPERTS, EXPERTS, 2
    ),
    "x_scale: .*expected 2 contiguous": lambda: moe_gemm.grouped_gemm_a8w8(
        OUT, *CODES, torch.ones(3), torch.ones(18), IDS, EXPERTS, EXPERTS, 2
    ),
    "y: .*expected 24 contiguous": lambda: moe_gemm.moe_combine(
        torch.zeros(2, 6), OUT[:3], torch.ones(2, 2), IDS[:4].view(2, 2), 3
    ),
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_does_not_fit_is_refused(words):
    with pytest.raises(UsageError, match=words):
        REFUSED[words]()


def kernels(target):
    fp8 = "*fp8e4b8" if target == "gfx942" else "*fp8e4nv"
    ints = dict.fromkeys(("sorted_ids", "block_experts"), "*i32:16")
    sizes = dict.fromkeys(("pairs", "shared", "n", "k"), "i32")
    strides = dict.fromkeys(("x_row", "w_expert", "w_row", "y_row"), "i32:16")
    for dtype, total in (("*bf16", "tl.float32"), ("*i8", "tl.int32"), (fp8, "tl.float32")):
        operands = {"x": f"{dtype}:16", "w": f"{dtype}:16", "y": "*fp32:16", **ints}
        scaled = dtype != "*bf16"
        scales = dict.fromkeys(("x_scale", "w_scale"), "*fp32:16" if scaled else f"{dtype}:16")
        tiles = {"BLOCK_M": 64, "BLOCK_N": 128, "BLOCK_K": 64}
        constants = {**tiles, "SUM": total, "SCALED": scaled}
        yield "moe_gemm:grouped_kernel", {**operands, **scales, **sizes, **strides}, constants
    combined = {"out": "*bf16:16", "y": "*fp32:16", "weights": "*fp32:16", "ids": "*i32:16"}
    counts = dict.fromkeys(("topk", "experts", "n"), "i32")
    yield "moe_gemm:combine_kernel", {**combined, **counts, "out_row": "i32:16"}, {"BLOCK": 1024}


def test_lowers():
    assert_lowers(kernels)
