"""docs/ops.md is what the op tests say of themselves."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
TOOL = runpy.run_path(str(ROOT / "scripts/ops_page.py"))
OP_TESTS = sorted((ROOT / "op_tests").glob("test_*.py"))


def cells(name):
    return TOOL["OpTest"](ROOT / "op_tests" / f"test_{name}.py").cells()


def test_the_page_is_up_to_date():
    assert (ROOT / "docs/ops.md").read_text("utf-8") == TOOL["page"](), (
        "python scripts/ops_page.py > docs/ops.md"
    )


@pytest.mark.parametrize("path", OP_TESTS, ids=lambda path: path.stem)
def test_every_op_test_has_all_its_cells(path):
    assert all(TOOL["OpTest"](path).cells())


def test_a_row_is_read_right():
    _, operator, candidates, options, archs, reference = cells("quant")
    assert operator == "Symmetric quantisation of activations and weights"
    assert candidates == "cpp, triton, inductor"
    assert "`--q_type` static_per_Tensor per_Tensor per_Token per_1x128" in options
    assert archs.startswith("cpu, gfx942, gfx950")
    assert "`quant.dynamic_per_token_quant`" in reference


def test_a_torch_candidate_beside_a_kernel_for_cards_alone():
    assert cells("gemm_a16w16")[2] == "torch_mm, torch_einsum, triton"


def test_candidates_without_a_kernel_of_our_own():
    assert cells("all_reduce")[2] == "gloo, gloo_two_steps, nccl"
