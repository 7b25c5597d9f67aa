"""Load compiled libraries into this process: csrc's families and users' own sources."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optest import settings
from optest.errors import BuildError, UsageError
from optest.log import once
from optest.native import compiler
from optest.native.build import Recipe, build

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

CSRC_NAMESPACE = "optest"
_loaded: dict[str, tuple[Path, int]] = {}
_families: set[str] = set()
_COMMON = ("harness", "compare")
_failed: set[str] = set()
_lock = threading.RLock()


def why_not() -> str | None:
    """Why native code cannot be built here, in one sentence; None where it can."""
    if settings.get_str("OPTEST_NATIVE") == "off":
        return "native code is switched off (OPTEST_NATIVE=off)"
    if compiler.torch_too_old():
        have = compiler.torch_version() or "none"
        return f"native code needs torch 2.10 or later (its stable ABI), found {have}"
    if not (compiler.torch_home() / "include/torch/csrc/stable/library.h").is_file():
        return "native code needs torch's headers (torch/include/torch/csrc/stable), found none"
    try:
        compiler.require(compiler.CXX)
    except BuildError as error:
        return str(error)
    return None


def available() -> bool:
    """Whether native code can be built and loaded here; the first False says why, once."""
    reason = why_not()
    if reason is not None:
        once(f"{reason}: csrc kernels are left out", logging.INFO)
    return reason is None


def csrc(family: str) -> Any:  # noqa: ANN401 - torch types its namespaces no better
    """``torch.ops.optest`` with the operators of ``csrc/<family>.cpp`` in it, built on first use.

    Raises:
        UsageError: there is no such file.
        BuildError: native code is not available here, or the compiler refused the file.
    """
    with _lock:
        if family not in _families:
            settings.get("OPTEST_ISA")  # a bad value is an error here, not in the kernels
            if not family.isidentifier() or not _source(family).is_file():
                raise UsageError(f"csrc family {family!r}: expected one of {_known_families()}")
            _load(_recipe(family), _ahead.start)
            _families.add(family)
    return _namespace(CSRC_NAMESPACE)


def _source(family: str) -> Path:
    return csrc_dir() / f"{family}.cpp"


def _recipe(family: str) -> Recipe:
    # The kernels are vectors already: -O3 builds a fifth longer for the same speed.
    flags = ("-O2", f"-I{csrc_dir() / 'include'}")
    source = _source(family)
    return Recipe(f"{CSRC_NAMESPACE}_{family}", (source,), flags, label=f"csrc/{source.name}")


class _Ahead:
    """Builds what every run asks for, beside the first family that has to be compiled."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin, once a process, where there is a core for it."""
        if self._thread is None and (os.cpu_count() or 1) > 1:
            recipes = [_recipe(family) for family in _COMMON]
            self._thread = threading.Thread(target=self._build, args=(recipes,))
            self._thread.start()

    def wait(self) -> None:
        """Until all of it is there."""
        if self._thread is not None:
            self._thread.join()

    @staticmethod
    def _build(recipes: list[Recipe]) -> None:
        for recipe in recipes:
            with contextlib.suppress(BuildError, OSError):  # who asks for it is told
                build(recipe)


_ahead = _Ahead()


def settle() -> None:
    """Wait until nothing is built any more: what is timed shall not share its cores with that."""
    _ahead.wait()


def csrc_or_none(family: str, otherwise: str) -> Any:  # noqa: ANN401
    """``csrc(family)``, or None where it cannot be had; a build that failed is not tried again.

    Args:
        family: as for ``csrc``.
        otherwise: what is done without it, for the log.
    """
    if family in _failed or not available():
        return None
    try:
        return csrc(family)
    except BuildError as error:
        _failed.add(family)
        once(f"{otherwise}: {error}", logging.WARNING)
        return None


def csrc_dir() -> Path:
    """Sources of the kernels: beside the package in a checkout, inside it when installed."""
    package = Path(__file__).resolve().parents[1]
    checkout = package.parent / "csrc"
    return checkout if (checkout / "include/optest").is_dir() else package / "_csrc"


def _known_families() -> str:
    return ", ".join(sorted(path.stem for path in csrc_dir().glob("*.cpp")))


