"""The text of a new op test: a small real operator, so that it runs before it is filled in."""

from __future__ import annotations

# For the operator ``scale`` and m,n,k: $op scale, $axes "m, n, k", $form "m,n,k", $shape "m, n, k"
# (one axis: "n,"), $last k, $count 3, $smoke and $shapes sizes.
TEXT = '''"""$op: which kernels are right, how fast each is."""

import argparse
import itertools

import torch

from optest import dtypes, logger
from optest.test_common import benchmark, checkAllclose, get_gfx, run_perftest, summarize

SUPPORTED_GFX = ["cpu", "gfx942", "gfx950", "gfx1250", "sm_90", "sm_100"]
SMOKE = ["-d", "bf16", "-s", "$smoke"]  # what pytest runs unless --optest-full is given

RTOL = {dtypes.bf16: 2**-8, dtypes.fp16: 2**-11, dtypes.fp32: 1e-5}  # half a step of the output


def run_torch(x, residual, scale):
    # Your reference here: fp32 inside, one cast at the end. It is never timed.
    return (x.float() * scale.float() + residual.float()).to(x.dtype)


def run_candidate(x, residual, scale, y):
    # Your kernel here: it writes y, which the caller has allocated.
    return torch.addcmul(residual, x, scale, out=y)


@benchmark()  # the arguments become the table's left columns
def test_$op($axes, dtype):
    shape = ($shape)
    x, residual = torch.randn(shape, dtype=dtype), torch.randn(shape, dtype=dtype)
    scale = torch.randn($last, dtype=dtype)
    want = run_torch(x, residual, scale)
    candidates = {"torch": run_candidate}

    flops = 2 * x.numel()  # a product and a sum for each element
    nbytes = (3 * x.numel() + scale.numel()) * x.element_size()

    ret = {"gfx": get_gfx()}
    for name, fn in candidates.items():
        y = torch.empty(shape, dtype=dtype)
        _, us = run_perftest(fn, x, residual, scale, y)  # the model reads y, whatever is returned
        err = checkAllclose(want, y, rtol=RTOL[dtype], atol=1e-6, tol_err_ratio=1e-4, msg=name)
        ret[f"{name} us"] = us
        ret[f"{name} TFLOPS"] = flops / us / 1e6
        ret[f"{name} TB/s"] = nbytes / us / 1e6
        ret[f"{name} err"] = err
    return ret


def main():
    if get_gfx() not in SUPPORTED_GFX:
        logger.warning("$op is not supported on %s; skipping", get_gfx())
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
    # Shapes of a model: name it here, and which of its sizes each axis is.
    parser.add_argument(
        "-s",
        "--shape",
        type=dtypes.tuple_of($count, "$form"),
        nargs="+",
        default=[$shapes],
        help="shapes $form",
    )
    args = parser.parse_args()

    sweep = itertools.product(args.dtype, args.shape)
    summarize("$op", [test_$op(*sizes, dtype) for dtype, sizes in sweep])


if __name__ == "__main__":
    main()
'''
