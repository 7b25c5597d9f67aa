"""Memory under guard: what the allocator of csrc puts around each block, and what it saw there.

On the CPU an allocator in front of torch's own (csrc/allocator.cpp) can fill fresh memory with a
byte, and lay canary bytes or closed pages around it. Guards belong to a block, from when it was
allocated until it is freed, wherever and by whom; switching off ends only the guarding of new ones.
Not guarded: what was allocated before, what does not come from torch (malloc, NumPy), GPU memory.
"""

from __future__ import annotations

import ctypes
import enum
import functools
import logging
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from optest import native, settings
from optest.log import once

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_POISONS = 0x100
_GUARD_SHIFT = 9
_WAITS = 0x800
_ACCESS = ("touched", "read", "wrote")


class Guard(enum.IntEnum):
    """What lies around a block: nothing, canary bytes, or pages that nobody may touch."""

    NONE = 0
    BYTES = 1
    PAGES = 2


@dataclass(frozen=True)
class Damage:
    """Canary bytes that were written over; each damage is told once.

    Attributes:
        data_ptr: address of the block's first byte.
        nbytes: its size.
        first: offset of the first changed byte from the block's first: negative before the block,
            ``nbytes`` is the byte right after it.
        last: the same of the last changed byte.
        count: how many bytes changed; a byte that was written and holds what it held is none.
        zone: how many bytes on that side are guarded; what was written beyond them is not seen.
    """

    data_ptr: int
    nbytes: int
    first: int
    last: int
    count: int
    zone: int

    @property
    def side(self) -> str:
        """``before`` or ``after`` the block."""
        return "before" if self.first < 0 else "after"


@dataclass(frozen=True)
class Fault:
    """The first access of its kind to the closed pages on one side of a block.

    Attributes:
        data_ptr: address of the block's first byte.
        nbytes: its size.
        offset: where, from the block's first byte: negative before the block.
        access: ``read``, ``wrote``, or ``touched`` where the machine does not say which.
    """

    data_ptr: int
    nbytes: int
    offset: int
    access: str

    @property
    def side(self) -> str:
        """``before`` or ``after`` the block."""
        return "before" if self.offset < 0 else "after"


class _Damage(ctypes.Structure):
    _fields_ = (
        ("data_ptr", ctypes.c_uint64),
        ("nbytes", ctypes.c_uint64),
        ("first", ctypes.c_int64),
        ("last", ctypes.c_int64),
        ("count", ctypes.c_uint64),
        ("zone", ctypes.c_uint64),
    )


class _Fault(ctypes.Structure):
    _fields_ = (
        ("data_ptr", ctypes.c_uint64),
        ("nbytes", ctypes.c_uint64),
        ("offset", ctypes.c_int64),
        ("access", ctypes.c_int32),
    )