def load(
    name: str,
    sources: str | Path | Iterable[str | Path],
    *,
    extra_cflags: Iterable[str] = (),
    extra_ldflags: Iterable[str] = (),
) -> Any:  # noqa: ANN401 - torch types its namespaces no better
    """Build a user's own sources, load them, and return ``torch.ops.<name>``.

    The sources register their operators under ``name``: ``STABLE_TORCH_LIBRARY(name, m)`` of
    torch/csrc/stable/library.h builds in seconds; torch/extension.h works too and takes longer.

    Args:
        name: an identifier, the namespace of the operators.
        sources: one or more .cpp (.cc, .cxx), .cu (nvcc) or .hip (hipcc) files, mixed at will.
        extra_cflags: added to every compile command, after ours.
        extra_ldflags: added to the link command, after ours.

    Raises:
        UsageError: a bad name, a missing file, an unknown suffix, a name that this process has
            already loaded from other content, or sources that register nothing under ``name``.
        BuildError: native code is not available here, or a compiler refused a file.
    """
    _check_name(name)
    paths = tuple(_check_source(source) for source in _as_list(sources))
    if not paths:
        raise UsageError(f"load({name!r}): expected at least one source file, got none")
    recipe = Recipe(name, paths, tuple(extra_cflags), tuple(extra_ldflags))
    with _lock:
        _load(recipe)
        if not _registered(name):
            raise UsageError(
                f"load({name!r}): the sources register no operator under {name!r}; "
                f"expected STABLE_TORCH_LIBRARY({name}, m) in one of them"
            )
    return _namespace(name)


def library_path(name: str) -> Path:
    """File that ``load(name, ...)`` or ``csrc(name)`` has loaded into this process.

    Raises:
        UsageError: nothing was loaded under that name.
    """
    for key in (name, f"{CSRC_NAMESPACE}_{name}"):
        if key in _loaded:
            return _loaded[key][0]
    have = ", ".join(sorted(_loaded)) or "none"
    raise UsageError(f"no library {name!r} in this process; loaded: {have}")


def _load(recipe: Recipe, beside: Callable[[], object] | None = None) -> None:
    reason = why_not()
    if reason is not None:
        raise BuildError(f"cannot build {recipe.name}: {reason}")
    path = build(recipe, beside)
    file = (path, path.stat().st_ino)  # a rebuild at the same path is another file
    before = _loaded.get(recipe.name)
    if before == file:
        return
    if before is not None:
        raise UsageError(
            f"{recipe.name!r} is already loaded in this process, built from other content: "
            f"{before[0]}. Operators cannot be registered twice: choose another name or start a "
            "new process."
        )
    import torch

    try:
        torch.ops.load_library(str(path))  # type: ignore[no-untyped-call]
    except (OSError, RuntimeError) as error:
        words = error.__cause__ or error  # torch's own words leave out which symbol is missing
        raise BuildError(f"{recipe.name} was built but does not load: {words}") from error
    _loaded[recipe.name] = file


def _namespace(name: str) -> Any:  # noqa: ANN401
    import torch

    return getattr(torch.ops, name)


def _registered(name: str) -> bool:
    import torch

    operators = torch._C._dispatch_get_all_op_names()  # noqa: SLF001 - there is no public list
    return any(operator.startswith(f"{name}::") for operator in operators)


def _check_name(name: str) -> None:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise UsageError(f"name {name!r}: expected a C++ identifier such as my_kernels")
    if name == CSRC_NAMESPACE:
        raise UsageError(f"name {name!r}: it is the namespace of csrc. Choose another.")


def _as_list(sources: str | Path | Iterable[str | Path]) -> list[Path]:
    if isinstance(sources, (str, Path)):
        return [Path(sources)]
    return [Path(source) for source in sources]


def _check_source(path: Path) -> Path:
    if path.suffix not in compiler.KIND_OF_SUFFIX:
        expected = ", ".join(compiler.KIND_OF_SUFFIX)
        raise UsageError(f"source {str(path)!r}: expected a file that ends in {expected}")
    if not path.is_file():
        raise UsageError(f"source {str(path)!r}: there is no such file")
    return path.resolve()
