"""A side: one revision, its files, and what its processes are started from."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import optest
from optest import settings
from optest.ab.revision import Revision
from optest.native.build import cache_dir
from optest.sweep.nursery import Home

SIDES = ("base", "head")
BUDGET_S = "0.2"  # of one measurement: there is one in each round
_OURS = Path(optest.__file__).parent.parent
_BUILDS = {
    "OPTEST_BUILD_DIR": "native",
    "TRITON_CACHE_DIR": "triton",
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "TORCH_EXTENSIONS_DIR": "extensions",
}


@dataclass(frozen=True)
class Side:
    """One of the two.

    Attributes:
        name: base or head.
        root: the top of its worktree.
        folder: what the working folder is there.
        builds: where everything that it compiles is kept.
    """

    name: str
    revision: Revision
    root: Path
    folder: Path
    builds: Path

    def home(self, top: Path) -> Home:
        """What its processes are started from; ``top`` is the checkout that it is a version of.

        Its worktree comes first on their import path. A repository that holds optest itself is
        measured by its own: each side then has the harness of its revision.
        """
        folder = self._own_optest(top)
        made = {name: str(self.builds / each) for name, each in _BUILDS.items()}
        for path in made.values():
            Path(path).mkdir(parents=True, exist_ok=True)
        if folder is None:
            _lend(cache_dir(), Path(made["OPTEST_BUILD_DIR"]))
        if "OPTEST_BUDGET_S" not in settings.given():
            made["OPTEST_BUDGET_S"] = BUDGET_S
        made["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(map(str, self._import_path(top))))
        return Home(folder or _OURS, made)

    def _own_optest(self, top: Path) -> Path | None:
        place = self.root / _OURS.relative_to(top) if _OURS.is_relative_to(top) else self.root
        return place if (place / "optest/__init__.py").is_file() else None

    def _import_path(self, top: Path) -> Iterator[Path]:
        yield self.root
        if (self.root / "src").is_dir():
            yield self.root / "src"
        named = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        for entry in [*named, *sys.path]:
            path = Path(entry)
            if path.is_absolute() and path.is_relative_to(top):
                if (self.root / path.relative_to(top)).is_dir():
                    yield self.root / path.relative_to(top)
            elif entry and entry in named:
                yield path


def _lend(cache: Path, builds: Path) -> None:
    """What this optest has compiled of its own serves both sides: it is no part of either."""
    if cache.is_dir():
        for each in cache.glob("optest_*"):
            if not (builds / each.name).exists():
                (builds / each.name).symlink_to(each.resolve())
