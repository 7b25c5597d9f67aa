"""Attention of many queries, sequences side by side: which kernels are right, how fast each is."""

import argparse
import itertools

import torch

from aiter_ref import mha as ref
from optest import dtypes, logger, ops
from optest.test_common import benchmark, checkAllclose, get_gfx, run_perftest, summarize

SUPPORTED_GFX = ["cpu", "gfx942", "gfx950", "gfx1250", "sm_89", "sm_90", "sm_100", "sm_120"]
# Tiles that end beside the border, keys from before the queries, a query alone, none, no key.
SHAPES = ["3,150,150", "2,33,170", "2,1,200", "0,5,5", "2,3,0"]
SMOKE = ["-d", "bf16", "-s", *SHAPES, "--heads", "4,2,64"]

# Half a step of the output. Probabilities are rounded to the dtype before the second product: their
# errors add up to 0.4 half steps of a typical output (one deviation), of which four are allowed.
RTOL = {dtypes.bf16: 2**-8, dtypes.fp16: 2**-11, dtypes.fp32: 1e-5}
# Whether keys behind a query are seen, and how many of those before it: 0 is all. Llama-3's
# prompts, the encoder of Whisper, GPT-OSS's sliding_window.
MASKS = {"causal": (True, 0), "full": (False, 0), "window128": (True, 128)}


def run_torch(q, k, v, cu_q, cu_k, mask, scale):
    causal, window = MASKS[mask]
    return ref.mha(q, k, v, cu_q, cu_k, causal=causal, window=window, scale=scale)


def ragged(sequences, queries, keys):
    """Queries and keys of each sequence: the first has the most, all as many keys before them."""
    many = torch.randint(queries // 2, queries + 1, (sequences,), dtype=torch.int32)
    many[:1] = queries
    return many, (many + keys - queries).clamp(min=0)


def starts(lengths):
    return torch.nn.functional.pad(lengths.cumsum(0, dtype=torch.int32), (1, 0))


@benchmark()
def test_mha(sequences, queries, keys, heads, kv_heads, size, mask, dtype):
    many, lengths = ragged(sequences, queries, keys)
    cu_q, cu_k = starts(many), starts(lengths)
    # As the fused projection leaves them: rows of a token's q, k and v side by side.
    q = torch.randn(cu_q[-1], heads + 2 * kv_heads, size, dtype=dtype)[:, :heads]
    kv = torch.randn(cu_k[-1], heads + 2 * kv_heads, size, dtype=dtype)
    k, v = kv[:, heads : heads + kv_heads], kv[:, heads + kv_heads :]
    (causal, window), scale = MASKS[mask], size**-0.5
    want = run_torch(q, k, v, cu_q, cu_k, mask, scale)
    sees = {"causal": causal, "window": window, "scale": scale}
    candidates = {
        # What torch offers, sequence after sequence: on a CPU its own flash attention.
        "torch_sdpa": lambda q, k, v, y: ops.sdpa.mha(q, k, v, cu_q, cu_k, out=y, **sees)
    }
    if ops.own_kernel() == "triton":  # on a CPU the wrapper is torch's attention itself
        candidates["triton"] = lambda q, k, v, y: ops.attention.mha(
            q, k, v, cu_q, cu_k, out=y, **sees
        )

    flops, nbytes = ref.mha_cost(
        heads,
        kv_heads,
        size,
        list(zip(many.tolist(), lengths.tolist(), strict=True)),
        causal=causal,
        window=window,
        itemsize=q.element_size(),
    )

    typical = want.float().square().mean().sqrt().item() if want.numel() else 0.0
    ret = {"gfx": get_gfx()}
    for name, fn in candidates.items():
        y = torch.empty(want.shape, dtype=dtype)
        _, us = run_perftest(fn, q, k, v, y)  # the model reads y
        err = checkAllclose(
            want,
            y,
            rtol=RTOL[dtype],
            atol=1.6 * typical * RTOL[dtype],
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
        logger.warning("mha has no kernel for %s here; skipping", get_gfx())
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
        help="dtypes of queries, keys and values, as -d bf16 fp16 fp32",
    )
    # Llama-3-8B serving: queries and keys are tokens of whole prompts, then those of a chunk whose
    # beginning is in the cache.
    parser.add_argument(
        "-s",
        "--bmn",
        type=dtypes.tuple_of(3, "sequences,queries,keys"),
        nargs="+",
        default=[(1, 2048, 2048), (8, 512, 512), (2, 512, 2048)],
        help="sequences,queries,keys: the most of a sequence, the others from half of them on",
    )
    # num_attention_heads, num_key_value_heads, head_dim: Llama-3-8B, GPT-OSS-20B.
    parser.add_argument(
        "--heads",
        type=dtypes.tuple_of(3, "heads,kv_heads,size"),
        nargs="+",
        default=[(32, 8, 128), (64, 8, 64)],
        help="heads,kv_heads,size, the first a multiple of the second",
    )
    parser.add_argument(
        "--mask",
        choices=MASKS,
        nargs="+",
        default=["causal", "full", "window128"],
        help="which keys a query sees, as --mask causal full window128",
    )
    args = parser.parse_args()

    sweep = itertools.product(args.dtype, args.mask, args.heads, args.bmn)
    rows = [test_mha(*bmn, *heads, mask, dtype) for dtype, mask, heads, bmn in sweep]
    summarize("mha", rows)


if __name__ == "__main__":
    main()
