"""Rows times a weight."""  # expect: OT101

import argparse
import itertools

import torch

from optest import dtypes, logger
from optest.test_common import checkAllclose, get_gfx, run_perftest, summarize

SUPPORTED_GFX = ["cpu", "gfx942", "gfx950"]


def run_torch(x, w):
    return (x.float() * w.float()).to(x.dtype)


def main():
    if get_gfx() not in SUPPORTED_GFX:
        logger.warning("scale is not supported on %s; skipping", get_gfx())
        return

    parser = argparse.ArgumentParser(description="config input of test")
    parser.add_argument("-d", "--dtype", type=dtypes.str2Dtype, nargs="+", default=[dtypes.bf16])
    parser.add_argument("-s", "--mn", type=dtypes.str2tuple, nargs="+", default=[(16, 128)])
    args = parser.parse_args()

    sweep = itertools.product(args.dtype, args.mn)
    x = torch.randn(16)
    rows = []
    for name, fn in {"clone": torch.clone}.items():
        y, us = run_perftest(fn, x)
        rows.append({"us": us, "err": checkAllclose(x, y, msg=name)})
    summarize("scale", rows)


if __name__ == "__main__":
    main()
