"""One token through the causal convolution of a state-space model: right, and how fast."""

import argparse
import itertools

import torch

from aiter_ref import conv1d as ref
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
SMOKE = ["-d", "bf16", "-s", "1,64", "17,300", "3,129", "0,16"]

# Half a step of the output; fp32: five sums, and what exp leaves.
RTOL = {dtypes.bf16: 2**-8, dtypes.fp16: 2**-11, dtypes.fp32: 2**-19}


def run_torch(x, state, weight, bias, slots, silu):
    return ref.causal_conv1d_update(x, state, weight, bias, slots, silu=silu)


def states(slots, dim, width, layout, dtype):
    """``sdw``: as Mamba has it; ``swd``: [slots, width - 1, dim] in memory, as vLLM's cache."""
    if layout == "sdw":
        return torch.randn(slots, dim, width - 1, dtype=dtype)
    return torch.randn(slots, width - 1, dim, dtype=dtype).transpose(1, 2)


def in_place(x, state, weight, bias, slots, silu, y):
    """What inductor compiles."""
    window = torch.cat([state[slots], x.unsqueeze(-1)], dim=-1)
    total = (window.float() * weight.float()).sum(-1) + bias.float()
    y.copy_(total * torch.sigmoid(total) if silu else total)
    state.index_copy_(0, slots, window[..., 1:])
    return y


def copy_like(tensor):
    """A copy with the same strides."""
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype).copy_(tensor)


@benchmark(inout=("state",))
def test_causal_conv1d_update(batch, dim, width, act, layout, dtype):
    x = torch.randn(batch, dim, dtype=dtype)
    weight = torch.randn(dim, width, dtype=dtype) * width**-0.5
    bias = torch.randn(dim, dtype=dtype)
    # A sequence's slot is where one ended before it.
    first = states(2 * batch + 1, dim, width, layout, dtype)
    slots = torch.randperm(2 * batch + 1, dtype=dtypes.i32)[:batch]
    silu = act == "silu"
    want, want_state = run_torch(x, first, weight, bias, slots, silu)
    candidates = {}
    if ops.own_kernel():  # None on a CPU without a compiler, which is said in the log
        candidates[ops.own_kernel()] = lambda x, state, y: ops.conv1d.causal_conv1d_update(
            x, state, weight, bias, slots, silu=silu, out=y
        )
    if ops.inductor.available() and batch:  # it cannot index by no slots
        compiled = ops.inductor.compiled(in_place, f"causal_conv1d_update {act} {layout} {dtype}")
        wide = slots.long()  # as index_copy_ takes them
        candidates["inductor"] = lambda x, state, y: compiled(x, state, weight, bias, wide, silu, y)

    flops, nbytes = ref.causal_conv1d_update_cost(batch, dim, width, x.element_size(), silu=silu)

    ret = {"gfx": get_gfx()}
    for name, fn in candidates.items():
        state, y = copy_like(first), torch.empty_like(x)
        _, us = run_perftest(fn, x, state, y)
        err = checkAllclose(want, y, rtol=RTOL[dtype], atol=1e-6, msg=f"{name}: y")
        moved = checkAllclose(
            want_state, state, rtol=0, atol=0, tol_err_ratio=0, msg=f"{name}: state"
        )
        ret[f"{name} us"] = us
        ret[f"{name} TFLOPS"] = flops / us / 1e6
        ret[f"{name} TB/s"] = nbytes / us / 1e6
        ret[f"{name} err"] = max(err, moved)
    return ret


def main():
    if get_gfx() not in SUPPORTED_GFX or not (ops.own_kernel() or ops.inductor.available()):
        logger.warning("causal_conv1d_update has no kernel for %s here; skipping", get_gfx())
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
        help="dtypes of all operands, as -d bf16 fp16 fp32",
    )
    # dim: intermediate_size of Falcon-Mamba-7B, 8192, as are the query, key and value channels of
    # Qwen3-Next-80B-A3B (2 * 16 * 128 + 32 * 128); Mamba-2.8B has 5120. Batches are tokens: one of
    # each sequence.
    parser.add_argument(
        "-s",
        "--bd",
        type=dtypes.tuple_of(2, "batch,dim"),
        nargs="+",
        default=[(1, 8192), (64, 8192), (256, 5120)],
        help="batch,dim: sequences, channels",
    )
    parser.add_argument(
        "--width",
        type=dtypes.positive_int,
        nargs="+",
        default=[4],  # conv_kernel, d_conv, linear_conv_kernel_dim of these models
        help="taps of the convolution",
    )
    parser.add_argument(
        "--act", choices=["silu", "none"], nargs="+", default=["silu"], help="what follows it"
    )
    parser.add_argument(
        "--layout",
        choices=["swd", "sdw"],
        nargs="+",
        default=["swd", "sdw"],
        help="order of the state's slots, width and dim in memory",
    )
    args = parser.parse_args()

    sweep = itertools.product(args.dtype, args.layout, args.act, args.width, args.bd)
    rows = [
        test_causal_conv1d_update(*bd, width, act, layout, dtype)
        for dtype, layout, act, width, bd in sweep
    ]
    summarize("causal_conv1d_update", rows)


if __name__ == "__main__":
    main()
