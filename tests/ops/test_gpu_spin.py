"""The kernels of known length that scripts/gpu_check times: there is a binary of each."""

from __future__ import annotations

from pathlib import Path

import pytest

from optest.native.triton_aot import Request, compile_kernels

FILE = Path(__file__).resolve().parent.parent.parent / "scripts/gpu_spin.py"


@pytest.mark.parametrize(
    ("target", "kernel", "clock"),
    [
        ("sm_90", "spin_cuda", "globaltimer"),
        ("sm_100", "spin_cuda", "globaltimer"),
        ("gfx942", "spin_hip", "s_memrealtime"),
        ("gfx950", "spin_hip", "s_memrealtime"),
    ],
)
def test_it_reads_the_clock_in_a_loop(target, kernel, clock, tmp_path):
    request = Request(
        f"{FILE}:{kernel}", {"ticks": "i64"}, {}, target, keep=str(tmp_path), keep_stages=True
    )
    (answer,) = compile_kernels([request])
    assert not isinstance(answer, Exception), answer
    suffix = {"sm": "ptx", "gf": "amdgcn"}[target[:2]]
    (assembly,) = tmp_path.glob(f"*.{suffix}")
    text = assembly.read_text("utf-8")
    assert text.count(clock) >= 2, text
    assert "bra" in text or "s_cbranch" in text
