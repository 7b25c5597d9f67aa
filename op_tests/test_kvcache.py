"""Writing keys and values into a paged cache, in place: which are right, how fast each is."""

import argparse
import itertools

import torch

from aiter_ref import cache as ref
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
SMOKE = ["-d", "bf16", "-s", "16,2,64"]


def run_torch(key, value, key_cache, value_cache, slots):
    ref.reshape_and_cache(key, value, key_cache, value_cache, slots)
    return key_cache, value_cache


def slot_mapping(tokens, slots):
    """Distinct slots in random order; the last eighth of the tokens is padding, as in a batch
    filled up to a captured size."""
    mapping = torch.randperm(slots)[:tokens]
    valid = tokens - tokens // 8
    mapping[valid:] = -1
    return mapping, valid


def index_copy(key, value, key_cache, value_cache, slots):
    """What torch offers: the caches as one row a slot. It knows no padding: leave it out."""
    key_cache.flatten(0, 1).index_copy_(0, slots, key)
    value_cache.flatten(0, 1).index_copy_(0, slots, value)
    return key_cache, value_cache


@benchmark(inout=("key_cache", "value_cache"))
def test_reshape_and_cache(tokens, heads, head_size, block_size, dtype):
    # Key and value are views of the fused projection: heads side by side, tokens far apart.
    qkv = torch.randn(tokens, 3, heads, head_size, dtype=dtype)
    key, value = qkv[:, 1], qkv[:, 2]
    blocks = -(-2 * tokens // block_size)
    shape = (blocks, block_size, heads, head_size)
    empty_key, empty_value = torch.randn(shape, dtype=dtype), torch.randn(shape, dtype=dtype)
    slots, valid = slot_mapping(tokens, blocks * block_size)
    wanted = run_torch(key, value, empty_key.clone(), empty_value.clone(), slots)
    candidates = {
        "torch_index_copy": lambda kc, vc: index_copy(
            key[:valid], value[:valid], kc, vc, slots[:valid]
        ),
    }
    if ops.own_kernel():  # None on a CPU without a compiler, which is said in the log
        candidates[ops.own_kernel()] = lambda kc, vc: ops.cache.reshape_and_cache(
            key, value, kc, vc, slots
        )

    width = heads * head_size
    flops, nbytes = ref.reshape_and_cache_cost(tokens, valid, width, key.element_size())

    ret = {"gfx": get_gfx()}
    for name, fn in candidates.items():
        key_cache, value_cache = empty_key.clone(), empty_value.clone()
        _, us = run_perftest(fn, key_cache, value_cache)  # the model reads the caches
        written = key_cache, value_cache
        # Copies: to the bit, also where no token was written.
        errs = [
            checkAllclose(want, got, rtol=0, atol=0, tol_err_ratio=0, msg=f"{name}: {part}")
            for part, want, got in zip(("key", "value"), wanted, written, strict=True)
        ]
        ret[f"{name} us"] = us
        ret[f"{name} TFLOPS"] = flops / us / 1e6
        ret[f"{name} TB/s"] = nbytes / us / 1e6
        ret[f"{name} err"] = max(errs)
    return ret


def main():
    if get_gfx() not in SUPPORTED_GFX:
        logger.warning("reshape_and_cache is not supported on %s; skipping", get_gfx())
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
        help="dtypes, as -d bf16 fp16 fp32",
    )
    # Llama-3-8B: 8 key-value heads of 128; Llama-2-7B: 32 of 128. Tokens: decode, then prefill.
    parser.add_argument(
        "-s",
        "--thd",
        type=dtypes.tuple_of(3, "tokens,heads,head_size"),
        nargs="+",
        default=[(64, 8, 128), (8192, 8, 128), (64, 32, 128), (4096, 32, 128)],
        help="shapes tokens,heads,head_size",
    )
    parser.add_argument(
        "--block_size",
        type=dtypes.positive_int,
        nargs="+",
        default=[16],
        help="tokens in a block of the cache",
    )
    args = parser.parse_args()

    sweep = itertools.product(args.dtype, args.block_size, args.thd)
    rows = [test_reshape_and_cache(*thd, block, dtype) for dtype, block, thd in sweep]
    summarize("reshape_and_cache", rows)


if __name__ == "__main__":
    main()
