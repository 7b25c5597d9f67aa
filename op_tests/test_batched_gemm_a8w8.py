"""Batched GEMM of int8 or fp8, scaled by row and by column, in the layouts that models use."""

import argparse
import itertools

import torch

from aiter_ref import gemm_quant as ref
from aiter_ref import quant as ref_quant
from optest import dtypes, logger, ops
from optest.test_common import benchmark, checkAllclose, get_gfx, run_perftest, summarize

SUPPORTED_GFX = ["cpu", "gfx942", "gfx950", "gfx1250", "sm_89", "sm_90", "sm_100", "sm_120"]
SMOKE = ["-d", "bf16", "-b", "3", "-s", "1,64,96", "7,129,127"]

# Half a step of the output; fp32: the three roundings of the sum and its two scales.
RTOL = {dtypes.bf16: 2**-8, dtypes.fp16: 2**-11, dtypes.fp32: 2**-22}


def run_torch(x, w, x_scale, w_scale, dtype):
    return ref.gemm_a8w8(x, w, x_scale, w_scale, dtype)


def product_then_scaled(x, w, x_scale, w_scale, y):
    """What torch has for it: both operands in fp32, exact for int8 up to k = 1040."""
    return y.copy_(torch.bmm(x.float(), w.float().transpose(1, 2)) * x_scale * w_scale.mT)


def operands(b, m, n, k, quant_dtype, dtype, layout):
    """x, w with their scales, and a maker of y [b, m, n], laid out as the model has them."""
    token_rows, x_scale = ref_quant.dynamic_per_token_quant(torch.randn(b * m, k), quant_dtype)
    x, x_scale = token_rows.view(b, m, k), x_scale.view(b, m, 1)
    weight = torch.randn(b * n, k) * max(k, 1) ** -0.5  # as linear layers are initialised
    channels, w_scale = ref_quant.dynamic_per_token_quant(weight, quant_dtype)
    w, w_scale = channels.view(b, n, k), w_scale.view(b, n, 1)
    if layout == "mbn":  # tokens first in memory: x and y are transposed views
        x = x.transpose(0, 1).contiguous().transpose(0, 1)
        return x, w, x_scale, w_scale, lambda: torch.empty(m, b, n, dtype=dtype).transpose(0, 1)
    return x, w, x_scale, w_scale, lambda: torch.empty(b, m, n, dtype=dtype)


@benchmark()
def test_batched_gemm_a8w8(b, m, n, k, quant_dtype, dtype, layout):
    x, w, x_scale, w_scale, empty_y = operands(b, m, n, k, quant_dtype, dtype, layout)
    want = run_torch(x, w, x_scale, w_scale, dtype)
    exact = quant_dtype is dtypes.i8
    candidates = {ops.own_kernel(): ops.gemm_quant.batched_gemm_a8w8}
    packed = {ops.own_kernel(): ops.gemm_quant.pack_weight(w)}  # once, as a model does
    if get_gfx() == "cpu" and ops.inductor.available():
        label = f"batched_gemm_a8w8 {quant_dtype} {dtype} {layout}".replace("torch.", "")
        candidates["inductor"] = ops.inductor.compiled(product_then_scaled, label)

    flops, nbytes = ref.gemm_a8w8_cost(m, n, k, dtype.itemsize, batch=b)

    ret = {"gfx": get_gfx()}
    for name, fn in candidates.items():
        y = empty_y()
        _, us = run_perftest(fn, x, packed.get(name, w), x_scale, w_scale, y)
        err = checkAllclose(
            want,
            y,
            rtol=RTOL[dtype],
            atol=0 if exact else 1e-5,  # sums of int8 are exact; near zero those of fp32 are not
            tol_err_ratio=1e-3 if exact else 0.01,
            msg=f"{name}: {layout}",
        )
        ret[f"{name} us"] = us
        ret[f"{name} TFLOPS"] = flops / us / 1e6
        ret[f"{name} TB/s"] = nbytes / us / 1e6
        ret[f"{name} err"] = err
    return ret


def main():
    if get_gfx() not in SUPPORTED_GFX or not ops.own_kernel():
        logger.warning("batched_gemm_a8w8 has no kernel for %s here; skipping", get_gfx())
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
        help="dtypes of the result, as -d bf16 fp16 fp32",
    )
    # DeepSeek-V3, absorbed projections of its attention (num_attention_heads 128, kv_lora_rank
    # 512, qk_nope_head_dim = v_head_dim = 128): b is the heads of one rank, 128 / tp, for tp 8;
    # m is tokens; n,k = 512,128 for the query (W_UK) and 128,512 for the output (W_UV).
    parser.add_argument(
        "-b",
        "--batch",
        type=dtypes.positive_int,
        nargs="+",
        default=[16],
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
    parser.add_argument(
        "--quant_dtype",
        type=dtypes.one_of("fp8", "i8"),
        nargs="+",
        default=[dtypes.fp8, dtypes.i8],
        help="dtypes of x and w, as --quant_dtype fp8 i8",
    )
    args = parser.parse_args()

    sweep = itertools.product(args.batch, args.mnk, args.quant_dtype, args.dtype, args.layout)
    rows = [test_batched_gemm_a8w8(b, *mnk, *rest) for b, mnk, *rest in sweep]
    summarize("batched_gemm_a8w8", rows)


if __name__ == "__main__":
    main()
