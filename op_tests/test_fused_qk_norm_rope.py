"""RMSNorm of each query and key head, then rotary embedding, in place: right, and how fast."""

import argparse
import itertools

import torch

from aiter_ref import rope as ref
from optest import dtypes, logger, ops
from optest.test_common import benchmark, checkAllclose, get_gfx, run_perftest, summarize

SUPPORTED_GFX = ["cpu", "gfx942", "gfx950", "gfx1250", "sm_89", "sm_90", "sm_100", "sm_120"]
SMOKE = ["-d", "bf16", "-s", "16,4,2", "7,3,2", "1,1,1", "0,4,2", "--head", "80,20"]

STYLES = ["neox", "gptj"]
MAX_POSITIONS = 8192  # a part of the 40960 of Qwen3
BASE = 1e6  # rope_theta of Qwen3
EPS = 1e-6  # rms_norm_eps of Qwen3
# Half a step of the output, which fp32 inside and one rounding at the end rarely miss.
RTOL = {dtypes.bf16: 2**-8, dtypes.fp16: 2**-11, dtypes.fp32: 1e-5}
ATOL = 1e-6  # where two products of up to 4 cancel, two of their fp32 steps are left
# An fp32 result beside the tie of two outputs goes the other way: the norm's sum, root and products
# leave a few of its steps, of which an output has 2^15 or 2^12.
MISSES = {dtypes.bf16: 1e-3, dtypes.fp16: 5e-3, dtypes.fp32: 1e-3}


def run_torch(q, k, q_weight, k_weight, positions, cos_sin, rotate_style):
    is_neox = rotate_style == "neox"
    return tuple(
        ref.norm_rope(x, weight, positions, cos_sin, EPS, is_neox=is_neox)
        for x, weight in ((q, q_weight), (k, k_weight))
    )


def into_buffers(q, k, *rest):
    """What inductor compiles: the same formula, written where the operands lie."""
    turned_q, turned_k = run_torch(q, k, *rest)
    return q.copy_(turned_q), k.copy_(turned_k)


def split(qkv, heads, kv_heads, head_size):
    """Views of queries, keys and values in what the projection wrote: [tokens, (h + 2 kv) * d]."""
    return qkv.unflatten(1, (-1, head_size)).split((heads, kv_heads, kv_heads), 1)


@benchmark(inout=("qkv",))
def test_fused_qk_norm_rope(tokens, heads, kv_heads, head_size, rotary_dim, rotate_style, dtype):
    cos_sin = ref.cos_sin_cache(MAX_POSITIONS, rotary_dim, dtype, BASE).to(torch.empty(0).device)
    projected = torch.randn(tokens, (heads + 2 * kv_heads) * head_size, dtype=dtype)
    positions = torch.randint(0, MAX_POSITIONS, (tokens,))  # tokens of several requests
    q_weight, k_weight = torch.randn(2, head_size, dtype=dtype)
    rest = (q_weight, k_weight, positions, cos_sin)
    q, k, values = split(projected, heads, kv_heads, head_size)
    want_q, want_k = run_torch(q, k, *rest, rotate_style)
    candidates = {}
    if ops.own_kernel():  # None on a CPU without a compiler, which is said in the log
        candidates[ops.own_kernel()] = lambda q, k, *rest: ops.rope.fused_qk_norm_rope(
            q, k, *rest, EPS, is_neox=rotate_style == "neox"
        )
    if ops.inductor.available():
        compiled = ops.inductor.compiled(into_buffers, f"fused_qk_norm_rope {rotate_style} {dtype}")
        candidates["inductor"] = lambda q, k, *rest: compiled(q, k, *rest, rotate_style)

    flops, nbytes = ref.norm_rope_cost(
        tokens, heads + kv_heads, head_size, rotary_dim, dtype.itemsize, dtype.itemsize
    )

    ret = {"gfx": get_gfx()}
    for name, fn in candidates.items():
        qkv = projected.clone()
        q, k, v = split(qkv, heads, kv_heads, head_size)
        _, us = run_perftest(fn, q, k, *rest)
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
        logger.warning("fused_qk_norm_rope has no kernel for %s here; skipping", get_gfx())
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
    # Qwen3-8B: num_attention_heads 32, num_key_value_heads 8 (as Llama-3-8B, which has no norm);
    # Qwen3-32B: 64 and 8; Qwen3-30B-A3B: 32 and 4. The first number is tokens.
    parser.add_argument(
        "-s",
        "--shape",
        type=dtypes.tuple_of(3, "tokens,heads,kv_heads"),
        nargs="+",
        default=[(16, 32, 8), (4096, 64, 8), (4096, 32, 4)],
        help="shapes tokens,heads,kv_heads",
    )
    # Qwen3 turns whole heads; Qwen3-Next a quarter of each (partial_rotary_factor 0.25).
    parser.add_argument(
        "--head",
        type=dtypes.tuple_of(2, "head_size,rotary_dim"),
        nargs="+",
        default=[(128, 128), (256, 64)],
        help="as --head 128,128 256,64",
    )
    parser.add_argument("--rotate_style", choices=STYLES, nargs="+", default=["neox"])
    args = parser.parse_args()

    sweep = itertools.product(args.shape, args.head, args.rotate_style, args.dtype)
    rows = [test_fused_qk_norm_rope(*shape, *head, *rest) for shape, head, *rest in sweep]
    summarize("fused_qk_norm_rope", rows)


if __name__ == "__main__":
    main()
