"""Symmetric quantisation of activations and weights: which kernels are right, how fast each is."""

import argparse
import itertools

import torch

from aiter_ref import quant as ref
from optest import dtypes, logger, ops
from optest.test_common import benchmark, checkAllclose, get_gfx, run_perftest, summarize

SUPPORTED_GFX = ["cpu", "gfx942", "gfx950", "gfx1250", "sm_89", "sm_90", "sm_100", "sm_120"]
SMOKE = ["-d", "bf16", "-s", "16,128,256"]

GROUP = 128
Q_TYPES = ["static_per_Tensor", "per_Tensor", "per_Token", "per_1x128"]


def run_torch(x, scale, q_type, quant_dtype):
    """Reference: values and scales by the convention of aiter_ref; ``scale`` only where static."""
    if q_type == "static_per_Tensor":
        return ref.static_per_tensor_quant(x, scale, quant_dtype), scale
    if q_type == "per_Tensor":
        return ref.dynamic_per_tensor_quant(x, quant_dtype)
    if q_type == "per_Token":
        return ref.dynamic_per_token_quant(x, quant_dtype)
    return ref.dynamic_per_group_quant(x, quant_dtype, GROUP)


# The wrappers that a model calls, with the buffers that it preallocated.
OWN = {
    "static_per_Tensor": lambda x, q, s: (ops.quant.static_per_tensor_quant(x, s, out=q), s),
    "per_Tensor": lambda x, q, s: ops.quant.dynamic_per_tensor_quant(x, out=q, scale=s),
    "per_Token": lambda x, q, s: ops.quant.dynamic_per_token_quant(x, out=q, scales=s),
    "per_1x128": lambda x, q, s: ops.quant.dynamic_per_group_quant(x, GROUP, out=q, scales=s),
}


def into_buffers(x, q, scale, q_type):
    """What inductor compiles: the same formula, written to the same buffers."""
    values, scales = run_torch(x, scale, q_type, q.dtype)
    q.copy_(values)
    if q_type != "static_per_Tensor":
        scale.copy_(scales)
    return q, scale


def scale_buffer(x, q_type, quant_dtype):
    if q_type == "static_per_Tensor":  # as calibrated: a few outliers beyond 3 saturate
        return torch.full((1,), 3.0 / ref.dtype_max(quant_dtype))
    rows, columns = x.shape
    shapes = {"per_Tensor": (1,), "per_Token": (rows, 1)}
    return torch.empty(shapes.get(q_type, (rows, -(-columns // GROUP))), dtype=dtypes.fp32)


def run_case(x, q_type, quant_dtype):
    want, want_scale = run_torch(x, scale_buffer(x, q_type, quant_dtype), q_type, quant_dtype)
    candidates = {}
    if ops.own_kernel():  # None on a CPU without a compiler, which is said in the log
        candidates[ops.own_kernel()] = OWN[q_type]
    if ops.inductor.available():
        label = f"{q_type} {x.dtype} -> {quant_dtype}".replace("torch.", "")
        compiled = ops.inductor.compiled(into_buffers, label)
        candidates["inductor"] = lambda x, q, s: compiled(x, q, s, q_type)

    dynamic = q_type != "static_per_Tensor"
    flops, nbytes = ref.quant_cost(x, quant_dtype, want_scale, dynamic=dynamic)

    # One code apart is a near miss; more is an error. Steps are widest at the largest value.
    step = 1 if quant_dtype is dtypes.i8 else ref.dtype_max(quant_dtype) / 14
    ret = {"gfx": get_gfx()}
    for name, fn in candidates.items():
        q = torch.empty(x.shape, dtype=quant_dtype)
        scale = scale_buffer(x, q_type, quant_dtype)
        _, us = run_perftest(fn, x, q, scale)  # the model reads its buffers
        err = checkAllclose(
            want,
            q,
            rtol=0,
            atol=0,
            tol_err_ratio=1e-3,
            max_abs_delta=step,
            msg=f"{name}: values",
        )
        checkAllclose(want_scale, scale, rtol=0, atol=0, tol_err_ratio=0, msg=f"{name}: scales")
        ret[f"{name} us"] = us
        ret[f"{name} TFLOPS"] = flops / us / 1e6
        ret[f"{name} TB/s"] = nbytes / us / 1e6
        ret[f"{name} err"] = err
    return ret


@benchmark(aliases=("scale",))
def test_quant(m, k, q_type, quant_dtype, dtype):
    return run_case(torch.randn(m, k, dtype=dtype), q_type, quant_dtype)


@benchmark(aliases=("scale",))
def test_weight_quant(n, k, q_type, quant_dtype, dtype):
    # Xavier's spread, so that weights are as small as real ones.
    return run_case(torch.randn(n, k, dtype=dtype) * max(k, 1) ** -0.5, q_type, quant_dtype)


def main():
    if get_gfx() not in SUPPORTED_GFX or not (ops.own_kernel() or ops.inductor.available()):
        logger.warning("quant has no kernel for %s here; skipping", get_gfx())
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
    # Llama-3-8B (hidden_size 4096, intermediate_size 14336): o_proj and down_proj; m is tokens.
    parser.add_argument(
        "-s",
        "--mnk",
        type=dtypes.tuple_of(3, "m,n,k"),
        nargs="+",
        default=[(16, 4096, 4096), (1024, 4096, 14336)],
        help="GEMM shapes: activations [m,k], weights [n,k]",
    )
    parser.add_argument("--q_type", choices=Q_TYPES, nargs="+", default=Q_TYPES)
    parser.add_argument(
        "--quant_dtype",
        type=dtypes.one_of("fp8", "i8"),
        nargs="+",
        default=[dtypes.fp8, dtypes.i8],
        help="as --quant_dtype fp8 i8",
    )
    args = parser.parse_args()

    # Two GEMMs may share an activation or a weight.
    activations = dict.fromkeys((m, k) for m, _, k in args.mnk)
    weights = dict.fromkeys((n, k) for _, n, k in args.mnk)
    for name, test, shapes in (
        ("quant of activations", test_quant, activations),
        ("quant of weights", test_weight_quant, weights),
    ):
        sweep = itertools.product(shapes, args.q_type, args.quant_dtype, args.dtype)
        summarize(name, [test(rows, k, *rest) for (rows, k), *rest in sweep])


if __name__ == "__main__":
    main()
