"""Sum over the ranks of tensor parallelism, each a process or a card: right, and how fast."""

import argparse
import itertools

import torch

from aiter_ref import collectives as ref
from optest import dtypes, logger, ops
from optest.test_common import benchmark, checkAllclose, get_gfx, run_perftest, summarize

# gloo between processes of this machine; NCCL, which is RCCL on AMD's cards, between its cards.
SUPPORTED_GFX = ["cpu", "gfx942", "gfx950", "gfx1250", "sm_89", "sm_90", "sm_100", "sm_120"]
SMOKE = ["-d", "bf16", "-s", "1,64", "7,129", "0,16", "-w", "2", "4"]

# Half a step of the output; fp32: of a sum in the dtype itself.
RTOL = {dtypes.bf16: 2**-8, dtypes.fp16: 2**-11, dtypes.fp32: 2**-24}


def run_torch(x):
    return ref.all_reduce(x)


def tolerance(x):
    """rtol, atol of sums in the dtype itself: rounded once more for each rank beyond the second.

    What is rounded is at most the sum of all magnitudes; of two values there is one order.
    """
    largest = x.float().abs().sum(0).max().item() if x.numel() else 0.0
    step, ranks = RTOL[x.dtype], len(x)
    return min(ranks - 1, 2) * step, (ranks - 2) * step * largest


@benchmark()
def test_all_reduce(ranks, m, n, dtype):
    world = ops.collectives.world_of(ranks)  # started once for all cases
    world.forget()  # what the case before this one shared
    x = world.tensor((m, n), dtype)  # [ranks, m, n], seen by each rank without a copy
    x.copy_(torch.randn(x.shape))
    want = run_torch(x)
    # Each rank adds in the tensors' dtype; or parts of all ranks are added in fp32 and gathered.
    candidates = {
        "gloo": world.all_reduce,
        "gloo_two_steps": lambda x, y: world.all_reduce(x, y, how="two_steps"),
    }

    flops, nbytes = ref.all_reduce_cost(ranks, m * n, x.element_size())

    rtol, atol = tolerance(x)

    ret = {"gfx": get_gfx()}
    for name, fn in candidates.items():
        y = world.tensor((m, n), dtype)
        # Until the last rank has it: the slowest one's time, and the hand-over to the ranks.
        _, us = run_perftest(fn, x, y)
        once = name == "gloo_two_steps" and dtype != dtypes.fp32  # fp32 inside
        err = checkAllclose(want, y, rtol=rtol, atol=0 if once else atol, tol_err_ratio=0, msg=name)
        ret[f"{name} us"] = us
        ret[f"{name} TFLOPS"] = flops / us / 1e6
        ret[f"{name} TB/s"] = nbytes / us / 1e6
        ret[f"{name} err"] = err
    return ret


@benchmark()
def test_all_reduce_cards(ranks, m, n, dtype):
    x = torch.randn(ranks, m, n, dtype=dtype)
    want = run_torch(x)
    parts = ops.cards.spread(x)  # one on each card, as the ranks hold them
    candidates = {"nccl": ops.cards.all_reduce}

    flops, nbytes = ref.all_reduce_cost(ranks, m * n, x.element_size())
    rtol, atol = tolerance(x)

    ret = {"gfx": get_gfx()}
    for name, fn in candidates.items():
        y = ops.cards.spread(torch.empty_like(x))
        _, us = run_perftest(fn, parts, y)
        out = ops.cards.gathered(y, x.device)
        err = checkAllclose(want, out, rtol=rtol, atol=atol, tol_err_ratio=0, msg=name)
        ret[f"{name} us"] = us
        ret[f"{name} TFLOPS"] = flops / us / 1e6
        ret[f"{name} TB/s"] = nbytes / us / 1e6
        ret[f"{name} err"] = err
    return ret


def main():
    if get_gfx() not in SUPPORTED_GFX or not torch.distributed.is_available():
        logger.warning("all_reduce has no way between processes for %s here; skipping", get_gfx())
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
        help="dtypes of the tensors, as -d bf16 fp16 fp32",
    )
    # Llama-3-70B: n = hidden_size 8192, summed after o_proj and down_proj; m is tokens: decode,
    # then a chunk of a prefill.
    parser.add_argument(
        "-s",
        "--mn",
        type=dtypes.tuple_of(2, "m,n"),
        nargs="+",
        default=[(1, 8192), (16, 8192), (256, 8192)],
        help="shapes m,n of each rank",
    )
    parser.add_argument(
        "-w",
        "--ranks",
        type=dtypes.positive_int,
        nargs="+",
        default=[2, 4],
        help="processes, or cards, that the sum goes over",
    )
    args = parser.parse_args()

    between_cards = get_gfx() != "cpu"
    most = ops.cards.count() if between_cards else max(args.ranks)
    here = [ranks for ranks in args.ranks if ranks <= most]
    if here != args.ranks:
        logger.warning("all_reduce: --ranks %s, and %d cards here", args.ranks, most)

    sweep = itertools.product(args.dtype, here, args.mn)
    if between_cards:
        rows = [test_all_reduce_cards(ranks, *mn, dtype) for dtype, ranks, mn in sweep]
        summarize("all_reduce between cards", rows)
    else:
        summarize("all_reduce", [test_all_reduce(ranks, *mn, dtype) for dtype, ranks, mn in sweep])


if __name__ == "__main__":
    main()
