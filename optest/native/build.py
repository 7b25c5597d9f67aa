"""Turn sources into one cached shared library: built once per content, by one process at a time."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from optest import settings
from optest.errors import BuildError
from optest.log import logger
from optest.native import compiler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_MANIFEST = "manifest.json"
_LINES_SHOWN = 60


@dataclass(frozen=True)
class Recipe:
    """What a library is made of. ``label`` is how the progress line calls it."""

    name: str
    sources: tuple[Path, ...]
    extra_cflags: tuple[str, ...] = ()
    extra_ldflags: tuple[str, ...] = ()
    label: str = ""

    def kinds(self) -> set[str]:
        """Compilers that the sources need, by the files' suffixes."""
        return {compiler.KIND_OF_SUFFIX[source.suffix] for source in self.sources}

    def commands(self) -> list[list[str]]:
        """One compile command a source, without input, output and dependency file."""
        made = []
        for source in self.sources:
            kind = compiler.KIND_OF_SUFFIX[source.suffix]
            flags = compiler.compile_flags(kind, self.name)
            made.append([*compiler.require(kind).command, *flags, *self.extra_cflags])
        return made

    def link_command(self) -> list[str]:
        """The command that joins the objects, without them and the output."""
        flags = [*compiler.link_flags(self.kinds()), *self.extra_ldflags]
        linker = compiler.HIPCC if compiler.HIPCC in self.kinds() else compiler.CXX
        return [*compiler.require(linker).command, "-shared", *flags]

    def key(self) -> str:
        """Digest of sources, commands, compilers, torch, machine; headers are in the manifest."""
        digest = hashlib.sha256()
        parts = [self.name, compiler.torch_version(), platform.machine(), *self.link_command()]
        parts += [compiler.require(kind).version for kind in sorted({*self.kinds(), compiler.CXX})]
        for source, command in zip(self.sources, self.commands(), strict=True):
            parts += [str(source), _digest(source), *command]
        for part in parts:
            digest.update(part.encode() + b"\0")
        return digest.hexdigest()[:20]


def cache_dir() -> Path:
    """``OPTEST_BUILD_DIR``, else ``optest`` in ``XDG_CACHE_HOME``, else ``~/.cache/optest``."""
    named = settings.get_path("OPTEST_BUILD_DIR")
    if named is not None:
        return named
    xdg = os.environ.get("XDG_CACHE_HOME", "").strip()
    return (Path(xdg) if xdg else Path.home() / ".cache") / "optest"


def build(recipe: Recipe, beside: Callable[[], object] | None = None) -> Path:
    """Path of the library, built unless the cache holds it whole and unchanged.

    Args:
        recipe: what it is made of.
        beside: called before a compiler starts, where one has to.

    Raises:
        BuildError: no compiler, a compiler's refusal (with its words and the command), or a cache
            folder that cannot be written.
    """
    folder = cache_dir() / f"{recipe.name}-{recipe.key()}"
    library = folder / f"{recipe.name}.so"
    if _is_valid(folder, library):
        return library
    if beside is not None:
        beside()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _locked(folder / "lock"):
            if not _is_valid(folder, library):
                _build_into(folder, library, recipe)
    except OSError as error:
        message = f"cannot write the build cache {folder}: {error}. Name another: OPTEST_BUILD_DIR"
        raise BuildError(message) from error
    return library


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            logger.info("waiting for another build of %s", path.parent.name)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _is_valid(folder: Path, library: Path) -> bool:
    """Whether library and headers are those of the manifest; a torn or altered file is not."""
    try:
        manifest = json.loads((folder / _MANIFEST).read_text())
        return manifest["library"] == _digest(library) and all(
            _digest(Path(path)) == digest for path, digest in manifest["headers"].items()
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def _build_into(folder: Path, library: Path, recipe: Recipe) -> None:
    label = recipe.label or ", ".join(source.name for source in recipe.sources)
    logger.info("building %s ...", label)
    begin = time.perf_counter()
    work = Path(tempfile.mkdtemp(prefix="build-", dir=folder))
    try:
        objects = _compile_all(work, recipe)
        made = work / library.name
        _run([*_with_inputs(recipe.link_command(), objects), "-o", str(made)], label)
        manifest = {"library": _digest(made), "headers": _headers(work, recipe.sources)}
        (work / _MANIFEST).write_text(json.dumps(manifest, indent=1))
        # The manifest last: until it is there, the new library is not taken for valid.
        made.replace(library)
        (work / _MANIFEST).replace(folder / _MANIFEST)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    logger.info("building %s ... %.1f s", label, time.perf_counter() - begin)


def _with_inputs(link: list[str], objects: list[Path]) -> list[str]:
    """Objects before the libraries, as linkers that drop unneeded libraries want them."""
    at = link.index("-shared") + 1
    return [*link[:at], *map(str, objects), *link[at:]]


def _compile_all(work: Path, recipe: Recipe) -> list[Path]:
    def compile_one(index: int) -> Path:
        source, out = recipe.sources[index], work / f"{index}.o"
        dependencies = ["-MMD", "-MF", str(work / f"{index}.d")]
        command = [*commands[index], *dependencies, "-c", str(source), "-o", str(out)]
        _run(command, source.name)
        return out

    commands = recipe.commands()
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        return list(pool.map(compile_one, range(len(commands))))


def _run(command: list[str], what: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode != 0:
        words = _first_lines((done.stderr + done.stdout).strip())
        raise BuildError(
            f"building {what} failed (exit code {done.returncode}):\n{words}\n"
            f"command: {shlex.join(command)}"
        )
    if done.stderr.strip():
        logger.debug("building %s: %s", what, done.stderr.strip())


def _first_lines(text: str) -> str:
    """The first error is the one to read; template errors run to thousands of lines."""
    lines = text.splitlines()
    left_out = len(lines) - _LINES_SHOWN
    return text if left_out <= 0 else "\n".join([*lines[:_LINES_SHOWN], f"({left_out} more lines)"])


def _headers(work: Path, sources: tuple[Path, ...]) -> dict[str, str]:
    """Digests of the headers read, from the dependency files; those leave system headers out."""
    found: dict[str, str] = {}
    for index, source in enumerate(sources):
        text = (work / f"{index}.d").read_text().replace("\\\n", " ")
        for word in shlex.split(text.partition(":")[2]):
            path = Path(word).resolve()
            if path != source and path.is_file():
                found[str(path)] = _digest(path)
    return found
