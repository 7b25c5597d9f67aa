"""The marked blocks of a task: ``[EVOLVE_START]`` … ``[EVOLVE_END]`` and their kin.

A marker may stand anywhere in a line, behind whatever the language takes for a comment; the block
is what lies between the two lines. A file may hold several blocks of a kind.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from optest.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

KEYS = ("EVOLVE", "REFERENCE", "USER_INSTRUCTIONS")

# What may hold a block: sources of the languages that kernels are written in, and plain text.
_SUFFIXES = frozenset(
    """
    .py .c .cc .cpp .cxx .h .hh .hpp .hxx .inl .cu .cuh .hip .cl .cm .comp .sycl
    .md .txt .yml .yaml .json .toml .ini .cfg .cmake .sh .bat .cmd .ps1
    """.split()
)


@dataclass(frozen=True)
class _Block:
    """Lines ``first`` up to, not including, ``last``: what lies between the markers."""

    first: int
    last: int


def get_block(task: str | Path, key: str) -> dict[str, list[str]]:
    """Every block of a kind.

    Args:
        task: the folder of a task, searched with all below it, or one of its files.
        key: ``EVOLVE``, ``REFERENCE`` or ``USER_INSTRUCTIONS``.

    Returns:
        For each file that holds such blocks, by its path below the folder, their texts in order,
        without blank lines at either end. Files without one are left out.

    Raises:
        ValueError: an unknown key, no such file or folder, or markers that are nested, unmatched or
            on one line; the message names the file and the line.
    """
    _check_key(key)
    found = {}
    for path, name in _files(Path(task)):
        lines = _read(path)
        blocks = _blocks(lines, key, path)
        if blocks:
            found[name] = [_trimmed(lines[block.first : block.last]) for block in blocks]
    return found


def update_block(
    task: str | Path, key: str, path: str | Path, content: str, block_index: int = 0
) -> None:
    """Put ``content`` between the markers of one block; everything else stays, byte for byte.

    Args:
        task: the folder of the task.
        key: as for ``get_block``.
        path: the file, below the folder.
        content: the new lines; a line end is added where the last has none.
        block_index: which of the file's blocks of that kind, from 0.

    Raises:
        ValueError: as ``get_block``, and for a path outside the folder, for content with a marker
            of the same kind in it, and for a block that the file does not have.
    """
    _check_key(key)
    root = Path(task).resolve()
    file = (root / path).resolve()
    if not file.is_relative_to(root):
        raise UsageError(f"{str(path)!r}: expected a file below the task's folder {root}")
    if any(marker in content for marker in _markers(key)):
        held = " or ".join(_markers(key))
        raise UsageError(f"the new content holds a marker of its own ({held}): leave it out")
    lines = _read(file)
    blocks = _blocks(lines, key, file)
    if not 0 <= block_index < len(blocks):
        raise UsageError(f"{file}: no {key} block {block_index}: it has {len(blocks)}")
    block = blocks[block_index]
    text = content if not content or content.endswith("\n") else content + "\n"
    _write(file, "".join([*lines[: block.first], text, *lines[block.last :]]))


def _markers(key: str) -> tuple[str, str]:
    return f"[{key}_START]", f"[{key}_END]"


def _check_key(key: str) -> None:
    if key not in KEYS:
        raise UsageError(f"block {key!r}: expected one of {', '.join(KEYS)}")


def _files(task: Path) -> Iterator[tuple[Path, str]]:
    if task.is_file():
        yield task, task.name
        return
    if not task.is_dir():
        raise UsageError(f"{str(task)!r}: there is no such file or folder")
    for path in sorted(task.rglob("*")):
        below = path.relative_to(task)
        # Caches and checkouts hold copies of the task's files, not files of the task.
        hidden = any(part.startswith(".") or part == "__pycache__" for part in below.parts)
        if not hidden and path.suffix in _SUFFIXES and path.is_file():
            yield path, below.as_posix()


def _read(path: Path) -> list[str]:
    """The lines, each with the ending it has."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return file.readlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = "not UTF-8 text" if isinstance(error, UnicodeDecodeError) else error.strerror
        raise UsageError(f"{path}: cannot be read ({reason})") from None


def _write(path: Path, text: str) -> None:
    """Replace the file at once: a run that is killed leaves the old one whole."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        Path(name).chmod(path.stat().st_mode)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _blocks(lines: list[str], key: str, path: Path) -> list[_Block]:
    start, end = _markers(key)
    found: list[_Block] = []
    opened: int | None = None
    for number, line in enumerate(lines, start=1):
        if start in line and end in line:
            raise UsageError(f"{path}:{number}: {start} and {end} on one line: give each its own")
        if start in line:
            if opened is not None:
                raise UsageError(f"{path}:{number}: {start} inside the block of line {opened}")
            opened = number
        elif end in line:
            if opened is None:
                raise UsageError(f"{path}:{number}: {end} without a {start} before it")
            found.append(_Block(opened, number - 1))
            opened = None
    if opened is not None:
        raise UsageError(f"{path}:{opened}: {start} without an {end} after it")
    return found


def _trimmed(lines: list[str]) -> str:
    filled = [index for index, line in enumerate(lines) if line.strip()]
    return "".join(lines[filled[0] : filled[-1] + 1]) if filled else ""
