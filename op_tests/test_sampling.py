"""Drawing tokens by top-k, top-p and min-p: which kernels are right, how fast each is."""

import argparse
import itertools

import torch

from aiter_ref import sampling as ref
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
SMOKE = ["-d", "bf16", "-s", "9,1", "33,300", "12,2500"]

# Sums of a vocabulary in fp32 may be off by 2^-17; borders between tokens are put further away.
STEP = 2**-13


def run_torch(logits, top_k, top_p, min_p, uniform):
    return ref.sampling(logits, top_k, top_p, min_p, uniform)


def sampling_into(logits, top_k, top_p, min_p, uniform, tokens):
    """What inductor compiles: rank all, mask, back to the vocabulary's order, search."""
    ordered, places = torch.sort(logits.float(), dim=-1, descending=True, stable=True)
    ranks = torch.arange(logits.shape[1])
    limits = torch.where(top_k > 0, top_k, logits.shape[1])
    p = torch.softmax(torch.where(ranks < limits[:, None], ordered, -torch.inf), -1)
    kept = (p.cumsum(-1) - p < top_p[:, None]) | (top_p >= 1)[:, None]
    kept = (kept & (p >= min_p[:, None] * p[:, :1])) | (ranks == 0)
    p = torch.zeros_like(p).scatter(1, places, torch.where(kept, p, 0.0))
    sums = p.cumsum(-1)
    return tokens.copy_((sums > uniform[:, None] * sums[:, -1:]).int().argmax(-1))


def inside_a_step(logits, top_k, top_p, min_p):
    """``top_p`` and uniform numbers that lie in the middle of a token of probability STEP at least:
    what is kept and what is drawn then do not hang on the last bit of a sum."""
    m, n = logits.shape
    if not n or not m:
        return torch.full((m,), top_p), torch.rand(m)
    p, _ = ref.ranked(logits, top_k)
    sums = p.cumsum(-1)
    at = (sums < top_p).sum(-1).clamp(max=n - 1).minimum((p >= STEP).sum(-1) - 1)[:, None]
    middle = (sums.gather(1, at) - p.gather(1, at) / 2)[:, 0].float()
    nucleus = middle if top_p < 1 else torch.ones(m)
    p = ref.kept_probabilities(logits, top_k, nucleus, min_p)
    token = torch.multinomial(torch.where(p >= STEP, p, 0.0), 1)
    uniform = p.cumsum(-1).gather(1, token) - p.gather(1, token) / 2
    return nucleus, uniform[:, 0].float()


@benchmark()
def test_sampling(m, n, top_k, top_p, min_p, dtype):
    logits = torch.randn(m, n, dtype=dtype) * 4  # as peaked as a model's
    k, least = torch.full((m,), top_k, dtype=dtypes.i32), torch.full((m,), min_p)
    p, uniform = inside_a_step(logits, k, top_p, least)
    want = run_torch(logits, k, p, least, uniform)
    candidates = {}
    if ops.own_kernel():  # None on a CPU without a compiler, which is said in the log
        candidates[ops.own_kernel()] = lambda x, u, t: ops.sampling.sampling(
            x, k, p, least, u, out=t
        )
    if ops.inductor.available():
        compiled = ops.inductor.compiled(sampling_into, f"sampling {dtype}")
        candidates["inductor"] = lambda x, u, t: compiled(x, k, p, least, u, t)

    flops, nbytes = ref.sampling_cost(m, n, logits.element_size())

    ret = {"gfx": get_gfx()}
    for name, fn in candidates.items():
        tokens = torch.empty(m, dtype=dtypes.i32)
        _, us = run_perftest(fn, logits, uniform, tokens)  # the model reads tokens
        err = checkAllclose(want, tokens, rtol=0, atol=0, tol_err_ratio=0, msg=name)
        ret[f"{name} us"] = us
        ret[f"{name} TFLOPS"] = flops / us / 1e6
        ret[f"{name} TB/s"] = nbytes / us / 1e6
        ret[f"{name} err"] = err
    return ret


def main():
    if get_gfx() not in SUPPORTED_GFX or not (ops.own_kernel() or ops.inductor.available()):
        logger.warning("sampling has no kernel for %s here; skipping", get_gfx())
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
        help="dtypes of the logits, as -d fp32 bf16",
    )
    # n is vocab_size: 128256 in Llama-3, 129280 in DeepSeek-V3, 151936 in Qwen3. Rows m are tokens:
    # one of each request of a batch.
    parser.add_argument(
        "-s",
        "--mn",
        type=dtypes.tuple_of(2, "m,n"),
        nargs="+",
        default=[(1, 128256), (64, 128256), (64, 151936)],
        help="shapes m,n: rows, vocabulary",
    )
    parser.add_argument("--top_k", type=int, nargs="+", default=[0, 50], help="0 keeps all")
    parser.add_argument("--top_p", type=float, nargs="+", default=[0.9, 1.0], help="1 keeps all")
    parser.add_argument("--min_p", type=float, nargs="+", default=[0.0, 0.05], help="0 keeps all")
    args = parser.parse_args()

    sweep = itertools.product(args.dtype, args.mn, args.top_k, args.top_p, args.min_p)
    summarize("sampling", [test_sampling(*mn, *limits, dtype) for dtype, mn, *limits in sweep])


if __name__ == "__main__":
    main()
