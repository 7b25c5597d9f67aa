"""Gated activations of a feed-forward layer, act(a) * b: which are right, how fast each is."""

import argparse
import itertools

import torch

from aiter_ref import activation as ref
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
SMOKE = ["-d", "bf16", "-s", "16,256"]

ACTIVATIONS = ["silu", "gelu", "gelu_tanh"]
OWN = {
    "silu": lambda x, y: ops.activation.silu_and_mul(x, out=y),
    "gelu": lambda x, y: ops.activation.gelu_and_mul(x, out=y),
    "gelu_tanh": lambda x, y: ops.activation.gelu_tanh_and_mul(x, out=y),
}
# Half a step of the output, which fp32 inside and one rounding at the end rarely miss. Far down
# the left tail gelu is a difference of numbers near 1: there fp32 leaves an absolute error.
RTOL = {dtypes.bf16: 2**-8, dtypes.fp16: 2**-11, dtypes.fp32: 1e-5}
ATOL = 1e-6


def run_torch(x, act):
    if act == "silu":
        return ref.silu_and_mul(x)
    return ref.gelu_and_mul(x) if act == "gelu" else ref.gelu_tanh_and_mul(x)


def into_buffer(x, y, act):
    """What inductor compiles: the same formula, written to the same buffer."""
    return y.copy_(run_torch(x, act))


@benchmark()
def test_act_and_mul(m, d, act, dtype):
    x = torch.randn(m, 2 * d, dtype=dtype)  # what gate_up_proj gives: gates, then values
    want = run_torch(x, act)
    candidates = {}
    if ops.own_kernel():  # None on a CPU without a compiler, which is said in the log
        candidates[ops.own_kernel()] = OWN[act]
    if ops.inductor.available():
        compiled = ops.inductor.compiled(into_buffer, f"{act}_and_mul {dtype}")
        candidates["inductor"] = lambda x, y: compiled(x, y, act)

    flops, nbytes = ref.act_and_mul_cost(m, d, act, x.element_size())

    ret = {"gfx": get_gfx()}
    for name, fn in candidates.items():
        y = torch.empty(m, d, dtype=dtype)
        _, us = run_perftest(fn, x, y)  # the model reads y, whatever is returned
        err = checkAllclose(want, y, rtol=RTOL[dtype], atol=ATOL, tol_err_ratio=0.01, msg=name)
        ret[f"{name} us"] = us
        ret[f"{name} TFLOPS"] = flops / us / 1e6
        ret[f"{name} TB/s"] = nbytes / us / 1e6
        ret[f"{name} err"] = err
    return ret


def main():
    if get_gfx() not in SUPPORTED_GFX or not (ops.own_kernel() or ops.inductor.available()):
        logger.warning("act_and_mul has no kernel for %s here; skipping", get_gfx())
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
    # m is tokens; d is intermediate_size: 14336 in Llama-3-8B (silu), and 2048 in an expert of
    # DeepSeek-V3 (moe_intermediate_size).
    parser.add_argument(
        "-s",
        "--md",
        type=dtypes.tuple_of(2, "m,d"),
        nargs="+",
        default=[(16, 14336), (1024, 14336), (4096, 2048)],
        help="shapes m,d; the input is [m,2d]",
    )
    parser.add_argument("--act", choices=ACTIVATIONS, nargs="+", default=ACTIVATIONS)
    args = parser.parse_args()

    sweep = itertools.product(args.dtype, args.act, args.md)
    summarize("act_and_mul", [test_act_and_mul(*md, act, dtype) for dtype, act, md in sweep])


if __name__ == "__main__":
    main()
