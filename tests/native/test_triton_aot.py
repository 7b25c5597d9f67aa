"""Ahead-of-time compiles for cards that are not here."""

from __future__ import annotations

import pytest

from optest.errors import BuildError, UsageError
from optest.native.triton_aot import TARGETS, Compiled, Request, compile_kernel, compile_kernels

pytest.importorskip("triton")

KERNEL = """
import triton
import triton.language as tl


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr, TO: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.load(x + i, mask=i < n).to(tl.float32) + tl.load(y + i, mask=i < n)
    tl.store(out + i, total.to(TO), mask=i < n)
"""
SIGNATURE = {"x": "*bf16:16", "y": "*fp32:16", "out": "*fp8e4nv", "n": "i32"}
NV, NUZ = "tl.float8e4nv", "tl.float8e4b8"


@pytest.fixture(scope="module")
def kernel(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("aot") / "adding.py"
    path.write_text(KERNEL)
    return f"{path}:add"


def test_every_target_with_its_own_fp8_in_one_child(kernel, monkeypatch):
    """TRITON_INTERPRET, which breaks compiling, is set here and must not reach the child."""
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    requests = [
        Request(
            kernel,
            {**SIGNATURE, "out": "*fp8e4b8" if to == NUZ else "*fp8e4nv"},
            {"BLOCK": 256, "TO": to},
            target,
        )
        for target in TARGETS
        for to in (NV, NUZ)
    ]
    results = compile_kernels(requests)
    assert len(results) == len(requests)
    for request, result in zip(requests, results, strict=True):
        if request.target.startswith("sm_") and request.constexprs["TO"] == NUZ:
            assert isinstance(result, BuildError)
            assert "fp8e4b8" in str(result)
            continue
        assert isinstance(result, Compiled), result
        assert (result.kernel, result.target) == (kernel, request.target)
        assert result.code_bytes > 500
        assert 0 < result.registers < 256
        assert result.spills == 0


def test_a_wrong_argument_is_named_and_the_rest_of_the_batch_lives(kernel):
    good = Request(kernel, SIGNATURE, {"BLOCK": 64, "TO": NV})
    misspelt = Request(kernel, SIGNATURE, {"BLOK": 64, "TO": NV})
    missing = Request(kernel, {"x": "*bf16"}, {"BLOCK": 64, "TO": NV})
    absent = Request(kernel + "s", SIGNATURE, {})
    first, second, third, fourth = compile_kernels([misspelt, missing, absent, good])
    assert "BLOK" in str(first)
    assert "argument y" in str(second)
    assert "adds" in str(third)
    assert isinstance(fourth, Compiled)


def test_one_kernel_raises(kernel):
    with pytest.raises(BuildError, match="sm_90"):
        compile_kernel(kernel, {**SIGNATURE, "n": "banana"}, {"BLOCK": 64, "TO": NV}, "sm_90")


@pytest.mark.parametrize("target", ["cpu", "gfx", "sm90", "h100", "gfx942;rm -rf"])
def test_targets_that_are_no_gpus(target):
    with pytest.raises(UsageError, match="expected a GPU arch"):
        compile_kernel("m:k", {}, {}, target)


@pytest.mark.parametrize("reference", ["kernel", "module:", ":kernel", "module:a b"])
def test_references_that_name_no_kernel(reference):
    with pytest.raises(UsageError, match="module:kernel"):
        compile_kernel(reference, {})


def test_nothing_to_compile_starts_no_child(monkeypatch):
    monkeypatch.setattr("subprocess.run", None)
    assert compile_kernels([]) == []
