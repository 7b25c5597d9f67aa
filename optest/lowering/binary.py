"""What a compiled kernel takes of the card, read from what the compiler made."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from typing import Any

from optest.lowering.card import Card

_SIMDS = 4
_REGISTERS_OF_A_UNIT = 65536
_WARP_GRANULE = 256  # registers that a warp is given at a time
_SHARED_GRANULE = 128


@dataclass(frozen=True)
class Facts:
    """One kernel in one specialisation.

    Attributes:
        registers: vector registers of a thread, accumulation registers included.
        accumulation: of them accumulation registers (CDNA); None elsewhere.
        scalar: scalar registers of a wave; None where there are none.
        spills: vector registers (AMD) or bytes (NVIDIA) of a thread that went to memory.
        shared_bytes: shared memory of a block.
        warps: waves of a block.
        occupancy: waves that a compute unit or multiprocessor holds of it; 0: it does not fit.
        code_bytes: machine code.
        seconds: that compiling took.
    """

    registers: int | None
    accumulation: int | None
    scalar: int | None
    spills: int | None
    shared_bytes: int
    warps: int
    occupancy: int | None
    code_bytes: int
    seconds: float


def facts(card: Card, made: Any, log: str, seconds: float) -> Facts:  # noqa: ANN401
    """Read them from a triton CompiledKernel and what the compiler printed."""
    shared, warps = int(made.metadata.shared), int(made.metadata.num_warps)
    if card.is_amd:
        text = made.asm["amdgcn"]
        registers = _number(r"\.vgpr_count:\s+(\d+)", text)
        accumulation = _number(r"\.agpr_count:\s+(\d+)", text)
        scalar = _number(r"\.sgpr_count:\s+(\d+)", text)
        spills = _number(r"\.vgpr_spill_count:\s+(\d+)", text)
        # The compiler knows how many waves the registers leave room for.
        by_registers = _number(r"; Occupancy: (\d+)", text)
        held = None if by_registers is None else by_registers * _SIMDS // warps
        code = code_bytes(made.asm["hsaco"])
    else:
        registers = _number(r"Used (\d+) registers", log)
        accumulation = scalar = None
        spills = _number(r"(\d+) bytes spill stores", log)
        held = None if registers is None else _blocks_by_registers(registers, warps)
        code = code_bytes(made.asm["cubin"])
    occupancy = None if held is None else min(held, _blocks_beside(card, shared, warps)) * warps
    return Facts(
        registers, accumulation, scalar, spills, shared, warps, occupancy, code, round(seconds, 2)
    )


def excess(card: Card, found: Facts) -> list[str]:
    """What of the card's limits is exceeded, in words."""
    over = []
    if found.shared_bytes > card.shared_bytes:
        over.append(f"{found.shared_bytes} bytes of shared memory, {card.shared_bytes} are allowed")
    if found.registers is not None and found.registers > card.registers:
        over.append(f"{found.registers} registers a thread, {card.registers} are allowed")
    if found.warps > card.max_waves_of_a_block:
        over.append(f"{found.warps} warps a block, {card.max_waves_of_a_block} are allowed")
    return over


def code_bytes(image: bytes) -> int:
    """Length of the machine code in an ELF file: its sections that are executed."""
    (sections,) = struct.unpack_from("<Q", image, 0x28)
    size, count = struct.unpack_from("<HH", image, 0x3A)
    total = 0
    for index in range(count):
        at = sections + index * size
        flags, _address, _offset, length = struct.unpack_from("<QQQQ", image, at + 8)
        total += length if flags & 0x4 else 0
    return int(total)


def _number(pattern: str, text: str) -> int | None:
    found = re.search(pattern, text)
    return int(found[1]) if found else None


def _blocks_by_registers(registers: int, warps: int) -> int:
    of_a_warp = -(-registers * 32 // _WARP_GRANULE) * _WARP_GRANULE
    return _REGISTERS_OF_A_UNIT // max(of_a_warp * warps, 1)


def _blocks_beside(card: Card, shared: int, warps: int) -> int:
    """Blocks that shared memory and the places for waves and blocks leave room for."""
    taken = -(-shared // _SHARED_GRANULE) * _SHARED_GRANULE + card.reserved_bytes
    by_shared = card.shared_bytes_unit // taken if taken else card.blocks
    return min(by_shared, card.waves // warps, card.blocks)
