"""GEMM of int8 or fp8, x scaled by 1 x 128 and w by 128 x 128: right, and how fast."""

import argparse
import itertools

import torch

from aiter_ref import gemm_quant as ref
from aiter_ref import quant as ref_quant
from optest import dtypes, logger, ops
from optest.test_common import benchmark, checkAllclose, get_gfx, run_perftest, summarize

SUPPORTED_GFX = ["cpu", "gfx942", "gfx950", "gfx1250", "sm_89", "sm_90", "sm_100", "sm_120"]
SMOKE = ["-d", "bf16", "-s", "1,64,96", "16,128,256", "7,129,300"]

# Half a step of the output, which sums in fp32 rarely miss. Near zero: the rounding of the sum.
RTOL = {dtypes.bf16: 2**-8, dtypes.fp16: 2**-11, dtypes.fp32: 1e-5}
ATOL = 1e-5


def run_torch(x, w, x_scale, w_scale, dtype):
    return ref.gemm_a8w8_blockscale(x, w, x_scale, w_scale, dtype)


def scaled_then_product(x, w, x_scale, w_scale, y):
    """What torch has for it: both operands in fp32, scaled before they are multiplied."""
    (n, k), block = w.shape, ref.SCALE_BLOCK
    x_each = x_scale.repeat_interleave(block, 1)[:, :k]
    w_each = w_scale.repeat_interleave(block, 0)[:n].repeat_interleave(block, 1)[:, :k]
    return y.copy_((x.float() * x_each) @ (w.float() * w_each).t())


@benchmark()
def test_gemm_a8w8_blockscale(m, n, k, quant_dtype, dtype):
    x, x_scale = ref_quant.dynamic_per_group_quant(torch.randn(m, k), quant_dtype, ref.SCALE_BLOCK)
    weight = torch.randn(n, k) * max(k, 1) ** -0.5  # as linear layers are initialised
    w, w_scale = ref.block_quant(weight, quant_dtype)
    want = run_torch(x, w, x_scale, w_scale, dtype)
    candidates = {ops.own_kernel(): ops.gemm_quant.gemm_a8w8_blockscale}
    packed = {ops.own_kernel(): ops.gemm_quant.pack_weight(w)}  # once, as a model does
    if get_gfx() == "cpu" and ops.inductor.available():
        label = f"gemm_a8w8_blockscale {quant_dtype} {dtype}".replace("torch.", "")
        candidates["inductor"] = ops.inductor.compiled(scaled_then_product, label)

    flops, nbytes = ref.gemm_a8w8_blockscale_cost(m, n, k, dtype.itemsize)

    ret = {"gfx": get_gfx()}
    for name, fn in candidates.items():
        y = torch.empty(m, n, dtype=dtype)
        _, us = run_perftest(fn, x, packed.get(name, w), x_scale, w_scale, y)
        err = checkAllclose(want, y, rtol=RTOL[dtype], atol=ATOL, tol_err_ratio=0.01, msg=name)
        ret[f"{name} us"] = us
        ret[f"{name} TFLOPS"] = flops / us / 1e6
        ret[f"{name} TB/s"] = nbytes / us / 1e6
        ret[f"{name} err"] = err
    return ret


def main():
    if get_gfx() not in SUPPORTED_GFX or not ops.own_kernel():
        logger.warning("gemm_a8w8_blockscale has no kernel for %s here; skipping", get_gfx())
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
    # DeepSeek-V3 (hidden_size 7168, q_lora_rank 1536, kv_lora_rank 512 + 64, moe_intermediate_size
    # 2048, 128 heads of 128 + 64): n,k of q_a_proj and kv_a_proj together, of q_b_proj on one of 8
    # ranks, of a shared expert's gate_up_proj and down_proj; m is tokens: decode, then prefill.
    parser.add_argument(
        "-s",
        "--mnk",
        type=dtypes.tuple_of(3, "m,n,k"),
        nargs="+",
        default=[
            (1, 2112, 7168),
            (16, 2112, 7168),
            (16, 3072, 1536),
            (16, 4096, 7168),
            (16, 7168, 2048),
            (512, 4096, 7168),
        ],
        help="shapes m,n,k",
    )
    parser.add_argument(
        "--quant_dtype",
        type=dtypes.one_of("fp8", "i8"),
        nargs="+",
        default=[dtypes.fp8, dtypes.i8],
        help="dtypes of x and w, as --quant_dtype fp8 i8",
    )
    args = parser.parse_args()

    sweep = itertools.product(args.mnk, args.quant_dtype, args.dtype)
    summarize(
        "gemm_a8w8_blockscale", [test_gemm_a8w8_blockscale(*mnk, *dtype) for mnk, *dtype in sweep]
    )


if __name__ == "__main__":
    main()
