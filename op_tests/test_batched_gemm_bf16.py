"""Batched GEMM, y[i] = x[i] @ w[i].T, in the layouts that models use: right, and how fast."""

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
SMOKE = ["-d", "bf16", "-b", "3", "-s", "16,128,64"]

# Half a step of the output, which sums in fp32 rarely miss: where a sum lies between two outputs,
# another order of summing may round it the other way. Near zero: the rounding of the sum itself.
RTOL = {dtypes.bf16: 2**-8, dtypes.fp16: 2**-11, dtypes.fp32: 1e-5}
ATOL = 1e-5


def run_torch(x, w, dtype):
    return ref.batched_gemm(x, w, dtype)


def operands(b, m, n, k, dtype, layout):
    """x [b, m, k], w [b, n, k] and a maker of y [b, m, n], laid out as the model has them."""
    w = torch.randn(b, n, k, dtype=dtype) * max(k, 1) ** -0.5
    if layout == "mbn":  # tokens first in memory: x and y are transposed views
        x = torch.randn(m, b, k, dtype=dtype).transpose(0, 1)
        return x, w, lambda: torch.empty(m, b, n, dtype=dtype).transpose(0, 1)
    return torch.randn(b, m, k, dtype=dtype), w, lambda: torch.empty(b, m, n, dtype=dtype)


@benchmark()
def test_batched_gemm(b, m, n, k, dtype, layout):
    x, w, empty_y = operands(b, m, n, k, dtype, layout)
    want = run_torch(x, w, dtype)
    # einsum takes the model's own operand, contiguous [tokens, groups, k], and gives the result
    # in the order of its subscripts: s tokens, g groups, r rows of the weight, d depth.
    tokens_first = x.transpose(0, 1).contiguous()
    if layout == "mbn":
        einsum = lambda *_: torch.einsum("sgd,grd->sgr", tokens_first, w).transpose(0, 1)
    else:
        einsum = lambda *_: torch.einsum("sgd,grd->gsr", tokens_first, w)
    allocates = ("torch_einsum",)  # the others write y: that buffer is what is checked
    candidates = {
        # What torch runs: oneDNN on a CPU, rocBLAS or cuBLAS on a GPU.
        "torch_bmm": lambda x, w, y: torch.bmm(x, w.transpose(1, 2), out=y),
        "torch_einsum": einsum,
    }
    if ops.own_kernel() == "triton":  # on a CPU the wrapper is torch.bmm itself
        candidates["triton"] = lambda x, w, y: ops.batched_gemm.batched_gemm_bf16(x, w, out=y)

    flops, nbytes = ref.gemm_cost(m, n, k, x.element_size(), batch=b)

    ret = {"gfx": get_gfx()}
    for name, fn in candidates.items():
        y = empty_y()
        made, us = run_perftest(fn, x, w, y)
        err = checkAllclose(
            want,
            made if name in allocates else y,
            rtol=RTOL[dtype],
            atol=ATOL,
            tol_err_ratio=0.01,
            msg=f"{name}: {layout}",
        )
        ret[f"{name} us"] = us
        ret[f"{name} TFLOPS"] = flops / us / 1e6
        ret[f"{name} TB/s"] = nbytes / us / 1e6
        ret[f"{name} err"] = err
    return ret


def main():
    if get_gfx() not in SUPPORTED_GFX:
        logger.warning("batched_gemm_bf16 is not supported on %s; skipping", get_gfx())
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
    # DeepSeek-V3, absorbed projections of its attention (num_attention_heads 128, kv_lora_rank
    # 512, qk_nope_head_dim = v_head_dim = 128): b is the heads of one rank, 128 / tp, for tp 8
    # and tp 4; m is tokens; n,k = 512,128 for the query (W_UK) and 128,512 for the output (W_UV).
    parser.add_argument(
        "-b",
        "--batch",
        type=dtypes.positive_int,
        nargs="+",
        default=[16, 32],
        help="batch sizes, separated by blanks",
    )
    parser.add_argument(
        "-s",
        "--mnk",
        type=dtypes.tuple_of(3, "m,n,k"),
        nargs="+",
        default=[(1, 512, 128), (64, 512, 128), (64, 128, 512)],
        help="shapes m,n,k",
    )
    parser.add_argument(
        "--layout",
        choices=["bmn", "mbn"],
        nargs="+",
        default=["bmn", "mbn"],
        help="mbn, as the model has it: x and y are views of [m,b,...]",
    )
    args = parser.parse_args()

    sweep = itertools.product(args.dtype, args.layout, args.batch, args.mnk)
    rows = [test_batched_gemm(b, *mnk, dtype, layout) for dtype, layout, b, mnk in sweep]
    summarize("batched_gemm", rows)


if __name__ == "__main__":
    main()
