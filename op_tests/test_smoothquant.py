"""SmoothQuant: a scale a channel, then a dynamic one a token: right, and how fast."""

import argparse
import itertools

import torch

from aiter_ref import norm_quant as ref
from optest import dtypes, logger, ops
from optest.test_common import benchmark, checkAllclose, get_gfx, run_perftest, summarize

SUPPORTED_GFX = ["cpu", "gfx942", "gfx950", "gfx1250", "sm_89", "sm_90", "sm_100", "sm_120"]
SMOKE = ["-d", "bf16", "-s", "16,256", "1,1", "0,64", "7,129"]


def run_torch(x, smooth_scale, quant_dtype):
    return ref.smoothquant(x, smooth_scale, quant_dtype)


def own(x, smooth_scale, q, scales):
    return ops.norm_quant.smoothquant(x, smooth_scale, out=q, scales=scales)


def into_buffers(x, smooth_scale, q, scales):
    """What inductor compiles: the same formula, written to the same buffers."""
    values, found = run_torch(x, smooth_scale, q.dtype)
    return q.copy_(values), scales.copy_(found)


@benchmark()
def test_smoothquant(m, n, quant_dtype, dtype):
    # Channels of unlike size, and a scale that evens them out in part, as a calibration finds it.
    spread = torch.rand(n) * 4 + 0.1
    x, smooth_scale = (torch.randn(m, n) * spread).to(dtype), spread**-0.5
    want, want_scales = run_torch(x, smooth_scale, quant_dtype)
    candidates = {}
    if ops.own_kernel():  # None on a CPU without a compiler, which is said in the log
        candidates[ops.own_kernel()] = own
    if ops.inductor.available():
        label = f"smoothquant {dtype} -> {quant_dtype}"
        candidates["inductor"] = ops.inductor.compiled(into_buffers, label)

    flops, nbytes = ref.smoothquant_cost(m, n, dtype.itemsize, quant_dtype.itemsize)

    # One code apart is a near miss; more is an error. Steps are widest at the largest value.
    step = 1 if quant_dtype is dtypes.i8 else torch.finfo(quant_dtype).max / 14
    ret = {"gfx": get_gfx()}
    for name, fn in candidates.items():
        q, scales = torch.empty(m, n, dtype=quant_dtype), torch.empty(m, 1)
        _, us = run_perftest(fn, x, smooth_scale, q, scales)  # the model reads its buffers
        err = checkAllclose(
            want,
            q,
            rtol=0,
            atol=0,
            tol_err_ratio=1e-3,
            max_abs_delta=step,
            msg=f"{name}: values",
        )
        # A product and a division, each rounded once: nothing may differ.
        checkAllclose(want_scales, scales, rtol=0, atol=0, tol_err_ratio=0, msg=f"{name}: scales")
        ret[f"{name} us"] = us
        ret[f"{name} TFLOPS"] = flops / us / 1e6
        ret[f"{name} TB/s"] = nbytes / us / 1e6
        ret[f"{name} err"] = err
    return ret


def main():
    if get_gfx() not in SUPPORTED_GFX or not (ops.own_kernel() or ops.inductor.available()):
        logger.warning("smoothquant has no kernel for %s here; skipping", get_gfx())
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
        help="dtypes of the input, as -d bf16 fp16 fp32",
    )
    # m is tokens; n is what the GEMMs of Llama-3-8B sum over: hidden_size 4096 and
    # intermediate_size 14336; 8192 and 28672 in 70B.
    parser.add_argument(
        "-s",
        "--mn",
        type=dtypes.tuple_of(2, "m,n"),
        nargs="+",
        default=[(16, 4096), (1024, 14336), (16, 8192), (1024, 28672)],
        help="shapes m,n",
    )
    parser.add_argument(
        "--quant_dtype",
        type=dtypes.one_of("i8", "fp8"),
        nargs="+",
        default=[dtypes.i8],
        help="as --quant_dtype i8 fp8",
    )
    args = parser.parse_args()

    sweep = itertools.product(args.quant_dtype, args.dtype, args.mn)
    rows = [test_smoothquant(m, n, to, dtype) for to, dtype, (m, n) in sweep]
    summarize("smoothquant", rows)


if __name__ == "__main__":
    main()
