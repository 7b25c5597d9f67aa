"""Torch, Triton, the compiler, and what the environment asks for."""

from __future__ import annotations

import os
import platform
from importlib import metadata

from optest import native, settings
from optest.doctor.item import Item
from optest.native import compiler

_TRITONS = ("triton", "pytorch-triton-rocm", "pytorch-triton")
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")


def items(cores: int) -> list[Item]:
    """What is installed; ``cores`` is how many this process may use."""
    return [
        Item("python", platform.python_version()),
        Item("torch", compiler.torch_version() or "not installed"),
        _triton(),
        _compiler(),
        _kernels(),
        _threads(cores),
        _settings(),
    ]


def _triton() -> Item:
    for name in _TRITONS:
        try:
            return Item("triton", metadata.version(name))
        except metadata.PackageNotFoundError:
            continue
    return Item("triton", "not installed", "note", "Triton candidates are left out")


def _compiler() -> Item:
    found = compiler.find(compiler.CXX)
    if found is None:
        return Item("compiler", "none", "note", "", "install g++ or clang++, or name one in CXX")
    return Item("compiler", found.version.splitlines()[0] if found.version else found.command[0])


def _kernels() -> Item:
    if native.available():
        return Item("kernels of csrc", "can be built")
    return Item(
        "kernels of csrc",
        "not here",
        "warning",
        f"{native.why_not()}: caches are emptied by a walk through memory, and what a call costs "
        "is taken from an empty Python function",
        "install g++ or clang++ and torch 2.10 or later",
    )


def _threads(cores: int) -> Item:
    import torch

    count = torch.get_num_threads()
    words = f"{count}"
    said = [f"{name}={os.environ[name]}" for name in _THREADS if os.environ.get(name)]
    if said:
        words += f" ({', '.join(said)})"
    if count <= cores:
        return Item("threads of torch", words)
    return Item(
        "threads of torch",
        f"{words}, on {cores} cores",
        "bad",
        "threads wait for one another's turns",
        f"OMP_NUM_THREADS={cores}",
    )


def _settings() -> Item:
    given = settings.given()
    if not given:
        return Item("variables", "none is set")
    return Item(
        "variables",
        ", ".join(f"{name}={value}" for name, value in given.items()),
        "note",
        "they change what a run does; its store keeps them",
    )
