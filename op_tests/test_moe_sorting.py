"""A router's pairs sorted by expert and padded to blocks: which are right, how fast each is."""

import argparse
import itertools

import torch

from aiter_ref import moe as ref
from optest import dtypes, logger, ops
from optest.test_common import benchmark, checkAllclose, get_gfx, run_perftest, summarize

SUPPORTED_GFX = [
    "cpu",
    "gfx942",
    "gfx950",
    "gfx1250",
    "sm_80",
    "sm_89",
    "sm_90",
    "sm_100",
    "sm_120",
]
SMOKE = ["-d", "bf16", "-s", "1,8,2", "17,5,3", "61,32,4", "--block_size", "16"]


def run_torch(ids, weights, experts, block):
    return ref.moe_sorting(ids, weights, experts, block)


def sorting_into(ids, weights, sorted_ids, sorted_weights, block_experts, total, experts, block):
    """What inductor compiles: a stable sort, and each pair moved up by the padding before it."""
    flat = ids.view(-1).long()
    order = torch.sort(flat, stable=True).indices
    counts = torch.zeros(experts, dtype=torch.long).scatter_add(0, flat, torch.ones_like(flat))
    blocks = (counts + block - 1) // block
    ends = blocks.cumsum(0)
    moved = (ends - blocks) * block - (counts.cumsum(0) - counts)
    place = torch.arange(flat.numel()) + moved[flat[order]]
    sorted_ids.fill_(flat.numel()).scatter_(0, place, order.int())
    sorted_weights.zero_().scatter_(0, place, weights.view(-1)[order])
    expert = torch.searchsorted(ends, torch.arange(block_experts.numel()), right=True)
    block_experts.copy_(torch.where(expert < experts, expert, -1))
    total.copy_(ends[-1:] * block)
    return sorted_ids, sorted_weights, block_experts, total


@benchmark()
def test_moe_sorting(m, n, topk, block_size, dtype):
    # Some experts are more popular than others, and a token takes no expert twice.
    scores = torch.rand(m, n) + torch.rand(n)
    ids = scores.topk(topk).indices.int()
    weights = torch.rand(m, topk, dtype=dtype)
    wanted = run_torch(ids, weights, n, block_size)
    candidates = {}
    if ops.own_kernel():  # None on a CPU without a compiler, which is said in the log
        candidates[ops.own_kernel()] = lambda i, w, *out: ops.moe.moe_sorting(
            i, w, n, block_size, out=ops.moe.Sorted(*out)
        )
    if ops.inductor.available():
        compiled = ops.inductor.compiled(sorting_into, f"moe_sorting {dtype}")
        candidates["inductor"] = lambda i, w, *out: compiled(i, w, *out, n, block_size)

    flops, nbytes = ref.moe_sorting_cost(m, topk, n, block_size, weights.element_size())

    ret = {"gfx": get_gfx()}
    for name, fn in candidates.items():
        made = ops.moe.sorted_buffers(m * topk, n, block_size, dtype, ids.device)
        _, us = run_perftest(fn, ids, weights, *made)  # the model reads its buffers
        # Copies and counts: to the bit, padding as well.
        errs = [
            checkAllclose(want, got, rtol=0, atol=0, tol_err_ratio=0, msg=f"{name}: {part}")
            for part, want, got in zip(wanted._fields, wanted, made, strict=True)
        ]
        ret[f"{name} us"] = us
        ret[f"{name} TFLOPS"] = flops / us / 1e6
        ret[f"{name} TB/s"] = nbytes / us / 1e6
        ret[f"{name} err"] = max(errs)
    return ret


def main():
    if get_gfx() not in SUPPORTED_GFX or not (ops.own_kernel() or ops.inductor.available()):
        logger.warning("moe_sorting has no kernel for %s here; skipping", get_gfx())
        return

    parser = dtypes.ArgumentParser(
        formatter_class=argparse.RawTextHelpFormatter, description="config input of test"
    )
    parser.add_argument(
        "-d",
        "--dtype",
        type=dtypes.one_of("bf16", "fp16", "fp32"),
        nargs="+",
        default=[dtypes.fp32],
        help="dtypes of the weights, as -d bf16 fp32",
    )
    # m is tokens, n experts, k experts of a token: 256 and 8 in DeepSeek-V3, 128 and 8 in
    # Qwen3-235B-A22B, 8 and 2 in Mixtral-8x7B.
    parser.add_argument(
        "-s",
        "--mnk",
        type=dtypes.tuple_of(3, "m,n,k"),
        nargs="+",
        default=[(64, 256, 8), (4096, 256, 8), (4096, 128, 8), (4096, 8, 2)],
        help="shapes m,n,k: tokens, experts, experts of a token",
    )
    parser.add_argument(
        "--block_size",
        type=dtypes.positive_int,
        nargs="+",
        default=[64],
        help="pairs that a grouped GEMM takes at a time",
    )
    args = parser.parse_args()

    sweep = itertools.product(args.dtype, args.block_size, args.mnk)
    rows = [test_moe_sorting(m, n, min(k, n), block, dtype) for dtype, block, (m, n, k) in sweep]
    summarize("moe_sorting", rows)


if __name__ == "__main__":
    main()
