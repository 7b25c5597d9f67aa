"""What a kernel takes of a card: limits, occupancy by the documented rules, length of the code."""

from __future__ import annotations

import struct
from types import SimpleNamespace

import pytest

from optest.errors import UsageError
from optest.lowering.binary import code_bytes, excess, facts
from optest.lowering.card import CARDS, named


def elf(*sections):
    """An ELF file with these (flags, size) sections."""
    head = bytearray(64)
    struct.pack_into("<Q", head, 0x28, 64)
    struct.pack_into("<HH", head, 0x3A, 64, len(sections))
    body = b"".join(
        struct.pack("<IIQQQQIIQQ", 0, 1, flags, 0, 0, size, 0, 0, 1, 0) for flags, size in sections
    )
    return bytes(head) + body


def made(shared, warps, **asm):
    return SimpleNamespace(metadata=SimpleNamespace(shared=shared, num_warps=warps), asm=asm)


def test_code_is_the_executable_sections_alone():
    """The size of the file holds symbols and debugging information, which no card loads."""
    assert code_bytes(elf((0x2, 4096), (0x6, 768), (0x0, 999), (0x6, 128))) == 896


@pytest.mark.parametrize(
    ("registers", "shared", "warps", "held"),
    [
        (32, 0, 4, 64),  # 65536 / (32 * 32) = 64 warps
        (255, 0, 4, 8),  # 8192 a warp: 8 fit
        (33, 0, 4, 48),  # given 256 at a time: 1280 a warp, 51, in blocks of 4
        (32, 100 << 10, 4, 8),  # two blocks beside each other in 228 KiB
        (32, 227 << 10, 4, 4),
        (32, 0, 1, 32),  # 32 blocks are the most
    ],
)
def test_occupancy_of_sm_90(registers, shared, warps, held):
    (card,) = named(["sm_90"])
    log = f"12 bytes spill stores\nUsed {registers} registers, used 1 barriers"
    found = facts(card, made(shared, warps, cubin=elf((6, 256))), log, 1.0)
    assert found.occupancy == held
    assert found.spills == 12


@pytest.mark.parametrize(
    ("by_registers", "shared", "warps", "held"), [(8, 0, 4, 32), (3, 0, 8, 8), (8, 20 << 10, 4, 12)]
)
def test_occupancy_of_gfx942(by_registers, shared, warps, held):
    (card,) = named(["gfx942"])
    text = (
        f".agpr_count: 4\n.sgpr_count: 50\n.vgpr_count: 68\n.vgpr_spill_count: 2\n"
        f"; Occupancy: {by_registers}\n"
    )
    found = facts(card, made(shared, warps, amdgcn=text, hsaco=elf((6, 256))), "", 1.0)
    assert found.occupancy == held
    assert (found.registers, found.accumulation, found.scalar, found.spills) == (68, 4, 50, 2)


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.name)
def test_the_limit_itself_fits_and_one_more_does_not(card):
    image = {"hsaco": elf((6, 256)), "cubin": elf((6, 256)), "amdgcn": ".vgpr_count: 8"}
    fits = facts(card, made(card.shared_bytes, 4, **image), "", 1.0)
    over = facts(card, made(card.shared_bytes + 1, 4, **image), "", 1.0)
    wide = facts(card, made(0, card.max_waves_of_a_block * 2, **image), "", 1.0)
    assert excess(card, fits) == []
    assert "bytes of shared memory" in excess(card, over)[0]
    assert "warps a block" in excess(card, wide)[0]


def test_unknown_cards_are_named_with_the_known_ones():
    with pytest.raises(UsageError, match=r"'gfx9000': unknown; expected one of gfx90a, gfx942"):
        named(["gfx942", "gfx9000"])
