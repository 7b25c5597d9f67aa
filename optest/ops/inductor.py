"""``torch.compile`` as a candidate: compiled once for a sweep, never quietly replaced by eager."""

from __future__ import annotations

import functools
import inspect
import os
import platform
import subprocess
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from optest import arch
from optest.log import logger, once
from optest.native import compiler

_Function = Callable[..., Any]
_X86_FLAGS = ("-mavx512f", "-mavx512bf16", "-mavx512vnni", "-mamx-tile", "-mamx-bf16")


def available() -> bool:
    """Whether inductor can compile here: Triton on a GPU; a compiler and Python's headers on a CPU.

    The first False says why in the log.
    """
    if arch.get_gfx_runtime() != arch.CPU:
        return True
    reason = _why_not()
    if reason:
        once(f"inductor is left out: {reason}")
    return not reason


@functools.cache
def compiled(function: _Function, label: str) -> _Function:
    """``function`` compiled by inductor with dynamic shapes, in one graph.

    Each ``label`` (the dtypes and modes of a sweep, say) has its own compilation, so that a sweep
    over shapes compiles once. A graph break, or more recompilations than torch allows, is an error
    of the case: torch would otherwise go on in eager mode and that would be timed.
    """
    logger.info("compiling %s with inductor ...", label)
    arguments: dict[str, Any] = {"dynamic": True, "fullgraph": True}
    if "isolate_recompiles" in inspect.signature(torch.compile).parameters:
        arguments["isolate_recompiles"] = True
    if _takes_every_isa():
        arguments["options"] = {"cpp.vec_isa_ok": True}
    compile_: Any = torch.compile
    result: _Function = compile_(function, **arguments)
    return result


def _why_not() -> str:
    if not (Path(sysconfig.get_path("include")) / "Python.h").is_file():
        return "it needs Python's headers (Python.h; python3-dev on Debian), found none"
    if compiler.find(compiler.CXX) is None:
        return "it needs a C++ compiler, found none"
    return ""


@functools.cache
def _takes_every_isa() -> bool:
    """Whether the compiler knows every x86 instruction set that inductor may choose.

    Inductor otherwise finds out by building five programs, which takes some 15 s of a first run;
    this asks once, and what the processor can do it reads from the system as before.
    """
    found = compiler.find(compiler.CXX)
    if found is None or platform.machine() not in ("x86_64", "AMD64"):
        return False
    command = [*found.command, *_X86_FLAGS, "-fsyntax-only", "-x", "c++", os.devnull]
    done = subprocess.run(command, capture_output=True, check=False)  # noqa: S603
    return done.returncode == 0
