"""Linear attention by the gated delta rule, a token at a time: right, and how fast."""

import argparse
import itertools

import torch
import torch.nn.functional as F  # noqa: N812 - the name everybody knows it by

from aiter_ref import delta_rule as ref
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
SMOKE = [
    "-d",
    "bf16",
    "-s",
    "1,64",
    "3,33",
    "2,129",
    "0,16",
    "--heads",
    "2,4",
    "--tokens",
    "1",
    "5",
]

# Half a step of the output; fp32: sums of a state's rows.
RTOL = {dtypes.bf16: 2**-8, dtypes.fp16: 2**-11, dtypes.fp32: 1e-5}


def run_torch(q, k, v, g, beta, state, slots, scale):
    return ref.gated_delta_rule(q, k, v, g, beta, state, slots, scale=scale)


def one_token(q, k, v, g, beta, state, slots, scale, out):
    """What inductor compiles: the step, in fp32."""
    group = v.shape[2] // q.shape[2]
    query, key = (x[:, 0].float().repeat_interleave(group, 1).unsqueeze(-1) for x in (q, k))
    held = state[slots] * g[:, 0].exp()[..., None, None]
    delta = (v[:, 0].float() - (held * key).sum(-2)) * beta[:, 0].unsqueeze(-1)
    held = held + key * delta.unsqueeze(-2)
    state.index_copy_(0, slots, held)
    return out.copy_(((held * query).sum(-2) * scale).unsqueeze(1))


def rms(x):
    return x.float().square().mean().sqrt().item() if x.numel() else 0.0


@benchmark(inout=("state",))
def test_gated_delta_rule(sequences, size, k_heads, v_heads, tokens, dtype):
    q, k = F.normalize(torch.randn(2, sequences, tokens, k_heads, size), dim=-1).to(dtype)
    v = torch.randn(sequences, tokens, v_heads, size, dtype=dtype)
    g = -torch.rand(sequences, tokens, v_heads)  # a decay from 1 down to 1/e
    beta = torch.rand(sequences, tokens, v_heads)
    # A sequence's slot is where one ended before it.
    first = torch.randn(sequences + 1, v_heads, size, size)
    slots = torch.randperm(sequences + 1, dtype=dtypes.i32)[:sequences]
    scale = max(size, 1) ** -0.5
    want, want_state = run_torch(q, k, v, g, beta, first, slots, scale)
    # What fp32 sums of numbers with both signs leave, as a share of a typical one.
    atol, state_atol = 1e-5 * rms(want), 1e-5 * rms(want_state)
    candidates = {}
    if ops.own_kernel():  # None on a CPU without a compiler, which is said in the log
        candidates[ops.own_kernel()] = lambda q, k, v, state, o: ops.delta_rule.gated_delta_rule(
            q, k, v, g, beta, state, slots, scale=scale, out=o
        )
    # Longer sequences it would unroll; and it cannot index by no slots.
    if ops.inductor.available() and tokens == 1 and sequences and size:
        step = ops.inductor.compiled(one_token, f"gated_delta_rule {dtype}")
        wide = slots.long()  # as index_copy_ takes them
        candidates["inductor"] = lambda q, k, v, state, o: step(
            q, k, v, g, beta, state, wide, scale, o
        )

    flops, nbytes = ref.gated_delta_rule_cost(
        sequences, tokens, k_heads, v_heads, size, size, dtype.itemsize
    )

    ret = {"gfx": get_gfx()}
    for name, fn in candidates.items():
        state, o = first.clone(), torch.empty_like(v)
        _, us = run_perftest(fn, q, k, v, state, o)  # the model reads o and the state
        err_o = checkAllclose(
            want, o, rtol=RTOL[dtype], atol=atol, tol_err_ratio=0.01, msg=f"{name}: o"
        )
        err_state = checkAllclose(
            want_state, state, rtol=1e-5, atol=state_atol, tol_err_ratio=0, msg=f"{name}: state"
        )
        ret[f"{name} us"] = us
        ret[f"{name} TFLOPS"] = flops / us / 1e6
        ret[f"{name} TB/s"] = nbytes / us / 1e6
        ret[f"{name} err"] = max(err_o, err_state)
    return ret


def main():
    if get_gfx() not in SUPPORTED_GFX or not (ops.own_kernel() or ops.inductor.available()):
        logger.warning("gated_delta_rule has no kernel for %s here; skipping", get_gfx())
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
    # Qwen3-Next-80B-A3B: linear_key_head_dim and linear_value_head_dim 128. Sequences: those that
    # are decoded together, each of some tokens: see --tokens.
    parser.add_argument(
        "-s",
        "--bd",
        type=dtypes.tuple_of(2, "sequences,size"),
        nargs="+",
        default=[(1, 128), (16, 128)],
        help="sequences,size of a head",
    )
    # Its linear_num_key_heads and linear_num_value_heads.
    parser.add_argument(
        "--heads",
        type=dtypes.tuple_of(2, "k_heads,v_heads"),
        nargs="+",
        default=[(16, 32)],
        help="k_heads,v_heads, the second a multiple of the first",
    )
    parser.add_argument(
        "--tokens",
        type=dtypes.positive_int,
        nargs="+",
        default=[1, 4],  # a decode step; one that checks three tokens that were predicted
        help="tokens of each sequence",
    )
    args = parser.parse_args()

    sweep = itertools.product(args.dtype, args.tokens, args.heads, args.bd)
    rows = [test_gated_delta_rule(*bd, *heads, tokens, dtype) for dtype, tokens, heads, bd in sweep]
    summarize("gated_delta_rule", rows)


if __name__ == "__main__":
    main()
