"""What guard bytes and guard pages saw, in words that name the tensor, the place and the amount."""

from __future__ import annotations

import sys

import pytest
import torch

from optest import native
from optest.guards import canary, memory
from optest.guards.memory import Guard

pytestmark = pytest.mark.usefixtures("nothing_before")
needs_compiler = pytest.mark.skipif(not native.available(), reason=str(native.why_not()))
needs_pages = pytest.mark.skipif(sys.platform != "linux", reason="guard pages are Linux's")
BF16 = "a 16x64 bf16 tensor (2048 bytes)"


def guarded(*shape, dtype=torch.bfloat16, guard=Guard.BYTES):
    with memory.switched(0x7F, guard):
        return torch.zeros(*shape, dtype=dtype)


def evidence(*tensors):
    return [finding.evidence for finding in canary.findings(tensors)]


@needs_compiler
@pytest.mark.parametrize(
    ("offset", "count", "byte", "expected"),
    [
        (2048, 12, 0x11, f"wrote 12 bytes right after {BF16}"),
        (2048, 12, 0xFF, f"wrote 12 bytes right after {BF16}"),  # every second byte held that
        (2048, 1, 0x11, f"wrote 2 bytes right after {BF16}"),  # no less than an element
        (2148, 2, 0x11, f"wrote 2 bytes 100 bytes after the end of {BF16}"),
        (2000, 50, 0x11, f"wrote 2 bytes right after {BF16}"),
        (2048, 256, 0x11, f"wrote at least 256 bytes right after {BF16}"),
        (-6, 6, 0x11, f"wrote 6 bytes right before {BF16}"),
        (-20, 4, 0x11, f"wrote 4 bytes 16 bytes before the start of {BF16}"),
        (-256, 256, 0x11, f"wrote at least 256 bytes right before {BF16}"),
    ],
)
def test_what_was_written_is_said(overrun, offset, count, byte, expected):
    block = guarded(16, 64)
    overrun.put(block, offset, count, byte)
    found = canary.findings([block])
    assert [f.evidence for f in found] == [expected]
    assert {f.guard for f in found} == {"guard bytes"}
    assert not found[0].declarable
    assert evidence(block) == []


@needs_compiler
def test_scattered_bytes_are_counted_and_not_taken_for_a_stretch(overrun):
    block = guarded(64, dtype=torch.uint8)
    for offset in (64, 94, 124):
        overrun.put(block, offset, 1, 0x11)
    expected = "wrote 3 of 61 bytes right after a 64 u8 tensor (64 bytes)"
    assert evidence(block) == [expected]


@needs_compiler
@pytest.mark.parametrize(
    ("view", "expected"),
    [
        (lambda t: t, "a 4x8 fp32 tensor (128 bytes)"),
        (lambda t: t.t(), "a 8x4 fp32 tensor (128 bytes)"),
        (lambda t: t[2:], "an allocation of 128 bytes that holds a 2x8 fp32 tensor"),
        (lambda t: t[3, 7], "an allocation of 128 bytes that holds a 0-dim fp32 tensor"),
        (lambda t: torch.ones(1), "an allocation of 128 bytes"),
    ],
)
def test_the_block_is_named_by_the_tensor_that_lies_in_it(overrun, view, expected):
    block = guarded(4, 8, dtype=torch.float32)
    overrun.put(block, 128, 4, 0x11)
    assert evidence(view(block)) == [f"wrote 4 bytes right after {expected}"]


@needs_compiler
def test_of_several_tensors_in_a_block_the_largest_names_it(overrun):
    block = guarded(16, 64)
    overrun.put(block, 2048, 2, 0x11)
    assert evidence(block[:2], block, block[0, 0]) == [f"wrote 2 bytes right after {BF16}"]


@needs_compiler
def test_a_workspace_that_was_freed_is_named_by_its_size(overrun):
    block = guarded(16, 64)
    overrun.put(block, 2048, 2, 0x11)
    del block
    assert evidence() == ["wrote 2 bytes right after an allocation of 2048 bytes"]


@needs_compiler
def test_many_damages_are_a_few_findings(overrun):
    blocks = [guarded(64, dtype=torch.uint8) for _ in range(20)]
    for block in blocks:
        overrun.put(block, 64, 1, 0x11)
    found = evidence(*blocks)
    assert len(found) == 4
    assert found[-1].endswith("; and 16 more like these")


@needs_compiler
@needs_pages
@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (2048, f"read right after {BF16}"),
        (2058, f"read 10 bytes after the end of {BF16}"),
        (-2048 - 1, f"read 2048 bytes before the start of {BF16}"),
    ],
)
def test_what_was_read_is_said(overrun, offset, expected):
    block = guarded(16, 64, guard=Guard.PAGES)
    overrun.get(block, offset)
    (found,) = canary.findings([block])
    assert (found.guard, found.evidence) == ("guard page", expected)
    assert "reads" in found.meaning


@needs_compiler
@needs_pages
def test_a_write_past_pages_is_no_read(overrun):
    block = guarded(16, 64, guard=Guard.PAGES)
    overrun.put(block, 2048, 8, 0x11)
    (found,) = canary.findings([block])
    assert (found.guard, found.evidence) == ("guard page", f"wrote right after {BF16}")
    assert "writes" in found.meaning


@needs_compiler
@needs_pages
def test_a_write_between_the_data_and_its_page_is_seen_by_its_bytes(overrun):
    block = guarded(60, dtype=torch.uint8, guard=Guard.PAGES)
    overrun.put(block, 60, 2, 0x11)
    (found,) = canary.findings([block])
    assert found.guard == "guard bytes"
    assert found.evidence == "wrote 2 bytes right after a 60 u8 tensor (60 bytes)"


def test_without_the_allocator_that_is_said_and_nothing_found(monkeypatch):
    said = []
    monkeypatch.setattr(memory, "allocator", lambda: None)
    monkeypatch.setattr(canary, "once", lambda message, _level: said.append(message))
    assert canary.findings([torch.zeros(1)]) == []
    assert "unguarded" in said[0]
