"""The process that builds one extension and imports it: what goes wrong here ends here.

Reads a request from standard input and writes its progress to a file, so that the parent can tell
what was reached whatever becomes of this process.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import shutil
import signal
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType, ModuleType

from optest.errors import BuildError
from optest.native.build import Recipe, build

REFUSED, NOT_IMPORTABLE = 1, 87
_IMPORTABLE = Path(__file__).with_name("importable.cpp")


@dataclass(frozen=True)
class Request:
    """One extension: its name, what it is made of, where it goes, where progress is noted."""

    name: str
    sources: tuple[str, ...]
    output: str
    progress: str
    extra_cflags: tuple[str, ...] = ()
    extra_ldflags: tuple[str, ...] = ()

    def to_json(self) -> str:
        """The request as the child reads it."""
        return json.dumps(asdict(self))


def import_extension(name: str, path: Path) -> ModuleType:
    """The extension module in a file, without looking it up on the import path.

    Raises:
        ImportError: the file defines no such module, lacks a symbol, or registers no operator.
    """
    loader = importlib.machinery.ExtensionFileLoader(name, str(path))
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    if hasattr(module, "__operators__") and not _registers(name):
        raise ImportError(
            f"no source defines a module (PYBIND11_MODULE({name}, m)) or registers an operator "
            f"under {name!r} (STABLE_TORCH_LIBRARY({name}, m))"
        )
    return module


def _registers(name: str) -> bool:
    import torch

    operators = torch._C._dispatch_get_all_op_names()  # noqa: SLF001 - there is no public list
    return any(operator.startswith(f"{name}::") for operator in operators)


def _main() -> int:
    signal.signal(signal.SIGTERM, _leave)
    request = Request(**json.loads(sys.stdin.read()))
    progress = Path(request.progress)
    try:
        library = _build(request)
    except BuildError as error:
        print(error, file=sys.stderr)  # noqa: T201 - the parent reads it
        return REFUSED
    progress.write_text("built")
    import torch  # noqa: F401 - its libraries are what the extension links to

    try:
        import_extension(request.name, library)
    except ImportError as error:
        print(error, file=sys.stderr)  # noqa: T201 - the parent reads it
        return NOT_IMPORTABLE
    output = Path(request.output)
    output.parent.mkdir(parents=True, exist_ok=True)
    # Moved into place: a process that has the old file loaded keeps it.
    partial = output.with_suffix(".so.new")
    shutil.copyfile(library, partial)
    partial.replace(output)
    progress.write_text("imported")
    return 0


def _build(request: Request) -> Path:
    sources = tuple(Path(source) for source in request.sources)
    # torch_python holds what pybind11 modules of torch need; a linker drops it where none is.
    ldflags = ("-ltorch_python", *request.extra_ldflags)
    recipe = Recipe(
        request.name,
        (*sources, _IMPORTABLE),
        tuple(request.extra_cflags),
        ldflags,
        label=f"{request.name} ({', '.join(source.name for source in sources)})",
    )
    return build(recipe)


def _leave(number: int, _frame: FrameType | None) -> None:
    """Leave so that the folders of a half-done build are cleared away."""
    raise SystemExit(128 + number)


if __name__ == "__main__":
    sys.exit(_main())
