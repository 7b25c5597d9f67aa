"""Text of small op tests."""

HEAD = """
import argparse
import torch
from optest import logger
from optest.test_common import benchmark, checkAllclose, run_perftest, summarize

SMOKE = ["-m", "6"]

"""
TAIL = """

def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-m", type=int, nargs="+", default=[6, 70])
    args = parser.parse_args()
    summarize("op", [test_op(m) for m in args.m])


if __name__ == "__main__":
    main()
"""

SOUND = """
@benchmark()
def test_op(m):
    x = torch.randn(m, 72)
    want = x * 2
    ret = {}
    candidates = {"good": lambda x, y: torch.mul(x, 2, out=y)}
    for name, fn in candidates.items():
        y = torch.empty(m, 72)
        _, us = run_perftest(fn, x, y)
        ret[f"{name} err"] = checkAllclose(want, y, rtol=1e-6, atol=0, tol_err_ratio=0, msg=name)
    return ret
"""
