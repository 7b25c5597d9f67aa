"""Rows times a weight."""

import argparse
import itertools

import torch

from optest import dtypes, logger
from optest.test_common import benchmark, checkAllclose, get_gfx, run_perftest, summarize

SUPPORTED_GFX = ["cpu", "gfx942", "gfx950"]


def run_torch(x, w):
    return (x.float() * w.float()).to(x.dtype)


@benchmark()
def test_scale(m, n, dtype):
    x, w = torch.randn(m, n, dtype=dtype), torch.randn(n, dtype=dtype)
    want = run_torch(x, w)
    candidates = {"mul": lambda x, w, y: torch.mul(x, w, out=y)}
    candidates["torch_mul"] = lambda x, w, y: y.copy_(x * w)

    flops = m * n
    nbytes = (2 * m * n + n) * x.element_size()

    ret = {"gfx": get_gfx()}
    for name, fn in candidates.items():
        y = torch.empty_like(x)
        _, us = run_perftest(fn, x, w, y)
        err = checkAllclose(want, y, rtol=2**-8, atol=1e-6, tol_err_ratio=0.01, msg=name)
        ret[f"{name} us"] = us
        ret[f"{name} TFLOPS"] = flops / us / 1e6
        ret[f"{name} TB/s"] = nbytes / us / 1e6
        ret[f"{name} err"] = err
    return ret


def main():
    if get_gfx() not in SUPPORTED_GFX:
        logger.warning("scale is not supported on %s; skipping", get_gfx())
        return

    parser = argparse.ArgumentParser(description="config input of test")
    parser.add_argument("-d", "--dtype", type=dtypes.str2Dtype, nargs="+", default=[dtypes.bf16])
    parser.add_argument("-s", "--mn", type=dtypes.str2tuple, nargs="+", default=[(16, 128)])
    args = parser.parse_args()

    sweep = itertools.product(args.dtype, args.mn)
    summarize("scale", [test_scale(*mn, dtype) for dtype, mn in sweep])


if __name__ == "__main__":
    main()
