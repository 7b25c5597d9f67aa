"""GEMM of 16-bit activations and weights, y = x @ w.T: which are right, how fast each is."""

import argparse
import itertools

import torch

from aiter_ref import gemm as ref
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
SMOKE = ["-d", "bf16", "-s", "16,128,256"]

# Half a step of the output, which sums in fp32 rarely miss: where a sum lies between two outputs,
# another order of summing may round it the other way. Near zero: the rounding of the sum itself.
RTOL = {dtypes.bf16: 2**-8, dtypes.fp16: 2**-11, dtypes.fp32: 1e-5}
ATOL = 1e-5


def run_torch(x, w, dtype):
    return ref.gemm_a16w16(x, w, dtype)


@benchmark()
def test_gemm(m, n, k, dtype):
    x = torch.randn(m, k, dtype=dtype)
    w = torch.randn(n, k, dtype=dtype) * max(k, 1) ** -0.5  # as linear layers are initialised
    want = run_torch(x, w, dtype)
    allocates = ("torch_einsum",)  # the others write y: that buffer is what is checked
    candidates = {
        # What a linear layer of torch runs: oneDNN on a CPU, rocBLAS or cuBLAS on a GPU.
        "torch_mm": lambda x, w, y: torch.mm(x, w.t(), out=y),
        # As models that write einsum do.
        "torch_einsum": lambda x, w, _: torch.einsum("mk,nk->mn", x, w),
    }
    if ops.own_kernel() == "triton":  # on a CPU the wrapper is torch.mm itself
        candidates["triton"] = lambda x, w, y: ops.gemm.gemm_a16w16(x, w, out=y)

    flops, nbytes = ref.gemm_cost(m, n, k, x.element_size())

    ret = {"gfx": get_gfx()}
    for name, fn in candidates.items():
        y = torch.empty(m, n, dtype=dtype)
        made, us = run_perftest(fn, x, w, y)
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
        logger.warning("gemm_a16w16 is not supported on %s; skipping", get_gfx())
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
    # Llama-3-8B (hidden_size 4096, intermediate_size 14336, 32 query and 8 key heads of 128):
    # n,k of qkv_proj, o_proj, gate_up_proj, down_proj; m is tokens: decode, then prefill.
    parser.add_argument(
        "-s",
        "--mnk",
        type=dtypes.tuple_of(3, "m,n,k"),
        nargs="+",
        default=[
            (16, 6144, 4096),
            (16, 4096, 4096),
            (16, 28672, 4096),
            (16, 4096, 14336),
            (512, 6144, 4096),
            (512, 4096, 14336),
        ],
        help="shapes m,n,k",
    )
    args = parser.parse_args()

    sweep = itertools.product(args.dtype, args.mnk)
    summarize("gemm_a16w16", [test_gemm(*mnk, dtype) for dtype, mnk in sweep])


if __name__ == "__main__":
    main()
