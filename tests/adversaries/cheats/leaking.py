"""Memory that grows from call to call."""

from __future__ import annotations

import ctypes
import itertools
import mmap
from typing import TYPE_CHECKING

import torch
from subjects.fused_add import FUSED_ADD
from subjects.rmsnorm import RMSNORM
from subjects.silu import SILU

from cheats import undo
from cheats.adversary import Adversary, each, unseen

if TYPE_CHECKING:
    from subjects.subject import Kernel, Subject

MIB = 1 << 20
LEAKED = []


def keeps_results(subject: Subject) -> Kernel:
    """Appends each result to a list in a module; a right copy of it goes to the caller."""
    undo.later(LEAKED.clear)

    def kernel(*args):
        data = subject.right(*args)
        LEAKED.append([tensor.clone() for tensor in subject.outputs(args, data)])
        return data

    return kernel


def keeps_workspaces(subject: Subject) -> Kernel:
    """A workspace a call, kept for no reason."""
    undo.later(LEAKED.clear)

    def kernel(*args):
        LEAKED.append(torch.zeros(MIB))
        return subject.right(*args)

    return kernel


def keeps_every_other(subject: Subject) -> Kernel:
    """The same in every second call."""
    undo.later(LEAKED.clear)
    calls = itertools.count()

    def kernel(*args):
        if next(calls) % 2:
            LEAKED.append(torch.zeros(MIB))
        return subject.right(*args)

    return kernel


def keeps_bytes(subject: Subject) -> Kernel:
    undo.later(LEAKED.clear)

    def kernel(*args):
        LEAKED.append(bytearray(b"x") * MIB)
        return subject.right(*args)

    return kernel


def never_frees(subject: Subject) -> Kernel:
    """malloc without free."""
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    libc.free.argtypes = (ctypes.c_void_p,)

    def kernel(*args):
        block = libc.malloc(MIB)
        ctypes.memset(block, 1, MIB)
        undo.later(lambda: libc.free(block))
        return subject.right(*args)

    return kernel


def maps(subject: Subject) -> Kernel:
    """Pages mapped and written, never given back."""

    def kernel(*args):
        pages = mmap.mmap(-1, MIB)
        pages.write(b"x" * MIB)
        undo.later(pages.close)
        return subject.right(*args)

    return kernel


ADVERSARIES = [
    *each("keeps its results", keeps_results, (RMSNORM, SILU, FUSED_ADD), "memory"),
    *each("keeps its workspaces", keeps_workspaces, (RMSNORM, SILU), "memory"),
    *each("keeps every other workspace", keeps_every_other, (RMSNORM,), "memory"),
    *each("keeps bytes", keeps_bytes, (RMSNORM,), "memory"),
    *each("malloc without free", never_frees, (RMSNORM, SILU), "memory"),
    *unseen(
        "the C library counts what it hands out, not what a program maps itself",
        Adversary("maps pages", maps, RMSNORM, ("memory",)),
    ),
]
