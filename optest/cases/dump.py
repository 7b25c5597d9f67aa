"""``tensor_dump`` and ``tensor_load``: one tensor a file, as safetensors; nothing is evaluated."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from optest.errors import UsageError
from optest.log import logger

if TYPE_CHECKING:
    from collections.abc import Mapping

_KEY = "tensor"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._=+-]*")
_SHAPE = re.compile(r"torch\.Size\(\[([\d, ]*)\]\)")


def tensor_dump(x: torch.Tensor, name: str, dir: str = "./") -> str:  # noqa: A002 - upstream's name
    """Write ``x`` to ``dir/name.safetensors`` and return that path.

    Args:
        x: a dense tensor, any shape, dtype and device; a view is stored as its own elements.
        name: file name without ending: letters, digits, and ``. _ = + -``.
        dir: folder, made if it is missing.

    Raises:
        UsageError: ``name`` could leave the folder, or ``x`` is no tensor.
    """
    if not isinstance(x, torch.Tensor):
        raise UsageError(f"tensor_dump: expected a tensor, got a {type(x).__name__}")
    if not _NAME.fullmatch(name):
        raise UsageError(f"tensor_dump: name={name!r}: use letters, digits and . _ = + - only")
    path = Path(dir) / f"{name}.safetensors"
    path.parent.mkdir(parents=True, exist_ok=True)
    save({_KEY: x}, path)
    logger.info("saved %s %s %s", path, tuple(x.shape), x.dtype)
    return str(path)


def tensor_load(filename: str) -> torch.Tensor:
    """Read a tensor that ``tensor_dump`` wrote, onto the CPU.

    A pair of ``.bin`` and ``.meta`` files, as aiter's ``tensor_dump`` writes them, is read too; its
    shape and dtype are matched against the forms they have, never evaluated.

    Raises:
        UsageError: the file is missing or is not one of these.
    """
    path = Path(filename)
    if path.suffix == ".bin" and path.with_suffix(".meta").exists():
        return _load_bin(path)
    found = path if path.exists() else path.with_suffix(".safetensors")
    if not found.exists():
        raise UsageError(f"tensor_load: {filename!r}: no such file; expected one of tensor_dump's")
    tensors = load(found)
    if list(tensors) != [_KEY]:
        raise UsageError(
            f"tensor_load: {filename!r} holds {sorted(tensors)}, expected one 'tensor'"
        )
    return tensors[_KEY]


def save(tensors: Mapping[str, torch.Tensor], path: Path) -> None:
    """Write named tensors as bytes with dtype and shape beside: the format knows few dtypes.

    Raises:
        OSError: the file cannot be written.
    """
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    stored: dict[str, torch.Tensor] = {}
    notes: dict[str, str] = {}
    for name, tensor in tensors.items():
        dense = tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
        notes[name] = (
            f"{str(tensor.dtype).removeprefix('torch.')}:{','.join(map(str, tensor.shape))}"
        )
        stored[name] = dense.reshape(-1).view(torch.uint8)
    try:
        save_file(stored, path, metadata=notes)
    except SafetensorError as error:
        raise OSError(f"{str(path)!r}: {error}") from None


def load(path: Path) -> dict[str, torch.Tensor]:
    """Read what ``save`` wrote, or any safetensors file.

    Raises:
        UsageError: the file is no safetensors file.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            notes = file.metadata() or {}
            return {name: _typed(file.get_tensor(name), notes.get(name)) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise UsageError(f"{str(path)!r}: expected a safetensors file ({error})") from None


def _typed(stored: torch.Tensor, note: str | None) -> torch.Tensor:
    if note is None:
        return stored
    name, _, sizes = note.partition(":")
    shape = [int(size) for size in sizes.split(",") if size]
    return stored.view(_dtype(name)).reshape(shape)


def _dtype(name: str) -> torch.dtype:
    dtype = getattr(torch, name, None) if name.isidentifier() else None
    if not isinstance(dtype, torch.dtype):
        raise UsageError(f"dtype {name!r} is not one that this torch knows")
    return dtype


def _load_bin(path: Path) -> torch.Tensor:
    lines = path.with_suffix(".meta").read_text(encoding="utf-8").split("\n")
    shape = _SHAPE.fullmatch(lines[0].strip())
    if shape is None or len(lines) < 2 or not lines[1].startswith("torch."):  # noqa: PLR2004
        form = "a line torch.Size([…]) and a line torch.<dtype>"
        raise UsageError(f"{str(path.with_suffix('.meta'))!r}: expected {form}")
    sizes = [int(size) for size in shape[1].split(",") if size.strip()]
    dtype = _dtype(lines[1].strip().removeprefix("torch."))
    raw = torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.uint8)
    return raw.view(dtype).reshape(sizes)
