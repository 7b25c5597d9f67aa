"""The experts of a mixture, in bf16 or 8 bits: which kernels are right, how fast each is."""

import argparse
import itertools

import torch

from aiter_ref import fused_moe as ref
from aiter_ref import quant as ref_quant
from optest import dtypes, logger, ops
from optest.test_common import benchmark, checkAllclose, get_gfx, run_perftest, summarize

SUPPORTED_GFX = ["cpu", "gfx942", "gfx950", "gfx1250", "sm_89", "sm_90", "sm_100", "sm_120"]
# Tokens of which some experts have none; ragged tiles; no token at all.
SMOKE = ["-d", "bf16", "-s", "1,64,96", "33,96,40", "7,129,127", "0,16,16", "--experts", "8,2"]

# Half a step of the output.
RTOL = {dtypes.bf16: 2**-8, dtypes.fp16: 2**-11, dtypes.fp32: 2**-20}


def run_torch(*operands):
    """Those of ``fused_moe``, or those of 8 bits with their scales and the result's dtype."""
    return ref.fused_moe(*operands) if len(operands) == 5 else ref.fused_moe_a8w8(*operands)


def routed(tokens, experts, topk):
    """Some experts are more popular than others; a token takes none twice; weights add up to 1."""
    chosen = (torch.randn(tokens, experts) + torch.randn(experts)).softmax(-1).topk(topk)
    return chosen.indices.int(), chosen.values / chosen.values.sum(-1, keepdim=True)


def quantised(w, quant_dtype):
    """By output channel of each expert, or by token."""
    q, scales = ref_quant.dynamic_per_token_quant(w.flatten(0, -2), quant_dtype)
    return q.view(w.shape), scales.view(*w.shape[:-1], 1)


def measured(candidates, args, want, cost, rtol, share):
    """us, TFLOPS, TB/s and err of each; ``share`` of a typical result may be off by addition."""
    atol = share * want.float().square().mean().sqrt().item() if want.numel() else 0.0
    ret = {"gfx": get_gfx()}
    for name, fn in candidates.items():
        y = torch.empty_like(want)
        _, us = run_perftest(fn, *args[name], y)  # the model reads y
        err = checkAllclose(want, y, rtol=rtol, atol=atol, tol_err_ratio=0.01, msg=name)
        ret[f"{name} us"] = us
        ret[f"{name} TFLOPS"] = cost.flops / us / 1e6
        ret[f"{name} TB/s"] = cost.nbytes / us / 1e6
        ret[f"{name} err"] = err
    return ret


@benchmark()
def test_fused_moe(tokens, hidden, inter, experts, topk, dtype):
    x = torch.randn(tokens, hidden, dtype=dtype)
    gate_up = torch.randn(experts, 2 * inter, hidden, dtype=dtype) * max(hidden, 1) ** -0.5
    down = torch.randn(experts, hidden, inter, dtype=dtype) * max(inter, 1) ** -0.5
    ids, weights = routed(tokens, experts, topk)
    want = run_torch(x, gate_up, down, weights, ids)
    candidates = {"torch_by_expert": ops.fused_moe.by_expert}
    args = {"torch_by_expert": (x, gate_up, down, weights, ids)}
    own = ops.own_kernel()  # None on a CPU without a compiler, which is said in the log
    if own:
        candidates[own] = lambda *args: ops.fused_moe.fused_moe(*args[:5], inter=inter, out=args[5])
        packed = map(ops.fused_moe.pack_experts, (gate_up, down))  # once, as a model does
        args[own] = (x, *packed, weights, ids)
    cost = ref.fused_moe_cost(tokens, topk, hidden, inter, len(ids.unique()), dtype.itemsize)
    # Up to five roundings to the dtype on the way, each 0.4 half steps of standard deviation.
    return measured(candidates, args, want, cost, RTOL[dtype], 4 * RTOL[dtype])


