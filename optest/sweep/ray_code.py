"""The code that travels with a job: the project's folder, and optest where it is not installed."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from optest.errors import UsageError

_LARGEST_BYTES = 256 << 20
_SHOWN = 3
_LEFT = {".git", ".hg", ".venv", "venv", ".optest", "__pycache__", "node_modules"}
_LEFT_SUFFIXES = ("_cache", ".egg-info")
# Ray would apply these once more to what git has chosen already.
_RULES = {".gitignore", ".rayignore"}
_PACKAGE = Path(__file__).parent.parent


@dataclass(frozen=True)
class Code:
    """A project: ``root`` is what travels, ``folder`` where scripts run, which lies in it."""

    root: Path
    folder: Path

    @classmethod
    def around(cls, folder: Path) -> Code:
        """The git work tree that ``folder`` lies in, else the folder alone."""
        folder = folder.resolve()
        within = (each for each in (folder, *folder.parents) if (each / ".git").exists())
        return cls(next(within, folder), folder)

    @property
    def folder_there(self) -> str:
        """The folder on a node, relative to what arrived."""
        return self.folder.relative_to(self.root).as_posix()

    def file_there(self, file: str) -> str:
        """What a node calls an op test, whose name here is relative to the folder or absolute.

        Raises:
            UsageError: it lies outside the project, so it does not travel.
        """
        path = Path(os.path.normpath(self.folder / file))
        if not path.is_relative_to(self.root):
            raise UsageError(
                f"{file}: it lies outside {self.root}, and only that folder travels to a cluster. "
                "Start the run in the project that holds the op test."
            )
        return PurePosixPath(os.path.relpath(path, self.folder)).as_posix()

    def stage(self, into: Path) -> tuple[Path, list[Path]]:
        """Copy what travels: the project's folder, and the modules that nodes would lack.

        Raises:
            UsageError: it is too large to travel; the message names the largest files.
        """
        files = list(self._files())
        self._refuse_too_large(files)
        project = into / "project"
        project.mkdir()
        for file in files:
            target = project / file.relative_to(self.root)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, target)
        return project, [] if self._brings_optest() else _own_modules(into)

    def _files(self) -> Iterator[Path]:
        names = _known_to_git(self.root)
        if names is None:
            found = _below(self.root)
        else:
            found = (self.root / name for name in names if not _left(name.split("/")))
        # A link out of the project would bring what it does not hold.
        yield from (file for file in found if file.name not in _RULES and self._holds(file))

    def _holds(self, file: Path) -> bool:
        return file.is_file() and file.resolve().is_relative_to(self.root)

    def _refuse_too_large(self, files: list[Path]) -> None:
        sizes = {file: file.stat().st_size for file in files}
        total = sum(sizes.values())
        if total <= _LARGEST_BYTES:
            return
        largest = sorted(files, key=lambda file: -sizes[file])[:_SHOWN]
        shown = ", ".join(f"{f.relative_to(self.root)} ({sizes[f] >> 20} MiB)" for f in largest)
        raise UsageError(
            f"{self.root}: {total >> 20} MiB of files would travel to every node, expected at most "
            f"{_LARGEST_BYTES >> 20} MiB. The largest: {shown}. Name what nodes do not need in "
            ".gitignore, or start the run in a smaller folder outside a repository."
        )

    def _brings_optest(self) -> bool:
        return self.root == _PACKAGE.parent.resolve() or _is_installed(_PACKAGE)


def _is_installed(package: Path) -> bool:
    """Whether it is one of the packages of this Python, as it then is on nodes, not a checkout."""
    return bool({"site-packages", "dist-packages"} & set(package.parts))


def _own_modules(into: Path) -> list[Path]:
    """A checkout of optest, laid out as its wheel is."""
    ignored = shutil.ignore_patterns("__pycache__")
    made = []
    for name in (_PACKAGE.name, "aiter_ref"):
        source = _PACKAGE.parent / name
        if source.is_dir():
            made.append(into / name)
            shutil.copytree(source, made[-1], ignore=ignored)
    kernels = _PACKAGE.parent / "csrc"
    if kernels.is_dir():
        shutil.copytree(kernels, into / _PACKAGE.name / "_csrc", ignore=ignored)
    return made


def _known_to_git(root: Path) -> list[str] | None:
    """Files of a work tree that git does not ignore; None where there is no git to ask."""
    if not (root / ".git").exists() or shutil.which("git") is None:
        return None
    command = ["git", "-C", str(root), "ls-files", "-z", "-co", "--exclude-standard"]
    done = subprocess.run(command, capture_output=True, check=False)  # noqa: S603 - git, found on PATH
    if done.returncode:
        return None
    return sorted({os.fsdecode(name) for name in done.stdout.split(b"\0") if name})


def _below(root: Path) -> Iterator[Path]:
    for top, folders, files in os.walk(root):
        folders[:] = [name for name in folders if not _left([name])]
        yield from (Path(top) / name for name in sorted(files))


def _left(parts: list[str]) -> bool:
    return any(part in _LEFT or part.endswith(_LEFT_SUFFIXES) for part in parts)
