"""Counting instructions: exactly those that ran, each of the kind that it is."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from optest import native

sys.path.append(str(Path(__file__).parents[2] / "scripts"))

from kernels import instructions
from kernels.contest import Contest

OTHER, PLAIN, MULTIPLY, SHUFFLE = range(4)

OF_KIND = {
    OTHER: """
        add $1, %rax
        vmovdqu (%rsp), %ymm1
        vmovaps %zmm1, 64(%rsp)
        vmovdqu8 %zmm1, (%rsp)
        vmovntps %ymm1, (%rsp)
        vmovntdq %zmm20, (%rsp)
        vmovntdqa (%rsp), %ymm1
        vbroadcastss (%rsp), %ymm3
        vpbroadcastd (%rsp), %zmm3
        vbroadcasti128 (%rsp), %ymm3
        vpxor %xmm1, %xmm2, %xmm3
        vfmadd231ps %xmm1, %xmm2, %xmm3
        vfmadd231ss (%rsp), %xmm2, %xmm3
        vzeroupper
        vzeroall
        kandw %k1, %k2, %k3
        kunpckbw %k1, %k2, %k3
        kmovw %k1, %eax
        andn %rax, %rbx, %rcx
        shlx %rax, %rbx, %rcx
    """,
    PLAIN: """
        vpor %ymm1, %ymm2, %ymm3
        vporq %zmm1, %zmm2, %zmm20
        vpternlogd $248, %zmm1, %zmm2, %zmm3
        vaddps (%rsp), %ymm2, %ymm3
        vaddps {rd-sae}, %zmm1, %zmm2, %zmm3
        vpslld $16, %ymm1, %ymm2
        vpcmpgtd %ymm1, %ymm2, %ymm3
        vpcmpgtd %zmm1, %zmm2, %k1
        vmaxps %ymm1, %ymm2, %ymm3
        vcvtdq2ps %ymm1, %ymm2
        vcvtph2ps %xmm1, %ymm2
        vpblendvb %ymm1, %ymm2, %ymm3, %ymm4
        vhaddps %ymm1, %ymm2, %ymm3
        vrcp14ps %zmm1, %zmm2
        vpmovm2b %k1, %zmm1
    """,
    MULTIPLY: """
        vfmadd231ps %ymm1, %ymm2, %ymm3
        vfmadd132ps (%rsp), %ymm9, %ymm12
        vfnmadd213ps %zmm1, %zmm2, %zmm30
        vmulps %ymm1, %ymm2, %ymm3
        vmulpd %zmm1, %zmm2, %zmm3
        vpmaddwd %ymm1, %ymm2, %ymm3
        vpmaddubsw %ymm1, %ymm2, %ymm3
        vpmulld %ymm1, %ymm2, %ymm3
        vpmullw %ymm1, %ymm2, %ymm3
        vpmuludq %ymm1, %ymm2, %ymm3
        vdpbf16ps %zmm1, %zmm2, %zmm3
        vpdpbusd %zmm1, %zmm2, %zmm3
        vpdpwssd %zmm1, %zmm2, %zmm3
    """,
    SHUFFLE: """
        vpshufb %ymm1, %ymm2, %ymm3
        vpunpcklbw %zmm1, %zmm2, %zmm3
        vpunpckhqdq %ymm1, %ymm2, %ymm3
        vshufps $8, %ymm1, %ymm2, %ymm3
        vpshufd $8, %ymm1, %ymm2
        vpackusdw %ymm1, %ymm2, %ymm3
        vpermq $8, %ymm1, %ymm2
        vperm2f128 $49, %ymm1, %ymm2, %ymm3
        vpermd %ymm1, %ymm2, %ymm3
        vpermi2w %zmm1, %zmm2, %zmm3
        vpermt2b %zmm1, %zmm2, %zmm3
        vpermb %zmm1, %zmm2, %zmm3
        vpmovzxbw %xmm1, %ymm2
        vpmovdb %zmm1, %xmm2
        vshuff32x4 $136, %zmm1, %zmm2, %zmm3
        vextracti128 $1, %ymm1, %xmm2
        vinserti128 $1, %xmm1, %ymm2, %ymm3
        vpalignr $4, %ymm1, %ymm2, %ymm3
    """,
}
TELL_KIND = """
#include "optest/instruction.h"
#include "optest/tensor.h"
namespace {
int64_t kind(torch::stable::Tensor bytes) {
  return static_cast<int64_t>(optest::kind_of(static_cast<const uint8_t*>(bytes.data_ptr())));
}
}
STABLE_TORCH_LIBRARY(tell_kind, m) { m.def("kind(Tensor bytes) -> int"); }
STABLE_TORCH_LIBRARY_IMPL(tell_kind, CPU, m) { m.impl("kind", TORCH_BOX(&kind)); }
"""


@pytest.fixture(scope="module")
def ops():
    counting = native.csrc("instructions")
    if not hasattr(counting, "begin_counting"):
        pytest.skip("instructions are counted on x86-64 under Linux")
    return counting


@pytest.fixture
def vectors(ops):
    if native.csrc("harness").isa() not in ("avx2", "avx512"):
        pytest.skip("only AVX2 and AVX-512 have peaks")
    return ops


@pytest.fixture(scope="module")
def kind(ops, tmp_path_factory):
    source = tmp_path_factory.mktemp("kind") / "tell_kind.cpp"
    source.write_text(TELL_KIND)
    return native.load(
        "tell_kind", source, extra_cflags=[f"-I{native.library.csrc_dir()}/include"]
    ).kind


def encoded(line, folder):
    """As the assembler writes it, with room behind as there is in a program."""
    tools = [shutil.which(name) for name in ("as", "objcopy")]
    assert all(tools), "the compiler's own tools"
    (folder / "one.s").write_text(line + "\n")
    subprocess.run([tools[0], "one.s", "-o", "one.o"], cwd=folder, check=True)
    subprocess.run(
        [tools[1], "-O", "binary", "-j", ".text", "one.o", "one"], cwd=folder, check=True
    )
    return torch.tensor([*(folder / "one").read_bytes(), *[0x90] * 8], dtype=torch.uint8)


@pytest.mark.parametrize(
    ("line", "expected"),
    [(line.strip(), k) for k, lines in OF_KIND.items() for line in lines.strip().splitlines()],
)
def test_the_kind_of_an_instruction(kind, tmp_path, line, expected):
    assert kind(encoded(line, tmp_path)) == expected


@pytest.mark.parametrize("which", instructions.KINDS)
def test_each_that_ran_is_counted_once(vectors, which):
    counts = instructions.counted(vectors, lambda: vectors.run_instructions(which, 12_000))
    assert 12_000 <= counts[0] < 16_000, "those of the loop too"
    assert counts[1:] == [12_000 * (which in kinds) for kinds in ((1, 2, 3), (2,), (3,))]


def test_other_libraries_are_not_counted(vectors):
    x = torch.ones(100_000)
    every, *of_vectors = instructions.counted(vectors, lambda: x + x)
    assert every < 2_000, "what begins and ends the counting"
    assert of_vectors == [0, 0, 0]


def test_the_bound_is_the_kind_that_takes_longest(vectors):
    def make():
        return Contest("", 6_000, lambda: vectors.run_instructions(MULTIPLY, 12_000), {})

    slowest = pytest.approx(6_000 / (12_000 / 1e9))
    assert instructions.bound(vectors, make, (9e9, 4e9, 1e9, 0.1e9)) == slowest, "none moves lanes"
    assert instructions.bound(vectors, make, (9e9, 1e9, 2e9, 9e9)) == slowest


def test_peaks_rise_with_what_a_unit_does_at_once(vectors):
    """Bitwise instructions have all units that others have."""
    best = ()
    for _ in range(5):  # others may have the cores for a while
        best = instructions.peaks(vectors, best)
    every, on_vectors, multiply, shuffle = best
    assert every > 0.7 * on_vectors
    assert on_vectors > 0.7 * max(multiply, shuffle) > 1e8


def test_the_highest_peaks_are_kept(vectors):
    assert instructions.peaks(vectors, (1e15,) * 4) == (1e15,) * 4


def test_the_process_has_its_handler_back(ops):
    before = signal.getsignal(signal.SIGTRAP)
    seen = []
    signal.signal(signal.SIGTRAP, lambda *_: seen.append(1))
    try:
        instructions.counted(ops, lambda: None)
        signal.raise_signal(signal.SIGTRAP)
        assert seen == [1]
    finally:
        signal.signal(signal.SIGTRAP, before)


def test_what_it_refuses(ops):
    counts = torch.zeros(4, dtype=torch.int64)
    with pytest.raises(ValueError, match="expected begin_counting first"):
        ops.end_counting(counts)
    with pytest.raises(ValueError, match=r"ranges has shape \[3\], expected"):
        ops.begin_counting(torch.zeros(3, dtype=torch.int64))
    with pytest.raises(ValueError, match="kind is 4, expected 0 to 3"):
        ops.run_instructions(4, 120)
    with pytest.raises(ValueError, match="count is 12, expected a multiple of 120"):
        ops.run_instructions(1, 12)
    ops.begin_counting(torch.zeros(0, 2, dtype=torch.int64))
    try:
        with pytest.raises(ValueError, match="expected end_counting first"):
            ops.begin_counting(torch.zeros(0, 2, dtype=torch.int64))
    finally:
        ops.end_counting(counts)
    assert not counts.any()
