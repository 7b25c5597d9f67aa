"""Columns of the k largest of rows of unequal lengths: which are right, how fast each is."""

import argparse
import itertools

import torch

from aiter_ref import topk as ref
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
SMOKE = ["-d", "bf16", "fp32", "-s", "1,1,1", "5,300,64", "3,2500,70"]


def run_torch(scores, lengths, k):
    return ref.topk_per_row(scores, lengths, k)


def topk_into(scores, lengths, ids):
    """What inductor compiles: what lies outside is masked, torch selects."""
    n, k = scores.shape[1], ids.shape[1]
    inside = torch.arange(n) < lengths[:, None]
    masked = torch.where(inside, scores, -torch.inf)
    values, columns = torch.topk(masked, min(n, k), sorted=False)
    ids.fill_(-1)
    ids[:, : min(n, k)] = torch.where(values > -torch.inf, columns, -1)
    return ids


def chosen(scores, lengths, ids):
    """What a choice is judged by: the values that it points at, in order. Of equal ones any column
    is right; one that is named twice or lies outside of its row gives NaN."""
    inside = torch.arange(scores.shape[1]) < lengths[:, None]
    seen = torch.where(inside, scores.float(), torch.nan)
    return ref.picked(seen, ids).sort(-1, descending=True).values


@benchmark()
def test_topk_per_row(m, n, k, dtype):
    scores = torch.randn(m, n, dtype=dtype)  # in bf16 many of a row are equal
    # Causal prefill and a batch of contexts both give rows of any length; one is whole.
    lengths = torch.randint(0, n + 1, (m,), dtype=dtypes.i32)
    lengths[:1] = n
    want = chosen(scores, lengths, run_torch(scores, lengths, k))
    candidates = {}
    if ops.own_kernel():  # None on a CPU without a compiler, which is said in the log
        candidates[ops.own_kernel()] = lambda s, c, i: ops.topk.topk_per_row(s, c, k, out=i)
    if ops.inductor.available():
        candidates["inductor"] = ops.inductor.compiled(topk_into, f"topk_per_row {dtype}")

    flops, nbytes = ref.topk_per_row_cost(lengths, k, scores.element_size())

    ret = {"gfx": get_gfx()}
    for name, fn in candidates.items():
        ids = torch.empty(m, k, dtype=dtypes.i32)
        _, us = run_perftest(fn, scores, lengths, ids)  # the model reads ids
        got = chosen(scores, lengths, ids)
        err = checkAllclose(want, got, rtol=0, atol=0, tol_err_ratio=0, msg=name)
        ret[f"{name} us"] = us
        ret[f"{name} TFLOPS"] = flops / us / 1e6
        ret[f"{name} TB/s"] = nbytes / us / 1e6
        ret[f"{name} err"] = err
    return ret


def main():
    if get_gfx() not in SUPPORTED_GFX or not (ops.own_kernel() or ops.inductor.available()):
        logger.warning("topk_per_row has no kernel for %s here; skipping", get_gfx())
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
        help="dtypes of the scores, as -d fp32 bf16",
    )
    # DeepSeek-V3.2's indexer: k is index_topk = 2048, m is tokens, n the longest context.
    parser.add_argument(
        "-s",
        "--mnk",
        type=dtypes.tuple_of(3, "m,n,k"),
        nargs="+",
        default=[(1, 65536, 2048), (64, 16384, 2048), (512, 8192, 2048)],
        help="shapes m,n,k: rows, columns, columns taken",
    )
    args = parser.parse_args()

    sweep = itertools.product(args.dtype, args.mnk)
    summarize("topk_per_row", [test_topk_per_row(*mnk, dtype) for dtype, mnk in sweep])


if __name__ == "__main__":
    main()
