"""Directions from a Triton kernel's stores, without running it."""

from __future__ import annotations

import pytest

pytest.importorskip("triton")

import golden_triton_kernels as kernels

from optest.golden.triton_access import access
from optest.ops.triton import activation, cache, gemm, norm, quant


@pytest.mark.parametrize(
    ("kernel", "constants", "expected"),
    [
        ("scale_kernel", {}, {"x": "in", "y": "out"}),
        ("cast_kernel", {}, {"x": "in", "y": "out"}),
        ("accumulate_kernel", {}, {"x": "in", "total": "inout"}),
        ("atomic_kernel", {}, {"x": "in", "count": "inout"}),
        ("branch_kernel", {"BOTH": None}, {"x": "in", "y": "out", "z": "in"}),
        ("branch_kernel", {"BOTH": 1, "MODE": "as it is"}, {"x": "in", "y": "in", "z": "out"}),
        ("branch_kernel", {"BOTH": 1, "MODE": "square"}, {"x": "in", "y": "out", "z": "out"}),
        ("branch_kernel", {"BOTH": 1}, {"x": "in", "y": "out", "z": "out"}),
        ("branch_kernel", {}, {"x": "in", "y": "out", "z": "out"}),
        ("loop_kernel", {}, {"x": "in", "y": "out", "z": "out"}),
        ("block_kernel", {}, {"x": "in", "y": "out"}),
        ("alternating_kernel", {}, {"x": "inout", "y": "out", "z": "out"}),
        ("switched_kernel", {}, {"x": "in", "y": "out", "z": "in"}),
        ("facts_kernel", {}, {"x": "in", "y": "out"}),
    ],
)
def test_what_is_stored_to_is_an_output(kernel, constants, expected):
    found = access(getattr(kernels, kernel), list(expected), constants)
    assert {name: found.direction(name) for name in expected} == expected
    assert not found.lost


def test_a_store_that_cannot_be_followed_is_said():
    assert access(kernels.through_memory_kernel, ["table", "y"], {}).lost
    assert access(kernels.opaque_kernel, ["x", "y"], {}).lost


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (norm.rmsnorm_kernel, {"out": "out", "x": "in", "weight": "in"}),
        (norm.fused_add_rmsnorm_kernel, {"x": "inout", "residual": "inout", "weight": "in"}),
        (quant.static_kernel, {"x": "in", "q": "out", "scale": "in"}),
        (quant.token_kernel, {"x": "in", "q": "out", "scales": "out"}),
        (quant.group_kernel, {"x": "in", "q": "out", "scales": "out"}),
        (quant.largest_kernel, {"x": "in", "partial": "out"}),
        (quant.tensor_scale_kernel, {"partial": "in", "scale": "out"}),
        (gemm.gemm_kernel, {"x": "in", "w": "in", "y": "out"}),
        (activation.act_and_mul_kernel, {"out": "out", "x": "in"}),
        (
            cache.reshape_and_cache_kernel,
            {"key": "in", "key_cache": "out", "value_cache": "out", "slots": "in"},
        ),
    ],
)
def test_the_kernels_of_this_package(kernel, expected):
    found = access(kernel, [*expected, "value"], {})
    assert {name: found.direction(name) for name in expected} == expected
    assert not found.lost
