"""Rotary position embedding of queries and keys in place: which kernels are right, how fast."""

import argparse
import itertools

import torch

from aiter_ref import rope as ref
from optest import dtypes, logger, ops
from optest.test_common import benchmark, checkAllclose, get_gfx, run_perftest, summarize

SUPPORTED_GFX = ["cpu", "gfx942", "gfx950", "gfx1250", "sm_89", "sm_90", "sm_100", "sm_120"]
SMOKE = ["-d", "bf16", "-s", "16,4,2", "7,3,2", "1,1,1", "0,4,2", "--head", "80,20"]

STYLES = ["neox", "gptj"]
MAX_POSITIONS = 8192  # max_position_embeddings of Llama-3
BASE = 500000.0  # rope_theta of Llama-3
# Half a step of the output, which fp32 inside and one rounding at the end rarely miss.
RTOL = {dtypes.bf16: 2**-8, dtypes.fp16: 2**-11, dtypes.fp32: 1e-5}
ATOL = 1e-6  # where two products of up to 4 cancel, two of their fp32 steps are left
# An fp32 sum beside the tie of two outputs goes the other way in one case of 2^15 or 2^12; with the
# slowest pairs hardly turning, more would hide an unwritten tail.
MISSES = {dtypes.bf16: 1e-4, dtypes.fp16: 1e-3, dtypes.fp32: 1e-4}


def run_torch(q, k, positions, cos_sin, rotate_style):
    is_neox = rotate_style == "neox"
    return tuple(ref.rope(x, positions, cos_sin, is_neox=is_neox) for x in (q, k))


def into_buffers(q, k, positions, cos_sin, rotate_style):
    """What inductor compiles: the same formula, written where the operands lie."""
    turned_q, turned_k = run_torch(q, k, positions, cos_sin, rotate_style)
    return q.copy_(turned_q), k.copy_(turned_k)


def split(qkv, heads, kv_heads, head_size):
    """Views of queries, keys and values in what the projection wrote: [tokens, (h + 2 kv) * d]."""
    return qkv.unflatten(1, (-1, head_size)).split((heads, kv_heads, kv_heads), 1)


@benchmark(inout=("qkv",))
def test_rope(tokens, heads, kv_heads, head_size, rotary_dim, rotate_style, dtype):
    cos_sin = ref.cos_sin_cache(MAX_POSITIONS, rotary_dim, dtype, BASE).to(torch.empty(0).device)
    projected = torch.randn(tokens, (heads + 2 * kv_heads) * head_size, dtype=dtype)
    positions = torch.randint(0, MAX_POSITIONS, (tokens,))  # tokens of several requests
    q, k, values = split(projected, heads, kv_heads, head_size)
    want_q, want_k = run_torch(q, k, positions, cos_sin, rotate_style)
    candidates = {}
    if ops.own_kernel():  # None on a CPU without a compiler, which is said in the log
        candidates[ops.own_kernel()] = lambda q, k, p, c: ops.rope.rope(
            q, k, p, c, is_neox=rotate_style == "neox"
        )
    if ops.inductor.available():
        compiled = ops.inductor.compiled(into_buffers, f"rope {rotate_style} {dtype}")
        candidates["inductor"] = lambda q, k, p, c: compiled(q, k, p, c, rotate_style)

    flops, nbytes = ref.rope_cost(
        tokens, heads + kv_heads, rotary_dim, dtype.itemsize, dtype.itemsize
    )

    ret = {"gfx": get_gfx()}
    for name, fn in candidates.items():
        qkv = projected.clone()
        q, k, v = split(qkv, heads, kv_heads, head_size)
        _, us = run_perftest(fn, q, k, positions, cos_sin)
        bound = {"rtol": RTOL[dtype], "atol": ATOL, "tol_err_ratio": MISSES[dtype]}
        err = checkAllclose(want_q, q, **bound, msg=f"{name}: queries")
        checkAllclose(want_k, k, **bound, msg=f"{name}: keys")
        # They lie in the same memory and are none of this operator's.
        checkAllclose(values, v, rtol=0, atol=0, tol_err_ratio=0, msg=f"{name}: values")
        ret[f"{name} us"] = us
        ret[f"{name} TFLOPS"] = flops / us / 1e6
        ret[f"{name} TB/s"] = nbytes / us / 1e6
        ret[f"{name} err"] = err
    return ret


def main():
    if get_gfx() not in SUPPORTED_GFX or not (ops.own_kernel() or ops.inductor.available()):
        logger.warning("rope has no kernel for %s here; skipping", get_gfx())
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
        help="dtypes of qkv and of the cache, as -d bf16 fp16 fp32",
    )
    # Llama-3-8B: num_attention_heads 32, num_key_value_heads 8; Llama-3-70B: 64 and 8. The first
    # number is tokens: a batch that decodes, a prompt.
    parser.add_argument(
        "-s",
        "--shape",
        type=dtypes.tuple_of(3, "tokens,heads,kv_heads"),
        nargs="+",
        default=[(16, 32, 8), (4096, 32, 8), (4096, 64, 8)],
        help="shapes tokens,heads,kv_heads",
    )
    # Llama-3 turns whole heads; GLM-4 half of each (partial_rotary_factor 0.5, in gptj style).
    parser.add_argument(
        "--head",
        type=dtypes.tuple_of(2, "head_size,rotary_dim"),
        nargs="+",
        default=[(128, 128), (128, 64)],
        help="as --head 128,128 128,64",
    )
    parser.add_argument("--rotate_style", choices=STYLES, nargs="+", default=STYLES)
    args = parser.parse_args()

    sweep = itertools.product(args.shape, args.head, args.rotate_style, args.dtype)
    summarize("rope", [test_rope(*shape, *head, *rest) for shape, head, *rest in sweep])


if __name__ == "__main__":
    main()
