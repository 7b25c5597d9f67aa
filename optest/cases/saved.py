"""``OPTEST_SAVE_FAILED``: the tensors of a failing case, kept as safetensors."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import TYPE_CHECKING

from optest import settings
from optest.cases.dump import save
from optest.log import logger

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch

    from optest.cases.case import Case
    from optest.cases.session import Session

_UNSAFE = re.compile(r"[^A-Za-z0-9._=-]+")
_LONGEST_NAME = 150

# What this process has named: the same name twice is two failures, and both are kept. What an
# earlier process left under a name is replaced.
_folders: dict[Path, str] = {}
_files: set[Path] = set()


def wanted() -> bool:
    """Whether the environment asks for the tensors of failing cases."""
    return settings.get_path("OPTEST_SAVE_FAILED") is not None


def save_pair(session: Session, msg: str, reference: torch.Tensor, candidate: torch.Tensor) -> None:
    """Keep what a failing check compared."""
    folder = settings.get_path("OPTEST_SAVE_FAILED")
    if folder is None or session.expecting_failure:
        return
    name = session.case.id if session.case else "outside"
    tensors = {"reference": reference, "candidate": candidate}
    _write(_folder_of(folder, name), safe_name(str(msg) or "check"), tensors)


def save_inputs(case: Case) -> None:
    """Keep the tensors that the failing case's candidates could reach."""
    folder = settings.get_path("OPTEST_SAVE_FAILED")
    if folder is None or not case.inputs:
        return
    tensors = {f"tensor_{n}": tensor for n, tensor in enumerate(case.inputs)}
    _write(_folder_of(folder, case.id), "inputs", tensors)


def safe_name(text: str) -> str:
    """A file name from any text: no separators, no leading dot, bounded length."""
    return _UNSAFE.sub("_", text)[:_LONGEST_NAME].lstrip(".") or "_"


def _folder_of(parent: Path, identity: str) -> Path:
    """A folder for each id, ``-2`` … where two ids make the same name."""
    numbered = _numbered(parent, safe_name(identity))
    return next(path for path in numbered if _folders.setdefault(path, identity) == identity)


def _numbered(parent: Path, name: str, ending: str = "") -> Iterator[Path]:
    yield parent / f"{name}{ending}"
    for n in itertools.count(2):
        yield parent / f"{name}-{n}{ending}"


def _write(folder: Path, name: str, tensors: dict[str, torch.Tensor]) -> None:
    numbered = _numbered(folder, name, ".safetensors")
    path = next(path for path in numbered if path not in _files)
    _files.add(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save(tensors, path)
    except (OSError, RuntimeError, ValueError, TypeError) as error:
        # The failure itself must still be reported, whatever becomes of its tensors.
        logger.error("could not keep the tensors in %s: %s", path, error)
    else:
        logger.info("kept the tensors in %s", path)
