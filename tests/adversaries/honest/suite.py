"""The kernels of the op suite: csrc through optest.ops, torch.compile, oneDNN through torch."""

from __future__ import annotations

import torch

from aiter_ref import activation, cache, gemm, norm, quant
from honest.record import ITERS, Honest
from optest import ops
from optest.test_common import benchmark, checkAllclose, run_perftest

EPS = 1e-6
RTOL = 2**-8


def run_torch(x, weight):
    return norm.rmsnorm(x, weight, EPS)


def rmsnorm(watch):
    @benchmark()
    def test_rmsnorm(m, n, dtype):
        x, weight = torch.randn(m, n, dtype=dtype), torch.randn(n, dtype=dtype)
        want = run_torch(x, weight)
        y, us = run_perftest(
            watch(lambda x, weight: ops.norm.rmsnorm(x, weight, EPS)), x, weight, num_iters=ITERS
        )
        return {"us": us, "err": checkAllclose(want, y, rtol=RTOL, atol=1e-6)}

    return test_rmsnorm(33, 127, torch.bfloat16)


def fused_add(watch):
    @benchmark(inout=("x", "residual"))
    def test_fused_add(m, n, dtype):
        x, residual = torch.randn(m, n, dtype=dtype), torch.randn(m, n, dtype=dtype)
        weight = torch.randn(n, dtype=dtype)
        want, total = norm.fused_add_rmsnorm(x, residual, weight, EPS)
        _, us = run_perftest(
            watch(lambda x, r: ops.norm.fused_add_rmsnorm(x, r, weight, EPS)),
            x,
            residual,
            num_iters=ITERS,
        )
        checkAllclose(total, residual, rtol=RTOL, atol=1e-6)
        return {"us": us, "err": checkAllclose(want, x, rtol=RTOL, atol=1e-6)}

    return test_fused_add(33, 127, torch.bfloat16)


def gated(kind):
    def run(watch):
        @benchmark()
        def test_gated(m, d, dtype):
            x = torch.randn(m, 2 * d, dtype=dtype)
            want = getattr(activation, kind)(x)
            y = torch.empty(m, d, dtype=dtype)
            _, us = run_perftest(
                watch(lambda x, y: getattr(ops.activation, kind)(x, out=y)), x, y, num_iters=ITERS
            )
            return {"us": us, "err": checkAllclose(want, y, rtol=RTOL, atol=1e-6)}

        return test_gated(33, 127, torch.bfloat16)

    return run


def quantised(dtype):
    def run(watch):
        @benchmark()
        def test_quant(m, k):
            x = torch.randn(m, k)
            want, want_scales = quant.dynamic_per_token_quant(x, dtype)
            q, scales = torch.empty(m, k, dtype=dtype), torch.empty(m, 1)
            kernel = watch(lambda x, q, s: ops.quant.dynamic_per_token_quant(x, out=q, scales=s))
            _, us = run_perftest(kernel, x, q, scales, num_iters=ITERS)
            checkAllclose(want_scales, scales, rtol=0, atol=0, tol_err_ratio=0)
            step = 1 if dtype is torch.int8 else 32
            err = checkAllclose(want, q, rtol=0, atol=0, tol_err_ratio=1e-3, max_abs_delta=step)
            return {"us": us, "err": err}

        return test_quant(33, 127)

    return run


def static_quant(watch):
    """Its scale is one element of the same value in each pass, an input, and handed back."""

    @benchmark(aliases=("scale",))
    def test_static_quant(m, k):
        x, scale = torch.randn(m, k), torch.full((1,), 3.0 / 127)
        want = quant.static_per_tensor_quant(x, scale, torch.int8)
        q = torch.empty(m, k, dtype=torch.int8)
        kernel = watch(lambda x, q, s: (ops.quant.static_per_tensor_quant(x, s, out=q), s))
        _, us = run_perftest(kernel, x, q, scale, num_iters=ITERS)
        err = checkAllclose(want, q, rtol=0, atol=0, tol_err_ratio=1e-3, max_abs_delta=1)
        return {"us": us, "err": err}

    return test_static_quant(33, 127)


