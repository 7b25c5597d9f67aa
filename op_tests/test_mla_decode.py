"""Latent attention over a paged cache, decoding: which kernels are right, how fast each is."""

import argparse
import itertools

import torch

from aiter_ref import mla as ref
from optest import dtypes, logger, ops
from optest.test_common import benchmark, checkAllclose, get_gfx, run_perftest, summarize

SUPPORTED_GFX = ["cpu", "gfx942", "gfx950", "gfx1250", "sm_89", "sm_90", "sm_100", "sm_120"]
# Contexts of one token, that end on the border of a block and one past it; no sequence; no token.
SMOKE = ["-d", "bf16", "-s", "3,100", "1,1", "2,64", "2,65", "0,8", "2,0", "--heads", "17,64,16"]

# Half a step of the output; twice where probabilities are rounded to the dtype before the second
# product, as kernels on matrix units do.
RTOL = {dtypes.bf16: 2**-8, dtypes.fp16: 2**-11, dtypes.fp32: 1e-5}


def run_torch(q, cache, block_tables, context_lens, rank, scale):
    return ref.mla_decode(q, cache, block_tables, context_lens, rank=rank, scale=scale)


def gather_sdpa(q, cache, block_tables, mask, scale, out):
    """What torch offers: the blocks copied side by side, then its attention, padding masked.

    Heads stand where queries do, since they share keys; values are the keys, cut off afterwards.
    """
    latents = cache[block_tables].flatten(1, 2)[:, : mask.shape[-1]].unsqueeze(1)
    made = torch.nn.functional.scaled_dot_product_attention(
        q.unsqueeze(1), latents, latents, attn_mask=mask, scale=scale
    )
    return out.copy_(made.squeeze(1)[..., : out.shape[2]])


def ragged_lengths(sequences, context):
    """From half of the longest on, as in a batch that is decoded together; one has the longest."""
    lengths = torch.randint(context // 2, context + 1, (sequences,), dtype=torch.int32)
    lengths[:1] = context
    return lengths


@benchmark()
def test_mla_decode(sequences, context, heads, rank, rope, block_size, dtype):
    lengths = ragged_lengths(sequences, context)
    blocks = -(-context // block_size)
    # Every block belongs to one sequence, in random order.
    tables = torch.randperm(sequences * blocks, dtype=torch.int32).view(sequences, blocks)
    cache = torch.randn(sequences * blocks, block_size, rank + rope, dtype=dtype)
    q = torch.randn(sequences, heads, rank + rope, dtype=dtype)
    scale = (rank + rope) ** -0.5  # of these, not of DeepSeek's: scores of 1, as it has them
    want = run_torch(q, cache, tables, lengths, rank, scale)
    mask = (torch.arange(context) < lengths.unsqueeze(1))[:, None, None]
    candidates = {}
    if ops.own_kernel():  # None on a CPU without a compiler, which is said in the log
        candidates[ops.own_kernel()] = lambda q, cache, y: ops.attention.mla_decode(
            q, cache, tables, lengths, rank=rank, scale=scale, out=y
        )
    if sequences and context > 1:  # torch's has no answer for rows without a token
        candidates["torch_gather_sdpa"] = lambda q, cache, y: gather_sdpa(
            q, cache, tables, mask, scale, y
        )

    flops, nbytes = ref.mla_decode_cost(
        heads, rank, rope, lengths.tolist(), block_size=block_size, itemsize=q.element_size()
    )

    typical = want.float().square().mean().sqrt().item() if want.numel() else 0.0
    ret = {"gfx": get_gfx()}
    for name, fn in candidates.items():
        y = torch.empty(sequences, heads, rank, dtype=dtype)
        _, us = run_perftest(fn, q, cache, y)  # the model reads y
        exact = name == "cpp"  # keeps its probabilities in fp32
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
        logger.warning("mla_decode has no kernel for %s here; skipping", get_gfx())
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
        help="dtypes of queries and cache, as -d bf16 fp16 fp32",
    )
    # DeepSeek-V3 serving 4096 tokens of context: sequence lengths are tokens of the cache.
    parser.add_argument(
        "-s",
        "--bc",
        type=dtypes.tuple_of(2, "sequences,context"),
        nargs="+",
        default=[(1, 4096), (8, 2048)],
        help="sequences,context: the longest context, the others from half of it on",
    )
    # num_attention_heads, kv_lora_rank, qk_rope_head_dim: DeepSeek-V3 whole, and its share where
    # eight cards split the heads (DeepSeek-V2-Lite has as many).
    parser.add_argument(
        "--heads",
        type=dtypes.tuple_of(3, "heads,rank,rope"),
        nargs="+",
        default=[(128, 512, 64), (16, 512, 64)],
        help="heads,rank,rope: numbers of a latent and of its rotary key",
    )
    parser.add_argument(
        "--block_size",
        type=dtypes.positive_int,
        nargs="+",
        default=[64],
        help="tokens in a block of the cache",
    )
    args = parser.parse_args()

    sweep = itertools.product(args.dtype, args.block_size, args.heads, args.bc)
    rows = [test_mla_decode(*bc, *heads, block, dtype) for dtype, block, heads, bc in sweep]
    summarize("mla_decode", rows)


if __name__ == "__main__":
    main()
