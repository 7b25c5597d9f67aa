"""Small files of ``/proc`` and ``/sys``, any of which may be missing or unreadable."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


class Files:
    """Reads below a root, which is ``/`` but in tests."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root

    def text(self, path: str) -> str:
        """What the file holds, without blanks at its ends; empty where it cannot be read."""
        try:
            return (self._root / path).read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            return ""

    def number(self, path: str) -> int | None:
        """The whole number that the file holds; None where it holds none."""
        try:
            return int(self.text(path))
        except ValueError:
            return None

    def glob(self, pattern: str) -> Iterator[str]:
        """Paths below the root that match, in order."""
        try:
            found = sorted(self._root.glob(pattern))
        except OSError:
            return
        yield from (path.relative_to(self._root).as_posix() for path in found)

    def exists(self, path: str) -> bool:
        """Whether there is such a file or folder."""
        try:
            return (self._root / path).exists()
        except OSError:
            return False

    def fields(self, path: str) -> dict[str, str]:
        """``name: value`` lines up to the first empty one; empty where there is no such file."""
        head = self.text(path).split("\n\n", 1)[0]
        pairs = (line.partition(":") for line in head.splitlines())
        return {name.strip(): value.strip() for name, _, value in pairs}


def numbers(text: str) -> set[int]:
    """``0-2,5`` is 0, 1, 2 and 5, as the kernel lists cores; what is no such list is empty."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        if not first.isdecimal() or (last and not last.isdecimal()):
            return set()
        found.update(range(int(first), int(last or first) + 1))
    return found
