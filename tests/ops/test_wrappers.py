"""The wrappers on the CPU: right kernel, right buffer, and nothing loaded before it is needed."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from aiter_ref import activation as ref_activation
from aiter_ref import cache as ref_cache
from aiter_ref import gemm as ref_gemm
from aiter_ref import norm as ref_norm
from aiter_ref import quant as ref_quant
from optest import native, ops
from optest.errors import UsageError

RTOL = {torch.bfloat16: 2**-7, torch.float16: 2**-10, torch.float32: 1e-5}
needs_csrc = pytest.mark.skipif(not native.available(), reason=str(native.why_not()))


def close(got, want):
    torch.testing.assert_close(got, want, rtol=RTOL[want.dtype], atol=1e-5)


def test_importing_ops_loads_no_triton_and_builds_nothing(tmp_path):
    code = "import sys; from optest import ops; assert 'triton' not in sys.modules, 'triton loaded'"
    environment = {"OPTEST_BUILD_DIR": str(tmp_path), "PATH": "", "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir()) == []


def test_own_kernel(monkeypatch):
    assert ops.own_kernel() == ("cpp" if native.available() else None)
    monkeypatch.setenv("OPTEST_NATIVE", "off")
    assert ops.own_kernel() is None
    monkeypatch.setattr("optest.arch.get_gfx_runtime", lambda: "gfx942")
    assert ops.own_kernel() == "triton"


def test_a_device_without_kernels_is_named():
    x = torch.empty(2, 4, device="meta")
    with pytest.raises(UsageError, match="tensor on meta: expected cpu, or cuda"):
        ops.norm.rmsnorm(x, torch.empty(4, device="meta"), 1e-5)


@needs_csrc
@pytest.mark.parametrize("quant_dtype", [torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.int8])
def test_quant(quant_dtype):
    x = torch.randn(3, 2 * 130, dtype=torch.bfloat16)[:, :130]
    schemes = {
        "dynamic_per_tensor_quant": ("scale", (1,)),
        "dynamic_per_token_quant": ("scales", (3, 1)),
        "dynamic_per_group_quant": ("scales", (3, 2)),
    }
    for name, (keyword, shape) in schemes.items():
        wrapper = getattr(ops.quant, name)
        want, want_scales = getattr(ref_quant, name)(x, quant_dtype)
        out, scales = torch.empty(3, 130, dtype=quant_dtype), torch.empty(shape)
        given = wrapper(x, out=out, **{keyword: scales})
        assert given[0] is out
        assert given[1] is scales
        for q, s in (given, wrapper(x, quant_dtype=quant_dtype)):
            assert torch.equal(q.view(torch.uint8), want.view(torch.uint8)), name
            assert torch.equal(s, want_scales), name


@needs_csrc
def test_static_quant():
    x, scale = torch.randn(3, 5), torch.tensor([0.01])
    out = torch.empty(3, 5, dtype=torch.int8)
    assert ops.quant.static_per_tensor_quant(x, scale, out=out) is out
    assert torch.equal(out, ref_quant.static_per_tensor_quant(x, scale, torch.int8))


def test_quant_needs_a_dtype_or_a_buffer():
    with pytest.raises(UsageError, match=r"expected out= .* or quant_dtype="):
        ops.quant.dynamic_per_token_quant(torch.zeros(1, 1))
    with pytest.raises(UsageError, match="group=0"):
        ops.quant.dynamic_per_group_quant(torch.zeros(1, 1), 0, quant_dtype=torch.int8)


@pytest.mark.parametrize("dtype", RTOL)
def test_gemm(dtype):
    x, w = torch.randn(5, 7).to(dtype), torch.randn(3, 7).to(dtype)
    out = torch.empty(3, 5, dtype=dtype).t()
    assert ops.gemm.gemm_a16w16(x, w, out=out) is out
    close(out, ref_gemm.gemm_a16w16(x, w, dtype))
    close(ops.gemm.gemm_a16w16(x, w), ref_gemm.gemm_a16w16(x, w, dtype))


@pytest.mark.parametrize("dtype", RTOL)
def test_batched_gemm_of_transposed_views(dtype):
    x = torch.randn(5, 2, 7).to(dtype).transpose(0, 1)
    w = torch.randn(2, 3, 7).to(dtype)
    memory = torch.empty(5, 2, 3, dtype=dtype)
    out = memory.transpose(0, 1)
    assert ops.batched_gemm.batched_gemm_bf16(x, w, out=out) is out
    close(memory.transpose(0, 1), ref_gemm.batched_gemm(x, w, dtype))
    close(ops.batched_gemm.batched_gemm_bf16(x, w), ref_gemm.batched_gemm(x, w, dtype))


@needs_csrc
@pytest.mark.parametrize("dtype", RTOL)
def test_norm(dtype):
    x, residual = torch.randn(3, 70).to(dtype), torch.randn(3, 70).to(dtype)
    weight = torch.randn(70).to(dtype)
    out = torch.empty_like(x)
    assert ops.norm.rmsnorm(x, weight, 1e-5, out=out) is out
    close(out, ref_norm.rmsnorm(x, weight, 1e-5))
    close(ops.norm.rmsnorm(x, weight, 1e-5), out)
    want, total = ref_norm.fused_add_rmsnorm(x, residual, weight, 1e-5)
    y, kept = ops.norm.fused_add_rmsnorm(x, residual, weight, 1e-5)
    assert y is x
    assert kept is residual
    assert torch.equal(kept, total)
    close(y, want)


@needs_csrc
@pytest.mark.parametrize("name", ["silu_and_mul", "gelu_and_mul", "gelu_tanh_and_mul"])
def test_activation(name):
    x = torch.randn(3, 2 * 70)
    out = torch.empty(3, 70)
    assert getattr(ops.activation, name)(x, out=out) is out
    close(out, getattr(ref_activation, name)(x))
    close(getattr(ops.activation, name)(x), out)


@needs_csrc
def test_cache():
    qkv = torch.randn(5, 3, 2, 24)
    slots = torch.tensor([3, -1, 63, 17, 0])
    caches = torch.randn(2, 4, 16, 2, 24)
    want = caches.clone()
    ref_cache.reshape_and_cache(qkv[:, 1], qkv[:, 2], *want, slots)
    key_cache, value_cache = caches
    given = ops.cache.reshape_and_cache(qkv[:, 1], qkv[:, 2], key_cache, value_cache, slots)
    assert given[0] is key_cache
    assert given[1] is value_cache
    assert torch.equal(caches, want)


def test_compiled_once_per_label():
    function = lambda x: x + 1
    assert ops.inductor.compiled(function, "a") is ops.inductor.compiled(function, "a")
    assert ops.inductor.compiled(function, "a") is not ops.inductor.compiled(function, "b")


def test_a_graph_break_is_an_error_not_eager():
    def breaks(x):
        return x + 1 if x.sum().item() > 0 else x - 1

    with pytest.raises(Exception, match="data-dependent"):
        ops.inductor.compiled(breaks, "graph break")(torch.ones(3))


@pytest.mark.parametrize("missing", ["header", "compiler"])
def test_inductor_says_what_is_missing(missing, monkeypatch, tmp_path, caplog):
    if missing == "header":
        monkeypatch.setattr("sysconfig.get_path", lambda _: str(tmp_path))
    else:
        monkeypatch.setattr("optest.native.compiler.find", lambda _: None)
    said = []
    monkeypatch.setattr("optest.ops.inductor.once", said.append)
    assert not ops.inductor.available()
    assert "Python.h" in said[0] if missing == "header" else "C++ compiler" in said[0]