@benchmark()
def test_fused_moe_a8w8(tokens, hidden, inter, experts, topk, quant_dtype, dtype):
    x, x_scale = quantised(torch.randn(tokens, hidden), quant_dtype)
    gate_up, down = torch.randn(experts, 2 * inter, hidden), torch.randn(experts, hidden, inter)
    (gate_up, gate_up_scale), (down, down_scale) = (
        quantised(w * max(w.shape[-1], 1) ** -0.5, quant_dtype) for w in (gate_up, down)
    )
    ids, weights = routed(tokens, experts, topk)
    scales = (gate_up_scale, down_scale)
    want = run_torch(x, x_scale, gate_up, scales[0], down, scales[1], weights, ids, dtype)
    own, pack = ops.own_kernel(), ops.fused_moe.pack_experts  # once, as a model does
    operands = (x, x_scale, pack(gate_up), scales[0], pack(down), scales[1], weights, ids)
    candidates = {own: lambda *args: ops.fused_moe.fused_moe_a8w8(*args[:-1], out=args[-1])}
    cost = ref.fused_moe_a8w8_cost(tokens, topk, hidden, inter, len(ids.unique()), dtype.itemsize)
    # fp32 on the way, but a code of h may be its neighbour: a step, over the root of inter.
    step = 2**-7 if quant_dtype is dtypes.i8 else 2**-4
    share = max(4 * step * max(inter, 1) ** -0.5, 2**-20)
    return measured(candidates, {own: operands}, want, cost, RTOL[dtype], share)


def main():
    if get_gfx() not in SUPPORTED_GFX or not ops.own_kernel():
        logger.warning("fused_moe has no kernel for %s here; skipping", get_gfx())
        return

    parser = dtypes.ArgumentParser(
        formatter_class=argparse.RawTextHelpFormatter, description="config input of test"
    )
    parser.add_argument(
        "-d",
        "--dtype",
        type=dtypes.one_of("bf16", "fp16", "fp32"),
        nargs="+",
        default=[dtypes.bf16],
        help="dtypes of the result and of operands that are not quantised, as -d bf16 fp16 fp32",
    )
    # hidden_size, (moe_)intermediate_size: Qwen3-30B-A3B (2048, 768); DeepSeek-V3 (7168, 2048) and
    # Mixtral-8x7B (4096, 14336) as a rank of four has them under tensor parallelism. m is tokens.
    parser.add_argument(
        "-s",
        "--mnk",
        type=dtypes.tuple_of(3, "tokens,hidden,inter"),
        nargs="+",
        default=[(1, 2048, 768), (16, 2048, 768), (16, 7168, 512), (16, 4096, 3584)],
        help="shapes tokens,hidden,inter",
    )
    # num_experts, num_experts_per_tok: 8, 2 in Mixtral. Qwen3 and DeepSeek-V3 have 128 and 256 by
    # 8; 32 of them, what a rank of four or eight holds, is what a CPU has the memory for.
    parser.add_argument(
        "--experts",
        type=dtypes.tuple_of(2, "experts,topk"),
        nargs="+",
        default=[(32, 8), (8, 2)],
        help="experts,topk: experts in all, and of a token",
    )
    parser.add_argument(
        "--quant_dtype",
        type=dtypes.one_of("fp8", "i8"),
        nargs="+",
        default=[dtypes.fp8, dtypes.i8],
        help="dtypes of x and w where they are quantised, as --quant_dtype fp8 i8",
    )
    args = parser.parse_args()

    shapes = list(itertools.product(args.experts, args.mnk))
    plain = [test_fused_moe(*mnk, *e, dtype) for dtype in args.dtype for e, mnk in shapes]
    summarize("fused_moe", plain)
    sweep = itertools.product(args.quant_dtype, args.dtype, shapes)
    rows = [test_fused_moe_a8w8(*mnk, *e, quant, dtype) for quant, dtype, (e, mnk) in sweep]
    summarize("fused_moe_a8w8", rows)


if __name__ == "__main__":
    main()
