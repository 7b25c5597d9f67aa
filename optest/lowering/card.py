"""The cards that kernels are lowered for: what their documents say a kernel may take."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from optest.errors import UsageError

_KIB = 1024
_CUDA = "CUDA C++ Programming Guide, technical specifications per compute capability"
_LLVM = "LLVM, User Guide for AMDGPU Backend, and the feature table of its target"


@dataclass(frozen=True)
class Card:
    """One arch.

    Attributes:
        name: ``gfx942``, ``sm_90``.
        wave_size: threads of a wave (AMD) or warp (NVIDIA).
        shared_bytes: shared memory that one block may have (AMD: LDS of a workgroup).
        shared_bytes_unit: shared memory of a compute unit or multiprocessor.
        reserved_bytes: of it that the system takes for each block.
        registers: vector registers of one thread.
        waves: that a compute unit or multiprocessor holds at most.
        blocks: the same of blocks.
        units: compute units of the card that is common, for wrappers that ask.
        l2_bytes: its second-level cache.
        device: how the common card is called.
        source: where shared memory and registers are written down.
    """

    name: str
    wave_size: int
    shared_bytes: int
    shared_bytes_unit: int
    reserved_bytes: int
    registers: int
    waves: int
    blocks: int
    units: int
    l2_bytes: int
    device: str
    source: str

    @property
    def is_amd(self) -> bool:
        """Whether it is one of AMD's."""
        return self.name.startswith("gfx")

    @property
    def max_waves_of_a_block(self) -> int:
        """1024 threads are the most of a block on each of them."""
        return 1024 // self.wave_size

    def triton(self) -> Any:  # noqa: ANN401 - a triton GPUTarget
        """What Triton calls it."""
        from triton.backends.compiler import GPUTarget

        if self.is_amd:
            return GPUTarget("hip", self.name, self.wave_size)
        return GPUTarget("cuda", int(self.name.removeprefix("sm_")), self.wave_size)


def _amd(  # noqa: PLR0913, PLR0917 - one column each
    name: str, wave: int, lds_kib: int, vgprs: int, units: int, l2: int, device: str
) -> Card:
    lds, waves = lds_kib * _KIB, 32 if wave == 64 else 64  # noqa: PLR2004 - 4 SIMDs of 8, of 16
    return Card(
        name, wave, lds, lds, 0, vgprs, waves, waves, units, l2 << 20, f"AMD {device}", _LLVM
    )


def _nvidia(  # noqa: PLR0913, PLR0917 - one column each
    name: str, shared_kib: int, waves: int, blocks: int, units: int, l2: int, device: str
) -> Card:
    # The system keeps 1 KiB of each block's shared memory.
    block = (shared_kib - 1) * _KIB
    whole = shared_kib * _KIB
    return Card(
        name, 32, block, whole, _KIB, 255, waves, blocks, units, l2 << 20, f"NVIDIA {device}", _CUDA
    )


# Registers: 512 with the accumulation registers on CDNA 2 to 4, 1024 on gfx1250. For gfx1250 the
# number of units and the cache are not public: those of its predecessor stand in.
CARDS: tuple[Card, ...] = (
    _amd("gfx90a", 64, 64, 512, 104, 8, "Instinct MI210"),
    _amd("gfx942", 64, 64, 512, 304, 4, "Instinct MI300X"),
    _amd("gfx950", 64, 160, 512, 256, 4, "Instinct MI355X"),
    _amd("gfx1250", 32, 320, 1024, 256, 4, "gfx1250"),
    _nvidia("sm_80", 164, 64, 32, 108, 40, "A100"),
    _nvidia("sm_86", 100, 48, 16, 84, 6, "A40"),
    _nvidia("sm_89", 100, 48, 24, 142, 96, "L40S"),
    _nvidia("sm_90", 228, 64, 32, 132, 50, "H100"),
    _nvidia("sm_100", 228, 64, 32, 148, 126, "B200"),
    _nvidia("sm_120", 100, 48, 24, 188, 128, "RTX PRO 6000"),
)
_BY_NAME = {card.name: card for card in CARDS}


def named(names: Iterable[str]) -> list[Card]:
    """The cards of these names, each once, in order.

    Raises:
        UsageError: a name that is not in the table, or no name at all.
    """
    wanted = list(dict.fromkeys(names))
    unknown = [name for name in wanted if name not in _BY_NAME]
    if unknown or not wanted:
        problem = f"--target {unknown[0]!r}: unknown" if unknown else "no --target is given"
        raise UsageError(f"{problem}; expected one of {', '.join(_BY_NAME)}")
    return [_BY_NAME[name] for name in wanted]
