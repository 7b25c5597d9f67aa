"""The process that builds a task: ``python -m optest.testing.build_child task.py``."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from optest.errors import OptestError, UsageError
from optest.testing.base import TestBase

_METHODS = ("build", "build_reference")


def build_task(path: Path) -> list[Path]:
    """Call ``build`` and ``build_reference`` of every class of the task that has its own.

    Returns:
        What they made.

    Raises:
        OptestError: whatever the build refuses, and for artifacts that are not there or lie outside
            of the task's folder.
    """
    made: list[Path] = []
    for kind in _classes(_imported(path)):
        kind.validate()
        for method in _METHODS:
            if getattr(kind, method) is not getattr(TestBase, method):
                artifacts = getattr(kind(), method)(kind.get_machine_gpu_arch())
                where = f"{kind.__name__}.{method}"
                made += [_checked(where, artifact, path.parent) for artifact in artifacts or ()]
    return made


def _imported(path: Path) -> ModuleType:
    """The task as a module; its folder is on the import path, as when it runs as a script."""
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _classes(module: ModuleType) -> list[type[TestBase]]:
    return [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, TestBase)
        and value.__module__ == module.__name__
    ]


def _checked(where: str, artifact: object, folder: Path) -> Path:
    if not isinstance(artifact, (str, Path)):
        raise UsageError(f"{where} returned {artifact!r}: expected a list of paths")
    path = Path(artifact).resolve()
    if not path.exists():
        raise UsageError(f"{where} returned {str(artifact)!r}, and there is no such file")
    if not path.is_relative_to(folder.resolve()):
        raise UsageError(f"{where} returned {str(artifact)!r}: expected a path below {folder}")
    return path


def _main() -> int:
    try:
        made = build_task(Path(sys.argv[1]).resolve())
    except OptestError as error:
        print(error, file=sys.stderr)  # noqa: T201 - the parent reads it
        return 1
    for artifact in made:
        print(artifact)  # noqa: T201 - a script's result
    return 0


if __name__ == "__main__":
    sys.exit(_main())
