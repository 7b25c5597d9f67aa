"""MoE routing by groups of experts, as DeepSeek-V3 does it: which are right, how fast each is."""

import argparse
import itertools
import math

import torch

from aiter_ref import routing as ref
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
SMOKE = ["-d", "bf16", "-s", "1,16", "17,64", "5,256"]

# Logits stay below 8: e^x is off by 2^-21 (its argument is exact), the sum of up to eight scores
# and two quotients by a few steps of 2^-24.
RTOL = 2**-19
SCALE = 2.5  # routed_scaling_factor
NEAR = 2**-16  # scores nearer than this might change places by the rounding of a kernel


def run_torch(gating, bias, topk, groups, topk_groups):
    return ref.grouped_topk(gating, bias, topk, groups, topk_groups, renormalize=True, scale=SCALE)


def routing_into(gating, bias, weights, ids, topk, groups, topk_groups):
    """What inductor compiles: the formula as a model writes it, into the same buffers."""
    m, n = gating.shape
    scores = torch.sigmoid(gating.float())
    biased = (scores + bias).view(m, groups, n // groups)
    best = torch.topk(biased, min(2, n // groups)).values.sum(-1)
    kept = torch.zeros_like(best).scatter(1, torch.topk(best, topk_groups).indices, 1.0)
    masked = torch.where(kept[:, :, None] > 0, biased, -torch.inf).view(m, n)
    experts = torch.topk(masked, topk).indices
    chosen = scores.gather(1, experts)
    return weights.copy_(chosen / chosen.sum(-1, keepdim=True) * SCALE), ids.copy_(experts)


def decided(gating, bias, topk, groups, topk_groups):
    """Tokens whose choice no rounding can change: neither the last group nor the last expert that
    is in lies near the first that is out."""
    m, n = gating.shape
    biased = (torch.sigmoid(gating.double()) + bias).view(m, groups, n // groups)
    best = biased.topk(min(2, n // groups)).values.sum(-1).sort(-1, descending=True)
    clear = torch.ones(m, dtype=torch.bool)
    if topk and topk_groups < groups:
        clear &= best.values[:, topk_groups - 1] - best.values[:, topk_groups] > NEAR
    kept = torch.zeros(m, groups, dtype=torch.bool).scatter(1, best.indices[:, :topk_groups], True)
    ordered = biased[kept].view(m, topk_groups * n // groups).sort(-1, descending=True).values
    if 0 < topk < ordered.shape[1]:
        clear &= ordered[:, topk - 1] - ordered[:, topk] > NEAR
    return clear


def fitting(n, groups, topk_groups, topk):
    """The same or, where n experts are too few for it, smaller."""
    groups = math.gcd(n, groups)
    topk_groups = min(topk_groups, groups)
    return groups, topk_groups, min(topk, topk_groups * n // groups)


@benchmark()
def test_grouped_topk(m, n, groups, topk_groups, topk, dtype):
    gating = torch.randn(2 * m, n, dtype=dtype).clamp(-8, 8)
    bias = torch.rand(n) * 0.2  # as far apart as the scores: it changes who is chosen
    clear = decided(gating, bias, topk, groups, topk_groups).nonzero()[:m, 0]
    gating = gating[clear]  # nearly all are clear, so that m remain of twice as many
    want = ref.routed(*run_torch(gating, bias, topk, groups, topk_groups), n)
    candidates = {}
    if ops.own_kernel():  # None on a CPU without a compiler, which is said in the log
        candidates[ops.own_kernel()] = lambda g, w, i: ops.routing.grouped_topk(
            g, bias, topk, groups=groups, topk_groups=topk_groups, renormalize=True, scale=SCALE,
            weights=w, ids=i,
        )  # fmt: skip
    if ops.inductor.available():
        compiled = ops.inductor.compiled(routing_into, f"grouped_topk {dtype}")
        candidates["inductor"] = lambda g, w, i: compiled(g, bias, w, i, topk, groups, topk_groups)

    flops, nbytes = ref.grouped_topk_cost(m, n, topk, gating.element_size(), renormalize=True)

    ret = {"gfx": get_gfx()}
    for name, fn in candidates.items():
        weights = torch.empty(m, topk, dtype=dtypes.fp32)
        ids = torch.empty(m, topk, dtype=dtypes.i32)
        _, us = run_perftest(fn, gating, weights, ids)  # the model reads both buffers
        # As the layer reads them: the pairs of a token may stand in any order.
        err = checkAllclose(
            want, ref.routed(weights, ids, n), rtol=RTOL, atol=0, tol_err_ratio=0, msg=name
        )
        ret[f"{name} us"] = us
        ret[f"{name} TFLOPS"] = flops / us / 1e6
        ret[f"{name} TB/s"] = nbytes / us / 1e6
        ret[f"{name} err"] = err
    return ret


def main():
    if get_gfx() not in SUPPORTED_GFX or not (ops.own_kernel() or ops.inductor.available()):
        logger.warning("grouped_topk has no kernel for %s here; skipping", get_gfx())
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
    # DeepSeek-V3: n_routed_experts 256, n_group 8, topk_group 4, num_experts_per_tok 8.
    # m is tokens.
    parser.add_argument(
        "-s",
        "--mn",
        type=dtypes.tuple_of(2, "m,n"),
        nargs="+",
        default=[(16, 256), (128, 256), (4096, 256)],
        help="shapes m,n: tokens, experts",
    )
    parser.add_argument(
        "--groups",
        type=dtypes.tuple_of(2, "groups,topk_groups"),
        nargs="+",
        default=[(8, 4)],
        help="groups of experts and how many stay; what n does not divide into is made smaller",
    )
    parser.add_argument("--topk", type=dtypes.positive_int, nargs="+", default=[8])
    args = parser.parse_args()

    sweep = itertools.product(args.dtype, args.mn, args.groups, args.topk)
    rows = [
        test_grouped_topk(m, n, *fitting(n, *groups, topk), dtype)
        for dtype, (m, n), groups, topk in sweep
    ]
    summarize("grouped_topk", rows)


if __name__ == "__main__":
    main()
