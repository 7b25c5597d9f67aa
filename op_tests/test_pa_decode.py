"""Decode attention over a paged KV cache: which kernels are right, how fast each is."""

import argparse
import itertools

import torch

from aiter_ref import attention as ref
from aiter_ref import quant as ref_quant
from optest import dtypes, logger, ops
from optest.test_common import benchmark, checkAllclose, get_gfx, run_perftest, summarize

SUPPORTED_GFX = ["cpu", "gfx942", "gfx950", "gfx1250", "sm_89", "sm_90", "sm_100", "sm_120"]
# Contexts of one token, that end on the border of a block and one past it; no sequence; no token.
SMOKE = ["-d", "bf16", "-s", "3,100", "1,1", "2,16", "2,17", "0,8", "2,0", "--heads", "8,2,128"]

# Half a step of the output; twice where probabilities are rounded to the dtype before the second
# product, as kernels on matrix units do, and csrc for codes. These are exact in every dtype.
RTOL = {dtypes.bf16: 2**-8, dtypes.fp16: 2**-11, dtypes.fp32: 1e-5}


def run_torch(q, key_cache, value_cache, block_tables, context_lens, scales):
    return ref.pa_decode(q, key_cache, value_cache, block_tables, context_lens, **scales)


def gather_sdpa(q, key_cache, value_cache, block_tables, mask, scales, out):
    """What torch offers: the blocks copied side by side, then its attention, padding masked.

    Codes are widened; scales are taken out of the sums, where they are a product for each result.
    """
    longest = mask.shape[-1]
    keys = key_cache[block_tables].flatten(1, 2)[:, :longest].transpose(1, 2).to(q.dtype)
    values = value_cache[block_tables].flatten(1, 2)[:, :longest].transpose(1, 2).to(q.dtype)
    scale = scales["scale"] * scales["k_scale"]
    made = torch.nn.functional.scaled_dot_product_attention(
        q.unsqueeze(2), keys, values, attn_mask=mask, scale=scale, enable_gqa=True
    )
    return torch.mul(made.squeeze(2), scales["v_scale"], out=out)


def ragged_lengths(sequences, context):
    """From half of the longest on, as in a batch that is decoded together; one has the longest."""
    lengths = torch.randint(context // 2, context + 1, (sequences,), dtype=torch.int32)
    lengths[:1] = context
    return lengths


def paged(sequences, context, kv_heads, size, block_size, dtype):
    """Caches of which every block belongs to one sequence, in random order."""
    blocks = -(-context // block_size)
    tables = torch.randperm(sequences * blocks, dtype=torch.int32).view(sequences, blocks)
    shape = (sequences * blocks, block_size, kv_heads, size)
    return torch.randn(shape, dtype=dtype), torch.randn(shape, dtype=dtype), tables


@benchmark()
def test_pa_decode(sequences, context, heads, kv_heads, size, block_size, dtype, cache):
    lengths = ragged_lengths(sequences, context)
    keys, values, tables = paged(sequences, context, kv_heads, size, block_size, dtype)
    q = torch.randn(sequences, heads, size, dtype=dtype)
    scales = {"scale": size**-0.5, "k_scale": 1.0, "v_scale": 1.0}
    if cache == "fp8":
        keys, k_scale = ref_quant.dynamic_per_tensor_quant(keys, dtypes.fp8)
        # Three times as wide, so that the scales are not the same.
        values, v_scale = ref_quant.dynamic_per_tensor_quant(values * 3, dtypes.fp8)
        scales |= {"k_scale": k_scale.item(), "v_scale": v_scale.item()}
    want = run_torch(q, keys, values, tables, lengths, scales)
    mask = (torch.arange(context) < lengths.unsqueeze(1))[:, None, None]
    candidates = {}
    if ops.own_kernel():  # None on a CPU without a compiler, which is said in the log
        candidates[ops.own_kernel()] = lambda q, k, v, y: ops.attention.pa_decode(
            q, k, v, tables, lengths, **scales, out=y
        )
    if sequences and context > 1:  # torch's has no answer for rows without a token
        candidates["torch_gather_sdpa"] = lambda q, k, v, y: gather_sdpa(
            q, k, v, tables, mask, scales, y
        )

    widths = {"itemsize": q.element_size(), "cache_itemsize": keys.element_size()}
    flops, nbytes = ref.pa_decode_cost(
        heads, kv_heads, size, lengths.tolist(), block_size=block_size, **widths
    )

    typical = want.float().square().mean().sqrt().item() if want.numel() else 0.0
    ret = {"gfx": get_gfx()}
    for name, fn in candidates.items():
        y = torch.empty_like(q)
        _, us = run_perftest(fn, q, keys, values, y)  # the model reads y
        exact = name == "cpp" and cache != "fp8"  # keeps its probabilities in fp32
        err = checkAllclose(
            want,
            y,
            rtol=RTOL[dtype] if exact else 2 * RTOL[dtype],
            atol=typical * (1e-5 if exact else RTOL[dtype]),
            tol_err_ratio=0.01,
            msg=name,
        )
        ret[f"{name} us"] = us
        ret[f"{name} TFLOPS"] = flops / us / 1e6
        ret[f"{name} TB/s"] = nbytes / us / 1e6
        ret[f"{name} err"] = err
    return ret


def main():
    if get_gfx() not in SUPPORTED_GFX:
        logger.warning("pa_decode has no kernel for %s here; skipping", get_gfx())
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
        help="dtypes of queries and result, as -d bf16 fp16 fp32",
    )
    # Llama-3-8B serving 8192 tokens of context: sequence lengths are tokens of the KV cache.
    parser.add_argument(
        "-s",
        "--bc",
        type=dtypes.tuple_of(2, "sequences,context"),
        nargs="+",
        default=[(1, 8192), (16, 4096)],
        help="sequences,context: the longest context, the others from half of it on",
    )
    # num_attention_heads, num_key_value_heads, head_dim: Llama-3-8B, Llama-3-70B, GPT-OSS-120B.
    parser.add_argument(
        "--heads",
        type=dtypes.tuple_of(3, "heads,kv_heads,size"),
        nargs="+",
        default=[(32, 8, 128), (64, 8, 128), (64, 8, 64)],
        help="heads,kv_heads,size, the first a multiple of the second",
    )
    parser.add_argument(
        "--block_size",
        type=dtypes.positive_int,
        nargs="+",
        default=[16],
        help="tokens in a block of the cache",
    )
    parser.add_argument(
        "--cache",
        choices=["same", "fp8"],
        nargs="+",
        default=["same", "fp8"],
        help="of the queries' dtype, or fp8 with one scale for keys and one for values",
    )
    args = parser.parse_args()

    sweep = itertools.product(args.dtype, args.cache, args.block_size, args.heads, args.bc)
    rows = [test_pa_decode(*bc, *heads, block, *kinds) for *kinds, block, heads, bc in sweep]
    summarize("pa_decode", rows)


if __name__ == "__main__":
    main()