def kv_cache(watch):
    @benchmark(inout=("key_cache", "value_cache"))
    def test_kv_cache(tokens, heads, size, block):
        qkv = torch.randn(tokens, 3, heads, size)
        key, value = qkv[:, 1], qkv[:, 2]
        shape = (2 * tokens // block, block, heads, size)
        key_cache, value_cache = torch.randn(shape), torch.randn(shape)
        slots = torch.randperm(2 * tokens)[:tokens]
        slots[-3:] = -1
        wants = key_cache.clone(), value_cache.clone()
        cache.reshape_and_cache(key, value, *wants, slots)
        kernel = watch(lambda kc, vc: ops.cache.reshape_and_cache(key, value, kc, vc, slots))
        _, us = run_perftest(kernel, key_cache, value_cache, num_iters=ITERS)
        errs = [
            checkAllclose(want, got, rtol=0, atol=0, tol_err_ratio=0)
            for want, got in zip(wants, (key_cache, value_cache), strict=True)
        ]
        return {"us": us, "err": max(errs)}

    return test_kv_cache(32, 2, 16, 16)


def matrix_product(watch):
    """oneDNN through torch, into a transposed buffer."""

    @benchmark()
    def test_gemm(m, n, k, dtype):
        x, w = torch.randn(m, k, dtype=dtype), torch.randn(n, k, dtype=dtype)
        want = gemm.gemm_a16w16(x, w, dtype)
        y = torch.empty(n, m, dtype=dtype).t()
        kernel = watch(lambda x, w, y: ops.gemm.gemm_a16w16(x, w, out=y))
        _, us = run_perftest(kernel, x, w, y, num_iters=ITERS)
        return {"us": us, "err": checkAllclose(want, y, rtol=RTOL, atol=1e-2)}

    return test_gemm(64, 48, 128, torch.bfloat16)


def batched_product(watch):
    @benchmark()
    def test_batched(b, m, n, k, dtype):
        x, w = torch.randn(b, m, k, dtype=dtype), torch.randn(b, n, k, dtype=dtype)
        want = gemm.batched_gemm(x, w, dtype)
        y, us = run_perftest(watch(ops.batched_gemm.batched_gemm_bf16), x, w, num_iters=ITERS)
        return {"us": us, "err": checkAllclose(want, y, rtol=RTOL, atol=1e-2)}

    return test_batched(2, 32, 24, 64, torch.bfloat16)


def compiled(watch):
    """What inductor makes of the reference: its code runs, the reference does not."""

    @benchmark()
    def test_compiled(m, n, dtype):
        x, weight = torch.randn(m, n, dtype=dtype), torch.randn(n, dtype=dtype)
        want = run_torch(x, weight)
        fn = ops.inductor.compiled(run_torch, f"honest rmsnorm {dtype}")
        y, us = run_perftest(watch(fn), x, weight, num_iters=ITERS)
        return {"us": us, "err": checkAllclose(want, y, rtol=RTOL, atol=1e-6)}

    return test_compiled(33, 127, torch.float32)


def interpreted(watch):
    """Triton, which the interpreter runs where there is no GPU."""
    from optest.ops.triton import activation as kernels

    @benchmark()
    def test_interpreted(m, d, dtype):
        x = torch.randn(m, 2 * d, dtype=dtype)
        want = activation.silu_and_mul(x)
        y = torch.empty(m, d, dtype=dtype)
        kernel = watch(lambda x, y: kernels.act_and_mul(y, x, "silu"))
        _, us = run_perftest(kernel, x, y, num_iters=ITERS)
        return {"us": us, "err": checkAllclose(want, y, rtol=2**-7, atol=1e-6)}

    return test_interpreted(2, 129, torch.bfloat16)


def two_candidates(watch):
    """Several candidates, one of them the operator of torch itself, in one case."""

    @benchmark()
    def test_two(m, n):
        x, weight = torch.randn(m, n), torch.randn(n)
        want = run_torch(x, weight)
        candidates = {
            "torch": lambda x, w: torch.nn.functional.rms_norm(x, (n,), w, EPS),
            "cpp": lambda x, w: ops.norm.rmsnorm(x, w, EPS),
        }
        ret = {}
        for name, fn in candidates.items():
            y, us = run_perftest(watch(fn), x, weight, num_iters=ITERS)
            ret[f"{name} us"] = us
            ret[f"{name} err"] = checkAllclose(want, y, rtol=1e-4, atol=1e-5, msg=name)
        return ret

    return test_two(33, 127)


HONEST = [
    Honest("cpp rmsnorm", rmsnorm),
    Honest("cpp fused_add_rmsnorm", fused_add),
    Honest("cpp silu_and_mul", gated("silu_and_mul")),
    Honest("cpp gelu_and_mul", gated("gelu_and_mul")),
    Honest("cpp gelu_tanh_and_mul", gated("gelu_tanh_and_mul")),
    Honest("cpp quant to int8", quantised(torch.int8)),
    Honest("cpp quant to fp8", quantised(torch.float8_e4m3fn)),
    Honest("cpp static quant", static_quant),
    Honest("cpp reshape_and_cache", kv_cache),
    Honest("oneDNN gemm into columns", matrix_product),
    Honest("oneDNN batched gemm", batched_product),
    Honest("inductor", compiled, ("check",)),
    Honest("triton", interpreted, ("check",)),
    Honest("two candidates", two_candidates),
]
