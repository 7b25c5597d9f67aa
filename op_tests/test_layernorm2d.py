"""Layer normalisation over rows: which kernels are right, how fast each is."""

import argparse
import itertools

import torch

from aiter_ref import layernorm as ref
from optest import dtypes, logger, ops
from optest.test_common import benchmark, checkAllclose, get_gfx, run_perftest, summarize

SUPPORTED_GFX = ["cpu", "gfx942", "gfx950", "gfx1250", "sm_89", "sm_90", "sm_100", "sm_120"]
SMOKE = ["-d", "bf16", "-s", "16,256", "1,1", "0,64", "7,129"]

EPS = 1e-6  # of DeepSeek-V3's indexer
# Half a step of the output, which fp32 inside and one rounding at the end rarely miss.
RTOL = {dtypes.bf16: 2**-8, dtypes.fp16: 2**-11, dtypes.fp32: 1e-5}
ATOL = 4e-6  # where the bias takes a product of up to 8 away, eight of its fp32 steps are left


def run_torch(x, weight, bias):
    return ref.layernorm(x, weight, bias, EPS)


def into_buffer(x, weight, bias, y):
    """What inductor compiles: the same formula, written to the same buffer."""
    return y.copy_(run_torch(x, weight, bias))


@benchmark()
def test_layernorm2d(m, n, dtype):
    x = torch.randn(m, n, dtype=dtype) + 0.5  # a mean to take out
    weight, bias = torch.randn(n, dtype=dtype), torch.randn(n, dtype=dtype)
    want = run_torch(x, weight, bias)
    allocates = ("torch_layer_norm",)  # the others write y: that buffer is what is checked
    candidates = {}
    if ops.own_kernel():  # None on a CPU without a compiler, which is said in the log
        candidates[ops.own_kernel()] = lambda x, w, b, y: ops.layernorm.layernorm(
            x, w, b, EPS, out=y
        )
    if ops.inductor.available():
        candidates["inductor"] = ops.inductor.compiled(into_buffer, f"layernorm {dtype}")
    if n:  # torch's own refuses rows of nothing
        candidates["torch_layer_norm"] = lambda x, w, b, _: torch.nn.functional.layer_norm(
            x, (n,), w, b, EPS
        )

    flops, nbytes = ref.layernorm_cost(m, n, x.element_size())

    ret = {"gfx": get_gfx()}
    for name, fn in candidates.items():
        y = torch.empty(m, n, dtype=dtype)
        made, us = run_perftest(fn, x, weight, bias, y)
        err = checkAllclose(
            want,
            made if name in allocates else y,
            rtol=RTOL[dtype],
            atol=ATOL,
            tol_err_ratio=0.01,
            msg=name,
        )
        ret[f"{name} us"] = us
        ret[f"{name} TFLOPS"] = flops / us / 1e6
        ret[f"{name} TB/s"] = nbytes / us / 1e6
        ret[f"{name} err"] = err
    return ret


def main():
    if get_gfx() not in SUPPORTED_GFX:
        logger.warning("layernorm2d has no kernel for %s here; skipping", get_gfx())
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
    # m is tokens; n is index_head_dim 128 of DeepSeek-V3.2, hidden_size 2560 of Phi-2, 4544 of
    # Falcon-7B, 8192 of Falcon-40B.
    parser.add_argument(
        "-s",
        "--mn",
        type=dtypes.tuple_of(2, "m,n"),
        nargs="+",
        default=[(16, 128), (4096, 2560), (16, 4544), (4096, 8192)],
        help="shapes m,n",
    )
    args = parser.parse_args()

    sweep = itertools.product(args.dtype, args.mn)
    summarize("layernorm2d", [test_layernorm2d(m, n, dtype) for dtype, (m, n) in sweep])


if __name__ == "__main__":
    main()