class Allocator:
    """The allocator of csrc, installed in front of torch's own."""

    def __init__(self, library: ctypes.CDLL) -> None:
        for name in ("live_bytes", "check", "close_pages", "take_damages", "take_faults"):
            getattr(library, f"optest_guard_{name}").restype = ctypes.c_uint64
        library.optest_guard_take_without_pages.restype = ctypes.c_uint64
        for name in ("check", "take_damages", "take_faults"):
            getattr(library, f"optest_guard_{name}").argtypes = (ctypes.c_void_p, ctypes.c_uint64)
        library.optest_guard_knows.argtypes = (ctypes.c_void_p,)
        library.optest_allocator_install()
        self.library = library
        self._switch = library.optest_allocator_switch

    def switch(self, byte: int | None, guard: Guard, *, waits: bool = False) -> int:
        """Poison and guard what is allocated from now on; returns a word for ``switch_back``.

        Where it ``waits``, pages of large blocks that do not exist yet are poisoned at ``settle``.
        """
        poison = 0 if byte is None else _POISONS | byte
        return int(self._switch(poison | guard << _GUARD_SHIFT | _WAITS * waits))

    def settle(self) -> None:
        """Poison the pages that waited and that nobody has touched since."""
        self.library.optest_allocator_settle()

    def switch_back(self, word: int) -> None:
        """Go back to what held before a ``switch``."""
        self._switch(word)

    def damages(self, blocks: Iterable[int] | None) -> list[Damage]:
        """Damage of the blocks that begin at these addresses (None: of all), and of freed ones."""
        at = None if blocks is None else list(blocks)
        which = None if at is None else (ctypes.c_void_p * max(len(at), 1))(*at)
        room = self.library.optest_guard_check(which, 0 if at is None else len(at))
        if room == 0:
            return []
        records = (_Damage * room)()
        count = self.library.optest_guard_take_damages(records, room)
        return [Damage(*(getattr(r, name) for name, _ in r._fields_)) for r in records[:count]]

    def faults(self) -> list[Fault]:
        """Accesses to closed pages since last asked; the pages are closed again."""
        room = self.library.optest_guard_close_pages()
        if room == 0:
            return []
        records = (_Fault * room)()
        count = self.library.optest_guard_take_faults(records, room)
        return [Fault(r.data_ptr, r.nbytes, r.offset, _ACCESS[r.access]) for r in records[:count]]


@functools.cache
def allocator() -> Allocator | None:
    """The allocator, installed in this process; None where csrc cannot be built."""
    otherwise = "the guarding allocator is not available, torch's fill mode stands in"
    if native.csrc_or_none("allocator", otherwise) is None:
        return None
    # PyDLL: these calls are short, and giving the interpreter's lock up costs more than they do.
    return Allocator(ctypes.PyDLL(str(native.library_path("allocator"))))


def wanted() -> Guard:
    """What ``OPTEST_GUARD_PAGES`` asks for: bytes, or pages where this system has them."""
    if not settings.get("OPTEST_GUARD_PAGES"):
        return Guard.BYTES
    installed = allocator()
    if installed is not None and not installed.library.optest_guard_pages_exist():
        once("OPTEST_GUARD_PAGES=1: only Linux has guard pages here; guard bytes stand in")
        return Guard.BYTES
    return Guard.PAGES


@contextmanager
def switched(byte: int | None, guard: Guard) -> Iterator[None]:
    """Inside, memory that is allocated holds ``byte`` throughout and lies under ``guard``.

    ``byte`` None leaves in it what was there. Nothing happens where there is no allocator.
    """
    installed = allocator()
    if installed is None:
        yield
        return
    before = installed.switch(byte, guard)
    try:
        yield
    finally:
        installed.switch_back(before)


def damages(blocks: Iterable[int] | None = None) -> list[Damage]:
    """Guard bytes that were written over since last asked, and repaired now.

    Args:
        blocks: addresses of the blocks to look at; None looks at all that are alive. Damage of
            blocks that were freed meanwhile is told either way.
    """
    installed = allocator()
    return [] if installed is None else installed.damages(blocks)


def faults() -> list[Fault]:
    """Accesses to guard pages since last asked; the pages that these opened are closed again."""
    installed = allocator()
    if installed is None:
        return []
    if left_out := installed.library.optest_guard_take_without_pages():
        once(
            f"{left_out} allocations got guard bytes instead of guard pages: there are too many "
            "or too large ones at once",
            logging.WARNING,
        )
    return installed.faults()


def live_bytes(*guards: Guard) -> int:
    """Bytes of the blocks that are alive and lie under one of ``guards``; any, if none is given.

    What was allocated without guards is not counted. What lies between pages does not come from the
    C library, and its own counts lack it.
    """
    installed = allocator()
    if installed is None:
        return 0
    count = installed.library.optest_guard_live_bytes
    return sum(int(count(guard is Guard.PAGES)) for guard in guards or (Guard.BYTES, Guard.PAGES))


def is_guarded(address: int) -> bool:
    """Whether a guarded block begins at this address."""
    installed = allocator()
    return installed is not None and bool(installed.library.optest_guard_knows(address))
