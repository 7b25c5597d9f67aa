"""GEMM of int8 or fp8, one scale a token and one an output channel: right, and how fast."""

import argparse
import itertools

import torch

from aiter_ref import gemm_quant as ref
from aiter_ref import quant as ref_quant
from optest import dtypes, logger, ops
from optest.test_common import benchmark, checkAllclose, get_gfx, run_perftest, summarize

SUPPORTED_GFX = ["cpu", "gfx942", "gfx950", "gfx1250", "sm_89", "sm_90", "sm_100", "sm_120"]
SMOKE = ["-d", "bf16", "-s", "1,64,96", "16,128,256", "7,129,127"]

# Half a step of the output; fp32: the three roundings of the sum and its two scales.
RTOL = {dtypes.bf16: 2**-8, dtypes.fp16: 2**-11, dtypes.fp32: 2**-22}


def run_torch(x, w, x_scale, w_scale, dtype):
    return ref.gemm_a8w8(x, w, x_scale, w_scale, dtype)


def product_then_scaled(x, w, x_scale, w_scale, y):
    """As torch has it: exact sums of int8; fp8 as fp32, being too coarse to be scaled in bf16."""
    exact = x.dtype is dtypes.i8
    product = torch._int_mm(x, w.t()) if exact else x.float() @ w.float().t()  # noqa: SLF001
    return y.copy_(product * x_scale * w_scale.t())


@benchmark()
def test_gemm_a8w8(m, n, k, quant_dtype, dtype):
    x, x_scale = ref_quant.dynamic_per_token_quant(torch.randn(m, k), quant_dtype)
    weight = torch.randn(n, k) * max(k, 1) ** -0.5  # as linear layers are initialised
    w, w_scale = ref_quant.dynamic_per_token_quant(weight, quant_dtype)
    want = run_torch(x, w, x_scale, w_scale, dtype)
    exact = quant_dtype is dtypes.i8
    candidates = {ops.own_kernel(): ops.gemm_quant.gemm_a8w8}
    packed = {ops.own_kernel(): ops.gemm_quant.pack_weight(w)}  # once, as a model does
    if exact and get_gfx() == "cpu":  # on a GPU torch takes multiples of 8 alone
        candidates["torch_int_mm"] = product_then_scaled
    if get_gfx() == "cpu" and ops.inductor.available():  # the same, its scaling fused
        label = f"gemm_a8w8 {quant_dtype} {dtype}".replace("torch.", "")
        candidates["inductor"] = ops.inductor.compiled(product_then_scaled, label)

    flops, nbytes = ref.gemm_a8w8_cost(m, n, k, dtype.itemsize)

    ret = {"gfx": get_gfx()}
    for name, fn in candidates.items():
        y = torch.empty(m, n, dtype=dtype)
        _, us = run_perftest(fn, x, packed.get(name, w), x_scale, w_scale, y)
        err = checkAllclose(
            want,
            y,
            rtol=RTOL[dtype],
            atol=0 if exact else 1e-5,  # sums of int8 are exact; near zero those of fp32 are not
            tol_err_ratio=1e-3 if exact else 0.01,
            msg=name,
        )
        ret[f"{name} us"] = us
        ret[f"{name} TFLOPS"] = flops / us / 1e6
        ret[f"{name} TB/s"] = nbytes / us / 1e6
        ret[f"{name} err"] = err
    return ret


def main():
    if get_gfx() not in SUPPORTED_GFX or not ops.own_kernel():
        logger.warning("gemm_a8w8 has no kernel for %s here; skipping", get_gfx())
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
    # Llama-3-8B (hidden_size 4096, intermediate_size 14336, 32 query and 8 key heads of 128):
    # n,k of qkv_proj, o_proj, gate_up_proj, down_proj; m is tokens: decode, then prefill.
    parser.add_argument(
        "-s",
        "--mnk",
        type=dtypes.tuple_of(3, "m,n,k"),
        nargs="+",
        default=[
            (1, 6144, 4096),
            (16, 6144, 4096),
            (16, 28672, 4096),
            (16, 4096, 14336),
            (512, 4096, 4096),
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
    summarize("gemm_a8w8", [test_gemm_a8w8(*mnk, *dtype) for mnk, *dtype in sweep])


if __name__ == "__main__":
    main()
