"""Build a task's kernel to an importable extension, in a process of its own with a time limit."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from optest import arch, settings
from optest.errors import BuildError, UsageError
from optest.log import logger
from optest.native import compiler
from optest.testing import child
from optest.testing.child import Ended
from optest.testing.extension_child import NOT_IMPORTABLE, REFUSED, Request, import_extension

Sources = str | Path | Iterable[str | Path]


@dataclass(frozen=True)
class Extension:
    """What is to be built.

    Attributes:
        name: module name, and the namespace of its operators.
        sources: .cpp, .cu or .hip files.
        output_dir: folder that ``<name>.so`` goes to.
        gpu_arch: arch to build for; ``cpu`` for sources without device code.
        timeout_s: seconds that the build may take, import included.
        extra_cflags: added to every compile command.
        extra_ldflags: added to the link command.
    """

    name: str
    sources: tuple[Path, ...]
    output_dir: Path
    gpu_arch: str
    timeout_s: float = 120.0
    extra_cflags: tuple[str, ...] = ()
    extra_ldflags: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        """Where the built module lies."""
        return self.output_dir / f"{self.name}.so"


def build(extension: Extension) -> Path:
    """Build and import it once in a child process; the path of the module.

    Raises:
        BuildError: a compiler's refusal, in its own words and with the command; a module that was
            built and cannot be imported; a build that took too long. What the folder held before
            stays.
    """
    environment = _environment(extension.gpu_arch)
    if settings.get_str("OPTEST_NATIVE") == "off":
        raise BuildError(f"cannot build {extension.name}: OPTEST_NATIVE=off switches compilers off")
    with tempfile.TemporaryDirectory(prefix="optest-build-") as folder:
        progress = Path(folder) / "progress"
        request = Request(
            extension.name,
            tuple(map(str, extension.sources)),
            str(extension.path.absolute()),
            str(progress),
            extension.extra_cflags,
            extension.extra_ldflags,
        )
        begin = time.perf_counter()
        logger.info("building %s for %s ...", extension.path.name, extension.gpu_arch)
        ended = child.run_module(
            ["optest.testing.extension_child"],
            limit_s=extension.timeout_s,
            given=request.to_json(),
            environment=environment,
        )
        reached = progress.read_text() if progress.is_file() else ""
    if reached != "imported" or ended.code:
        raise BuildError(_failure(extension, ended, reached))
    _note_sources(extension)
    seconds = time.perf_counter() - begin
    logger.info("building %s ... %.1f s: %s", extension.path.name, seconds, extension.path)
    return extension.path


def load(name: str, folder: Path) -> ModuleType:
    """Import an extension that was built to ``folder``.

    Raises:
        BuildError: it was not built yet, one of its sources was changed since, or it cannot be
            imported.
    """
    check_name(name)
    path = Path(folder) / f"{name}.so"
    if not path.is_file():
        raise BuildError(f"{path} is not built yet: run the task's build first (python task.py)")
    if changed := _changed_sources(path):
        raise BuildError(
            f"{path} was built before {changed} was changed: tests of it would judge the kernel "
            "that was. Build it again (python task.py)"
        )
    import torch  # noqa: F401 - its libraries are what the extension links to

    try:
        module = import_extension(name, path.resolve())
    except ImportError as error:
        raise BuildError(f"{path} cannot be imported: {error}. Build it again.") from error
    return module


def _note_sources(extension: Extension) -> None:
    """Keep beside a module what it was built from."""
    digests = {str(source): _digest(source) for source in extension.sources}
    _sources_of(extension.path).write_text(json.dumps(digests, indent=1))


def _changed_sources(path: Path) -> str:
    """A source that is no longer what a module was built from; empty where none is known to be."""
    try:
        digests = json.loads(_sources_of(path).read_text())
    except (OSError, ValueError):
        return ""
    for name, digest in digests.items() if isinstance(digests, dict) else ():
        source = Path(name)
        if source.is_file() and _digest(source) != digest:
            return source.name
    return ""


def _sources_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.json")


def _digest(source: Path) -> str:
    return hashlib.sha256(source.read_bytes()).hexdigest()


def check_name(name: str) -> None:
    """Refuse what is no module name, or is that of our own operators.

    Raises:
        UsageError: naming it.
    """
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or name in ("optest", "torch"):
        raise UsageError(f"extension_name={name!r}: expected a name such as relu_kernel")


def find_sources(src: Sources, output_dir: Path) -> tuple[Path, ...]:
    """The source files; a relative one is of the working folder, else of ``output_dir``.

    Raises:
        UsageError: none, a missing one, or one that is no C++, CUDA or HIP.
    """
    listed = [src] if isinstance(src, (str, Path)) else list(src)
    if not listed:
        raise UsageError("src is empty: expected at least one source file")
    return tuple(_source(Path(item), output_dir) for item in listed)


def _source(path: Path, output_dir: Path) -> Path:
    if path.suffix not in compiler.KIND_OF_SUFFIX:
        expected = ", ".join(compiler.KIND_OF_SUFFIX)
        raise UsageError(f"src={str(path)!r}: expected a file that ends in {expected}")
    for candidate in (path, output_dir / path):
        if candidate.is_file():
            return candidate.resolve()
    raise UsageError(f"src={str(path)!r}: there is no such file here or in {output_dir}")


def _environment(gpu_arch: str) -> dict[str, str]:
    """The child's variables: ours, and the arch to build for."""
    environment = dict(os.environ)
    targets = [_target(word) for word in re.split(r"[\s;,]+", gpu_arch.strip()) if word]
    if not targets:
        raise UsageError(
            f"gpu_arch={gpu_arch!r}: expected an arch such as cpu, gfx942 or sm_90; "
            "TestBase.get_machine_gpu_arch() names this machine's"
        )
    wanted = [target for target in targets if target != arch.CPU]
    if wanted and wanted != [arch.get_gfx_runtime()]:
        environment["GPU_ARCHS"] = ";".join(wanted)
    return environment


def _target(word: str) -> str:
    """An arch by our name; a compute capability (``9.0``) is NVIDIA's."""
    name = word.lower()
    if number := re.fullmatch(r"(\d{1,2})\.(\d)", name):
        name = f"sm_{number[1]}{number[2]}"
    if name in arch.KNOWN_GPUS or name in (arch.CPU, str(arch.get_gfx_runtime())):
        return name
    raise UsageError(f"gpu_arch={word!r}: expected cpu, gfx942, sm_90, 9.0 and the like")


def _failure(extension: Extension, ended: Ended, reached: str) -> str:
    name = extension.name
    if ended.code is None:
        return (
            f"building {name} took longer than {extension.timeout_s:g} s and was ended; give "
            f"compile_torch_extension(timeout=…) more. {ended.said}".rstrip()
        )
    if not reached:
        died = f"the process that builds it died ({ended.how})\n" if ended.code != REFUSED else ""
        return f"compilation failed for extension {name!r}: {died}{ended.said}"
    how = "" if ended.code == NOT_IMPORTABLE else f" ({ended.how})"
    return (
        f"compilation succeeded but the built extension {name!r} could not be imported{how}: "
        f"{ended.said}\nAn empty EVOLVE block, or one that registers nothing under this name, is "
        "the usual cause; the compiler and the linker reported no error."
    )
