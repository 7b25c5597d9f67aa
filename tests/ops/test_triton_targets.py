"""Every Triton kernel compiles ahead of time for every card, none of which is here."""

from __future__ import annotations

import pytest

from optest.errors import BuildError
from optest.native.triton_aot import TARGETS, Request, compile_kernels

HOME = "optest.ops.triton"
FP8 = {"gfx942": ("*fp8e4b8", 240.0)}  # the others take e4m3fn
ROW = dict.fromkeys(("m", "k", "n", "d", "x_row", "q_row", "out_row", "residual_row"), "i32")
GEMM = {f"{t}_{axis}": "i32" for t in "xwy" for axis in ("batch", "row", "col")}
CACHE = dict.fromkeys(
    "width block_size key_row value_row key_block key_slot value_block value_slot".split(), "i32"
)


def ints(*names):
    return {name: ROW[name] for name in names}


def quant(target):
    """The five quantisation kernels, in the fp8 of the card and in int8."""
    for q, limit in (FP8.get(target, ("*fp8e4nv", 448.0)), ("*i8", 127.0)):
        rows = {"x": "*bf16:16", "q": f"{q}:16", **ints("k", "x_row", "q_row")}
        block = {"LIMIT": limit, "BLOCK": 1024}
        yield "quant:static_kernel", {**rows, "scale": "*fp32"}, block
        yield "quant:token_kernel", {**rows, "scales": "*fp32"}, block
        group = {**rows, "scales": "*fp32", "groups": "i32", "group": "i32"}
        yield "quant:group_kernel", group, {"LIMIT": limit, "GROUPS": 16, "BLOCK": 128}
    largest = {"x": "*bf16:16", "partial": "*fp32", **ints("m", "k", "x_row")}
    yield "quant:largest_kernel", largest, {"BLOCK": 1024}
    scale = {"partial": "*fp32", "scale": "*fp32", "n": "i32"}
    yield "quant:tensor_scale_kernel", scale, {"LIMIT": 127.0, "BLOCK": 1024}


def others():
    norm = {"x": "*bf16:16", "weight": "*bf16:16", "eps": "fp32", **ints("n", "x_row")}
    yield "norm:rmsnorm_kernel", {**norm, "out": "*bf16:16", "out_row": "i32"}, {"BLOCK": 1024}
    fused = {**norm, "residual": "*bf16:16", "residual_row": "i32"}
    yield "norm:fused_add_rmsnorm_kernel", fused, {"BLOCK": 1024}
    gated = {"out": "*bf16:16", "x": "*bf16:16", **ints("d", "out_row", "x_row")}
    for kind in ("silu", "gelu", "gelu_tanh"):
        yield "activation:act_and_mul_kernel", gated, {"KIND": kind, "BLOCK": 1024}
    caches = dict.fromkeys(("key", "value", "key_cache", "value_cache"), "*bf16:16")
    yield "cache:reshape_and_cache_kernel", {**caches, "slots": "*i64", **CACHE}, {"BLOCK": 1024}
    for dtype, block in (("*bf16:16", 64), ("*fp32:16", 32)):
        operands = {**dict.fromkeys("xwy", dtype), **ints("m", "n", "k"), **GEMM}
        tiles = {"BLOCK_M": block, "BLOCK_N": block, "BLOCK_K": 32, "GROUP": 8}
        yield "gemm:gemm_kernel", operands, tiles


def foreign_fp8():
    """The fnuz flavour is AMD's of one generation: another card must not take it silently."""
    rows = {"x": "*bf16", "q": "*fp8e4b8", "scale": "*fp32", **ints("k", "x_row", "q_row")}
    constants = {"LIMIT": 240.0, "BLOCK": 1024}
    return Request(f"{HOME}.quant:static_kernel", rows, constants, "sm_90")


@pytest.fixture(scope="module")
def answers():
    """One child process compiles everything; later runs find it in Triton's cache."""
    requests = [
        Request(f"{HOME}.{kernel}", signature, constants, target)
        for target in TARGETS
        for kernel, signature, constants in (*quant(target), *others())
    ]
    requests.append(foreign_fp8())
    return list(zip(requests, compile_kernels(requests), strict=True))


@pytest.mark.parametrize("target", TARGETS)
def test_compiles(answers, target):
    mine = [answer for request, answer in answers[:-1] if request.target == target]
    assert len(mine) == 16
    refused = [str(answer) for answer in mine if isinstance(answer, BuildError)]
    assert not refused, "\n".join(refused)
    # Nothing that a card of this kind cannot launch: 64 KiB is the smallest local memory of all.
    assert max(answer.shared_bytes for answer in mine) <= 64 << 10
    spilled = [a.kernel for a in mine if a.spills]
    assert not spilled


def test_a_foreign_fp8_is_refused(answers):
    answer = answers[-1][1]
    assert isinstance(answer, BuildError)
    assert "fp8e4b8" in str(answer)
