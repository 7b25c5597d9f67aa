"""One op test on one card: what is collected and lowered together, and where it is kept."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import platform
import shutil
import tempfile
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from optest.errors import UsageError
from optest.native.build import cache_dir

FORM = 2  # of a collected unit: raised when it changes, so that older ones are not read


@dataclass(frozen=True)
class Unit:
    """What a child is asked for.

    Attributes:
        path: of the op test.
        target: name of the card.
        words: the op test's command line, None for its defaults.
        smoke: with its SMOKE list before them.
        key: digest of this and of what answers, made by the process that asks.
    """

    path: str
    target: str
    words: tuple[str, ...] | None
    smoke: bool
    key: str

    @classmethod
    def of(cls, path: Path, target: str, words: tuple[str, ...] | None, *, smoke: bool) -> Unit:
        """A unit with its key."""
        asked = (str(path.resolve()), target, words, smoke)
        return cls(*asked, key=_key(asked))

    def to_line(self) -> str:
        """As one line of JSON."""
        return json.dumps(asdict(self)) + "\n"

    @classmethod
    def from_line(cls, line: str) -> Unit:
        """The inverse of ``to_line``."""
        given = json.loads(line)
        words = given.pop("words")
        return cls(words=None if words is None else tuple(words), **given)


def _key(asked: tuple[object, ...]) -> str:
    """Digest of what is asked and of what answers, the files that it reads left out."""
    environment = sorted(
        f"{name}={value}"
        for name, value in os.environ.items()
        if name.startswith(("TRITON_", "OPTEST_SEED", "PYTHONPATH"))
        and name not in ("TRITON_CACHE_DIR", "TRITON_INTERPRET")
    )
    parts = [
        str(FORM),
        repr(asked),
        os.getcwd(),  # noqa: PTH109 - a folder that is gone has no Path
        platform.python_version(),
        *(f"{name} {_version(name)}" for name in ("torch", "triton", "pytorch-triton-rocm")),
        *environment,
    ]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


class Cache:
    """Collected units and compiled kernels on disk, one JSON file each."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or cache_dir() / "lowering"
        self._digest = functools.cache(_digest)

    @property
    def runs(self) -> Path:
        """Where ``--save`` puts records."""
        return self.folder / "runs"

    def unit(self, unit: Unit) -> dict[str, Any] | None:
        """What was collected, unless a file that decided it has changed."""
        found = _read(self._unit(unit))
        if found is None:
            return None
        same = all(self._digest(path) == digest for path, digest in found["files"].items())
        return found if same else None

    def keep_unit(self, unit: Unit, found: dict[str, Any], files: list[str]) -> None:
        """Keep what was collected, with the digests of the files that decided it."""
        digests = {path: self._digest(path) for path in files}
        self._write(self._unit(unit), {**found, "files": digests})

    def kernel(self, key: str) -> dict[str, Any] | None:
        """What came of compiling a kernel."""
        return _read(self._kernel(key))

    def keep_kernel(self, key: str, found: dict[str, Any]) -> None:
        """Keep what came of it."""
        self._write(self._kernel(key), found)

    def clear(self) -> None:
        """Forget every unit and kernel; saved records stay."""
        for name in ("units", "kernels"):
            shutil.rmtree(self.folder / name, ignore_errors=True)

    def lock(self, key: str) -> Path:
        """The file that is locked while a kernel is compiled, so that one process does."""
        path = self.folder / "locks" / key[:2]
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def _unit(self, unit: Unit) -> Path:
        return self.folder / "units" / f"{unit.key}.json"

    def _kernel(self, key: str) -> Path:
        return self.folder / "kernels" / f"{key}.json"

    @staticmethod
    def _write(path: Path, found: dict[str, Any]) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
                json.dump(found, file)
            Path(file.name).replace(path)
        except OSError as error:
            message = f"cannot write {path}: {error.strerror}. Name another: OPTEST_BUILD_DIR"
            raise UsageError(message) from None


def _read(path: Path) -> dict[str, Any] | None:
    """The object of a file; None where there is none, or a torn one."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _digest(path: str) -> str:
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError:
        return ""


@functools.cache
def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""
