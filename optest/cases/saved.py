"""``OPTEST_SAVE_FAILED``: the tensors of a failing case, kept as safetensors."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from optest import settings
from optest.cases.dump import save
from optest.log import logger

if TYPE_CHECKING:
    import torch

    from optest.cases.case import Case
    from optest.cases.session import Session

_UNSAFE = re.compile(r"[^A-Za-z0-9._=-]+")
_LONGEST_NAME = 150


def wanted() -> bool:
    """Whether the environment asks for the tensors of failing cases."""
    return settings.get_path("OPTEST_SAVE_FAILED") is not None


def save_pair(session: Session, msg: str, reference: torch.Tensor, candidate: torch.Tensor) -> None:
    """Keep what a failing check compared."""
    folder = settings.get_path("OPTEST_SAVE_FAILED")
    if folder is None or session.expecting_failure:
        return
    name = session.case.id if session.case else "outside"
    _write(folder / safe_name(name) / f"{safe_name(msg or 'check')}.safetensors",
           {"reference": reference, "candidate": candidate})  # fmt: skip


def save_inputs(case: Case) -> None:
    """Keep the tensors that the failing case's candidates could reach."""
    folder = settings.get_path("OPTEST_SAVE_FAILED")
    if folder is None or not case.inputs:
        return
    tensors = {f"tensor_{n}": tensor for n, tensor in enumerate(case.inputs)}
    _write(folder / safe_name(case.id) / "inputs.safetensors", tensors)


def safe_name(text: str) -> str:
    """A file name from any text: no separators, no leading dot, bounded length."""
    return _UNSAFE.sub("_", text)[:_LONGEST_NAME].lstrip(".") or "_"


def _write(path: Path, tensors: dict[str, torch.Tensor]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save(tensors, path)
    except (OSError, RuntimeError, ValueError, TypeError) as error:
        # The failure itself must still be reported, whatever becomes of its tensors.
        logger.error("could not keep the tensors in %s: %s", path, error)
    else:
        logger.info("kept the tensors in %s", path)
