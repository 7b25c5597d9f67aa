"""RMSNorm over rows, alone and with the residual sum fused in: right, and how fast."""

import argparse
import itertools

import torch

from aiter_ref import norm as ref
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

EPS = 1e-5  # rms_norm_eps of Llama-3
# Half a step of the output, which fp32 inside and one rounding at the end rarely miss.
RTOL = {dtypes.bf16: 2**-8, dtypes.fp16: 2**-11, dtypes.fp32: 1e-5}


def run_torch(x, weight, residual=None):
    if residual is None:
        return ref.rmsnorm(x, weight, EPS)
    return ref.fused_add_rmsnorm(x, residual, weight, EPS)


def norm_into(x, weight, y):
    """What inductor compiles: the same formula, written to the same buffer."""
    return y.copy_(run_torch(x, weight))


def fused_add_norm(x, residual, weight):
    # Into new tensors, as inductor would make it of a model: written in place, torch 2.13 fails to
    # compile it for a CPU (KeyError in its loop fusion).
    return run_torch(x, weight, residual)


@benchmark()
def test_rmsnorm2d(m, n, dtype):
    x, weight = torch.randn(m, n, dtype=dtype), torch.randn(n, dtype=dtype)
    want = run_torch(x, weight)
    allocates = ("torch_rms_norm",)  # the others write y: that buffer is what is checked
    candidates = {}
    if ops.own_kernel():  # None on a CPU without a compiler, which is said in the log
        candidates[ops.own_kernel()] = lambda x, w, y: ops.norm.rmsnorm(x, w, EPS, out=y)
    if ops.inductor.available():
        candidates["inductor"] = ops.inductor.compiled(norm_into, f"rmsnorm {dtype}")
    if get_gfx() != "cpu":  # on a CPU torch has no kernel of its own for it
        candidates["torch_rms_norm"] = lambda x, w, _: torch.nn.functional.rms_norm(x, (n,), w, EPS)

    flops, nbytes = ref.rmsnorm_cost(m, n, x.element_size())

    ret = {"gfx": get_gfx()}
    for name, fn in candidates.items():
        y = torch.empty(m, n, dtype=dtype)
        made, us = run_perftest(fn, x, weight, y)
        err = checkAllclose(
            want,
            made if name in allocates else y,
            rtol=RTOL[dtype],
            atol=1e-6,
            tol_err_ratio=0.01,
            msg=name,
        )
        ret[f"{name} us"] = us
        ret[f"{name} TFLOPS"] = flops / us / 1e6
        ret[f"{name} TB/s"] = nbytes / us / 1e6
        ret[f"{name} err"] = err
    return ret


@benchmark(inout=("y", "total"))
def test_fused_add_rmsnorm2d(m, n, dtype):
    x, residual = torch.randn(m, n, dtype=dtype), torch.randn(m, n, dtype=dtype)
    weight = torch.randn(n, dtype=dtype)
    want, want_total = run_torch(x, weight, residual)
    allocates = ("inductor",)
    candidates = {}
    if ops.own_kernel():
        candidates[ops.own_kernel()] = lambda x, r, w: ops.norm.fused_add_rmsnorm(x, r, w, EPS)
    if ops.inductor.available():
        label = f"fused_add_rmsnorm {dtype}"
        candidates["inductor"] = ops.inductor.compiled(fused_add_norm, label)

    flops, nbytes = ref.fused_add_rmsnorm_cost(m, n, x.element_size())

    ret = {"gfx": get_gfx()}
    for name, fn in candidates.items():
        y, total = x.clone(), residual.clone()  # both are updated in place, but by inductor
        made, us = run_perftest(fn, y, total, weight)
        norm, summed = made if name in allocates else (y, total)
        err = checkAllclose(
            want,
            norm,
            rtol=RTOL[dtype],
            atol=1e-6,
            tol_err_ratio=0.01,
            msg=f"{name}: norm",
        )
        # One rounding of an exact sum: nothing may differ.
        checkAllclose(want_total, summed, rtol=0, atol=0, tol_err_ratio=0, msg=f"{name}: residual")
        ret[f"{name} us"] = us
        ret[f"{name} TFLOPS"] = flops / us / 1e6
        ret[f"{name} TB/s"] = nbytes / us / 1e6
        ret[f"{name} err"] = err
    return ret


def main():
    if get_gfx() not in SUPPORTED_GFX or not (ops.own_kernel() or ops.inductor.available()):
        logger.warning("rmsnorm2d has no kernel for %s here; skipping", get_gfx())
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
    # m is tokens; n is hidden_size: 4096 in Llama-3-8B, 8192 in 70B, 7168 in DeepSeek-V3.
    parser.add_argument(
        "-s",
        "--mn",
        type=dtypes.tuple_of(2, "m,n"),
        nargs="+",
        default=[(16, 4096), (4096, 4096), (16, 7168), (4096, 8192)],
        help="shapes m,n",
    )
    args = parser.parse_args()

    for name, test in (
        ("rmsnorm2d", test_rmsnorm2d),
        ("fused_add_rmsnorm2d", test_fused_add_rmsnorm2d),
    ):
        sweep = itertools.product(args.dtype, args.mn)
        summarize(name, [test(m, n, dtype) for dtype, (m, n) in sweep])


if __name__ == "__main__":
    main()
