"""Quantisation to mxfp4, blocks of 32 with a power of two each: right, and how fast."""

import argparse
import itertools

import torch

from aiter_ref import mx as ref
from optest import dtypes, logger, ops
from optest.test_common import benchmark, checkAllclose, get_gfx, run_perftest, summarize

SUPPORTED_GFX = ["cpu", "gfx942", "gfx950", "gfx1250", "sm_89", "sm_90", "sm_100", "sm_120"]
SMOKE = ["-d", "bf16", "-s", "16,128,256", "1,7,33"]


def run_torch(x):
    codes, scales = ref.quant_mxfp4(x)
    return codes.view(dtypes.fp4x2), scales.view(dtypes.fp8_e8m0)


def into_buffers(x, q, scales):
    """What inductor compiles: the rules in fp32, in which they are exact; for finite x."""
    (m, k), across = x.shape, scales.shape[1]
    padded = torch.nn.functional.pad(x.float(), (0, across * ref.BLOCK - k))
    blocks = padded.view(m, across, ref.BLOCK)
    scale = ((blocks.abs().amax(-1).view(torch.int32) >> 23) - 2).clamp(min=0)
    scaled = blocks * ((254 - scale) << 23).view(torch.float32)[:, :, None]
    size = scaled.abs().clamp(max=6)
    rounded = torch.where(size < 4, size.round() + 2, (size / 2).round() + 4)
    code = torch.where(size < 2, (size * 2).round(), rounded).int() | (scaled < 0).int() << 3
    pairs = code.view(m, across * ref.BLOCK // 2, 2)
    scales.copy_(scale)
    return q.copy_((pairs[:, :, 0] | pairs[:, :, 1] << 4)[:, : q.shape[1]])


def run_case(x):
    want, want_scales = run_torch(x)
    candidates = {}
    if ops.own_kernel():  # None on a CPU without a compiler, which is said in the log
        candidates[ops.own_kernel()] = lambda x, q, s: ops.mx.quant_mxfp4(x, out=q, scales=s)
    if ops.inductor.available():
        compiled = ops.inductor.compiled(into_buffers, f"quant_mxfp4 {x.dtype}")
        candidates["inductor"] = lambda x, q, s: compiled(x, q.view(dtypes.u8), s.view(dtypes.u8))

    flops, nbytes = ref.quant_mxfp4_cost(*x.shape, x.element_size())

    ret = {"gfx": get_gfx()}
    exact = {"rtol": 0, "atol": 0, "tol_err_ratio": 0}  # a power of two scales without rounding
    for name, fn in candidates.items():
        q = torch.empty(want.shape, dtype=dtypes.fp4x2)
        scales = torch.empty(want_scales.shape, dtype=dtypes.fp8_e8m0)
        _, us = run_perftest(fn, x, q, scales)  # the model reads its buffers
        err = checkAllclose(want, q, msg=f"{name}: codes", **exact)
        checkAllclose(want_scales, scales, msg=f"{name}: scales", **exact)
        ret[f"{name} us"] = us
        ret[f"{name} TFLOPS"] = flops / us / 1e6
        ret[f"{name} TB/s"] = nbytes / us / 1e6
        ret[f"{name} err"] = err
    return ret


@benchmark()
def test_quant_mxfp4(m, k, dtype):
    return run_case(torch.randn(m, k, dtype=dtype))


@benchmark()
def test_weight_quant_mxfp4(n, k, dtype):
    # Xavier's spread, so that weights are as small as real ones.
    return run_case(torch.randn(n, k, dtype=dtype) * max(k, 1) ** -0.5)


def main():
    if get_gfx() not in SUPPORTED_GFX or not (ops.own_kernel() or ops.inductor.available()):
        logger.warning("quant_mxfp4 has no kernel for %s here; skipping", get_gfx())
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
        help="dtypes of the input, as -d bf16 fp16 fp32",
    )
    # Llama-3-8B (hidden_size 4096): o_proj; GPT-OSS-120B (hidden_size and intermediate_size 2880):
    # its experts' down_proj; m is tokens.
    parser.add_argument(
        "-s",
        "--mnk",
        type=dtypes.tuple_of(3, "m,n,k"),
        nargs="+",
        default=[(16, 4096, 4096), (1024, 2880, 2880)],
        help="GEMM shapes: activations [m,k], weights [n,k]",
    )
    args = parser.parse_args()

    # Two GEMMs may share an activation or a weight.
    activations = dict.fromkeys((m, k) for m, _, k in args.mnk)
    weights = dict.fromkeys((n, k) for _, n, k in args.mnk)
    for name, test, shapes in (
        ("quant_mxfp4 of activations", test_quant_mxfp4, activations),
        ("quant_mxfp4 of weights", test_weight_quant_mxfp4, weights),
    ):
        sweep = itertools.product(shapes, args.dtype)
        summarize(name, [test(rows, k, dtype) for (rows, k), dtype in sweep])


if __name__ == "__main__":
    main()
