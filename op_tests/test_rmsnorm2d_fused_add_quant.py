"""Residual sum, RMSNorm and per-token quantisation in one pass: right, and how fast."""

import argparse
import itertools

import torch

from aiter_ref import norm_quant as ref
from optest import dtypes, logger, ops
from optest.test_common import benchmark, checkAllclose, get_gfx, run_perftest, summarize

SUPPORTED_GFX = ["cpu", "gfx942", "gfx950", "gfx1250", "sm_89", "sm_90", "sm_100", "sm_120"]
SMOKE = ["-d", "bf16", "-s", "16,256", "1,1", "0,64", "7,129"]

EPS = 1e-5  # rms_norm_eps of Llama-3
# A few fp32 steps: squares summed in another order, a root, two products.
SCALE_RTOL = 2**-19


def run_torch(x, residual, weight, quant_dtype):
    return ref.fused_add_rmsnorm_quant(x, residual, weight, EPS, quant_dtype)


def own(x, residual, weight, q, scales):
    return ops.norm_quant.fused_add_rmsnorm_quant(x, residual, weight, EPS, out=q, scales=scales)


def allocated(x, residual, weight, q, _scales):
    # Into new tensors, as inductor would make it of a model: written in place, torch 2.13 fails to
    # compile it for a CPU (KeyError in its loop fusion).
    return run_torch(x, residual, weight, q.dtype)


@benchmark(inout=("total",))
def test_rmsnorm2d_fused_add_quant(m, n, quant_dtype, dtype):
    x, residual = torch.randn(m, n, dtype=dtype), torch.randn(m, n, dtype=dtype)
    weight = torch.randn(n, dtype=dtype)
    want, want_scales, want_total = run_torch(x, residual, weight, quant_dtype)
    allocates = ("inductor",)  # the others write q, scales and total: those are what is checked
    candidates = {}
    if ops.own_kernel():  # None on a CPU without a compiler, which is said in the log
        candidates[ops.own_kernel()] = own
    if ops.inductor.available():
        label = f"fused_add_rmsnorm_quant {dtype} -> {quant_dtype}"
        candidates["inductor"] = ops.inductor.compiled(allocated, label)

    flops, nbytes = ref.fused_add_rmsnorm_quant_cost(m, n, dtype.itemsize, quant_dtype.itemsize)

    # One code apart is a near miss; more is an error. Steps are widest at the largest value.
    step = 1 if quant_dtype is dtypes.i8 else torch.finfo(quant_dtype).max / 14
    exact = {"rtol": 0, "atol": 0, "tol_err_ratio": 0}
    ret = {"gfx": get_gfx()}
    for name, fn in candidates.items():
        q, scales = torch.empty(m, n, dtype=quant_dtype), torch.empty(m, 1)
        total = residual.clone()  # updated in place, but by inductor
        made, us = run_perftest(fn, x, total, weight, q, scales)
        got, got_scales, kept = made if name in allocates else (q, scales, total)
        err = checkAllclose(
            want,
            got,
            rtol=0,
            atol=0,
            tol_err_ratio=1e-3,
            max_abs_delta=step,
            msg=f"{name}: values",
        )
        checkAllclose(
            want_scales,
            got_scales,
            rtol=SCALE_RTOL,
            atol=0,
            tol_err_ratio=0,
            msg=f"{name}: scales",
        )
        # One rounding of an exact sum: nothing may differ.
        checkAllclose(want_total, kept, **exact, msg=f"{name}: residual")
        ret[f"{name} us"] = us
        ret[f"{name} TFLOPS"] = flops / us / 1e6
        ret[f"{name} TB/s"] = nbytes / us / 1e6
        ret[f"{name} err"] = err
    return ret


def main():
    if get_gfx() not in SUPPORTED_GFX or not (ops.own_kernel() or ops.inductor.available()):
        logger.warning("rmsnorm2d_fused_add_quant has no kernel for %s here; skipping", get_gfx())
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
        help="dtypes of x, residual and weight, as -d bf16 fp16 fp32",
    )
    # m is tokens; n is hidden_size: 4096 in Llama-3-8B, 5120 in Qwen3-32B, 7168 in DeepSeek-V3.
    parser.add_argument(
        "-s",
        "--mn",
        type=dtypes.tuple_of(2, "m,n"),
        nargs="+",
        default=[(16, 4096), (4096, 5120), (16, 7168), (4096, 7168)],
        help="shapes m,n",
    )
    parser.add_argument(
        "--quant_dtype",
        type=dtypes.one_of("fp8", "i8"),
        nargs="+",
        default=[dtypes.fp8, dtypes.i8],
        help="as --quant_dtype fp8 i8",
    )
    args = parser.parse_args()

    sweep = itertools.product(args.quant_dtype, args.dtype, args.mn)
    rows = [test_rmsnorm2d_fused_add_quant(m, n, to, dtype) for to, dtype, (m, n) in sweep]
    summarize("rmsnorm2d_fused_add_quant", rows)


if __name__ == "__main__":
    main()
