"""MoE routing by softmax: the experts of each token and their weights; right, and how fast."""

import argparse
import itertools

import torch

from aiter_ref import routing as ref
from aiter_ref import topk as ref_topk
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
SMOKE = ["-d", "bf16", "-s", "1,8", "17,60", "5,128", "--topk", "1", "8"]

# Logits lie less than 16 apart, so that fp32 rounds their difference, and with it e^x, at 2^-20;
# the sum and the quotient add a few steps of 2^-24.
RTOL = 2**-19


def run_torch(gating, topk, renormalize):
    return ref.topk_softmax(gating, topk, renormalize=renormalize)


def routing_into(gating, weights, ids, topk, renormalize):
    """What inductor compiles: softmax keeps the order, so that logits are chosen from."""
    largest, experts = torch.topk(gating.float(), topk)
    if renormalize:
        chosen = torch.softmax(largest, -1)
    else:
        chosen = torch.exp(largest - torch.logsumexp(gating.float(), -1, keepdim=True))
    return weights.copy_(chosen), ids.copy_(experts)


@benchmark()
def test_topk_softmax(m, n, topk, renormalize, dtype):
    gating = torch.randn(m, n, dtype=dtype)  # in bf16 many logits of a token are equal
    want, want_ids = run_torch(gating, topk, renormalize == "yes")
    candidates = {}
    if ops.own_kernel():  # None on a CPU without a compiler, which is said in the log
        candidates[ops.own_kernel()] = lambda g, w, i: ops.routing.topk_softmax(
            g, topk, renormalize=renormalize == "yes", weights=w, ids=i
        )
    if ops.inductor.available():
        label = f"topk_softmax {renormalize} {dtype}"
        compiled = ops.inductor.compiled(routing_into, label)
        candidates["inductor"] = lambda g, w, i: compiled(g, w, i, topk, renormalize == "yes")

    flops, nbytes = ref.topk_softmax_cost(
        m, n, topk, gating.element_size(), renormalize=renormalize == "yes"
    )

    ret = {"gfx": get_gfx()}
    for name, fn in candidates.items():
        weights = torch.empty(m, topk, dtype=dtypes.fp32)
        ids = torch.empty(m, topk, dtype=dtypes.i32)
        _, us = run_perftest(fn, gating, weights, ids)  # the model reads both buffers
        err = checkAllclose(
            want, weights, rtol=RTOL, atol=1e-30, tol_err_ratio=0, msg=f"{name}: weights"
        )
        # Of equal logits any is right: the values that ids point at are what has one answer.
        checkAllclose(
            ref_topk.picked(gating, want_ids),
            ref_topk.picked(gating, ids),
            rtol=0,
            atol=0,
            tol_err_ratio=0,
            msg=f"{name}: ids",
        )
        ret[f"{name} us"] = us
        ret[f"{name} TFLOPS"] = flops / us / 1e6
        ret[f"{name} TB/s"] = nbytes / us / 1e6
        ret[f"{name} err"] = err
    return ret


def main():
    if get_gfx() not in SUPPORTED_GFX or not (ops.own_kernel() or ops.inductor.available()):
        logger.warning("topk_softmax has no kernel for %s here; skipping", get_gfx())
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
        help="dtypes of the router's logits, as -d bf16 fp32",
    )
    # m is tokens, n experts: 8 in Mixtral-8x7B (top 2), 64 in DeepSeek-V2-Lite (top 6, not
    # renormalised), 128 in Qwen3-30B-A3B and Qwen3-235B-A22B (top 8, renormalised).
    parser.add_argument(
        "-s",
        "--mn",
        type=dtypes.tuple_of(2, "m,n"),
        nargs="+",
        default=[(64, 8), (64, 64), (64, 128), (4096, 128)],
        help="shapes m,n: tokens, experts",
    )
    parser.add_argument(
        "--topk",
        type=dtypes.positive_int,
        nargs="+",
        default=[8],
        help="experts of a token; all of them where there are fewer",
    )
    parser.add_argument("--renormalize", choices=["yes", "no"], nargs="+", default=["yes", "no"])
    args = parser.parse_args()

    sweep = itertools.product(args.dtype, args.mn, args.topk, args.renormalize)
    rows = [
        test_topk_softmax(m, n, min(topk, n), renormalize, dtype)
        for dtype, (m, n), topk, renormalize in sweep
    ]
    summarize("topk_softmax", rows)


if __name__ == "__main__":
    main()
