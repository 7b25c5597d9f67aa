"""GEMM of mxfp4 operands, blocks of 32 with a power of two each: right, and how fast."""

import argparse
import itertools

import torch

from aiter_ref import mx as ref
from optest import dtypes, logger, ops
from optest.test_common import benchmark, checkAllclose, get_gfx, run_perftest, summarize

SUPPORTED_GFX = ["cpu", "gfx942", "gfx950", "gfx1250", "sm_89", "sm_90", "sm_100", "sm_120"]
SMOKE = ["-d", "bf16", "-s", "1,64,96", "16,128,256", "7,129,300"]

# Half a step of the output, which sums in fp32 rarely miss. Near zero: the rounding of the sum.
RTOL = {dtypes.bf16: 2**-8, dtypes.fp16: 2**-11, dtypes.fp32: 1e-5}
ATOL = 1e-5


def run_torch(x, w, x_scale, w_scale, dtype):
    return ref.gemm_a4w4(x, w, x_scale, w_scale, dtype)


def decoded(codes, scales):
    """What torch has for it: by tables, in fp32, in which the scales are the exponents."""
    numbers = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
    table = torch.tensor([*numbers, *(-number for number in numbers)])
    pairs = torch.stack((table[(codes & 15).long()], table[(codes >> 4).long()]), dim=-1)
    power = (scales.int() << 23).view(torch.float32)  # of 1 to 254: those of ordinary numbers
    return pairs.flatten(-2) * power.repeat_interleave(ref.BLOCK, -1)[:, : 2 * codes.shape[1]]


def decoded_then_product(x, w, x_scale, w_scale, y):
    return y.copy_(decoded(x, x_scale) @ decoded(w, w_scale).t())


@benchmark()
def test_gemm_a4w4(m, n, k, dtype):
    x, x_scale = ref.quant_mxfp4(torch.randn(m, k))
    weight = torch.randn(n, k) * max(k, 1) ** -0.5  # as linear layers are initialised
    w, w_scale = ref.quant_mxfp4(weight)
    want = run_torch(x, w, x_scale, w_scale, dtype)
    candidates = {ops.own_kernel(): ops.mx.gemm_a4w4}
    packed = {ops.own_kernel(): ops.mx.pack_mxfp4_weight(w, w_scale)}  # once, as a model does
    if get_gfx() == "cpu" and ops.inductor.available():
        compiled = ops.inductor.compiled(decoded_then_product, f"gemm_a4w4 {dtype}")
        candidates["inductor"] = compiled

    flops, nbytes = ref.gemm_a4w4_cost(m, n, k, dtype.itemsize)

    ret = {"gfx": get_gfx()}
    for name, fn in candidates.items():
        y = torch.empty(m, n, dtype=dtype)
        weights, weights_scale = packed.get(name, (w, w_scale))
        _, us = run_perftest(fn, x, weights, x_scale, weights_scale, y)
        err = checkAllclose(want, y, rtol=RTOL[dtype], atol=ATOL, tol_err_ratio=0.01, msg=name)
        ret[f"{name} us"] = us
        ret[f"{name} TFLOPS"] = flops / us / 1e6
        ret[f"{name} TB/s"] = nbytes / us / 1e6
        ret[f"{name} err"] = err
    return ret


def main():
    if get_gfx() not in SUPPORTED_GFX or not ops.own_kernel():
        logger.warning("gemm_a4w4 has no kernel for %s here; skipping", get_gfx())
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
    # Llama-3-8B (hidden_size 4096, intermediate_size 14336): n,k of qkv_proj and down_proj; GPT-OSS
    # (hidden_size and intermediate_size 2880): of an expert's down_proj; m is tokens.
    parser.add_argument(
        "-s",
        "--mnk",
        type=dtypes.tuple_of(3, "m,n,k"),
        nargs="+",
        default=[
            (1, 6144, 4096),
            (16, 6144, 4096),
            (16, 4096, 14336),
            (16, 2880, 2880),
            (512, 2880, 2880),
        ],
        help="shapes m,n,k",
    )
    args = parser.parse_args()

    sweep = itertools.product(args.mnk, args.dtype)
    summarize("gemm_a4w4", [test_gemm_a4w4(*mnk, dtype) for mnk, dtype in sweep])


if __name__ == "__main__":
    main()
