"""RMSNorm as a golden test: one Triton kernel and the csrc operator against one torch reference.

python op_tests/golden/rmsnorm.py
python op_tests/golden/rmsnorm.py --kernel csrc -s 4096,7168
python op_tests/golden/rmsnorm.py --compile-only --targets gfx942 sm_90
"""

import argparse

if __name__ == "__main__":
    from optest.golden.interpreter import interpret_without_gpu

    interpret_without_gpu()

import triton
import triton.language as tl

EPS = 1e-5  # rms_norm_eps of Llama-3


@triton.jit
def rmsnorm_kernel(out, x, weight, n, eps, BLOCK: tl.constexpr):
    """Program i normalises row i of x [m, n]."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < n
    value = tl.load(x + row * n + columns, mask=inside, other=0.0).to(tl.float32)
    scale = tl.load(weight + columns, mask=inside, other=0.0).to(tl.float32)
    inverse = 1.0 / tl.sqrt(tl.sum(value * value, 0) / n + eps)
    result = (value * inverse * scale).to(out.dtype.element_ty)
    tl.store(out + row * n + columns, result, mask=inside)


def golden_rms_norm(x, weight, eps):
    import torch

    x, weight = x.float(), weight.float()
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


def golden_rmsnorm(values):
    values["out"][:] = golden_rms_norm(values["x"], values["weight"], values["eps"])


def build_tensor_specs(m, n, kernel):
    import torch

    from optest.golden import ScalarSpec, TensorSpec

    def init_x():
        return torch.randn(m, n) * 2 - 0.5

    def init_weight():
        return torch.randn(n) * 0.1 + 1.0

    sizes = [ScalarSpec("n", torch.int32, n)] if kernel == "triton" else []
    return [
        TensorSpec("out", [m, n], torch.bfloat16),
        TensorSpec("x", [m, n], torch.bfloat16, init_value=init_x),
        TensorSpec("weight", [n], torch.bfloat16, init_value=init_weight),
        *sizes,
        ScalarSpec("eps", torch.float32, EPS),
    ]


def build_kernel(m, n, kernel):
    if kernel == "csrc":
        from optest import native

        return native.csrc("norm").rmsnorm
    from optest.golden import TritonKernel

    return TritonKernel(rmsnorm_kernel, (m,), constexprs={"BLOCK": triton.next_power_of_2(n)})


def main():
    from optest import dtypes
    from optest.golden import ratio_allclose, run
    from optest.golden.flags import add_flags, run_options

    parser = argparse.ArgumentParser(formatter_class=argparse.RawTextHelpFormatter)
    add_flags(parser)
    parser.add_argument("--kernel", choices=["triton", "csrc"], default="triton")
    parser.add_argument(
        "-s", "--mn", type=dtypes.tuple_of(2, "m,n"), nargs="+", default=[(16, 512)]
    )
    args = parser.parse_args()

    for m, n in args.mn:
        result = run(
            fn=build_kernel(m, n, args.kernel),
            specs=build_tensor_specs(m, n, args.kernel),
            golden_fn=golden_rmsnorm,
            # One step of bf16: a sum in another order may round the other way.
            compare_fn={"out": ratio_allclose(atol=1e-4, rtol=1.0 / 128)},
            **run_options(args),
        )
        if not result.passed:
            raise SystemExit(result.error)


if __name__ == "__main__":
    main()
