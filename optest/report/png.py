"""The pictures of a report as PNG files, for readers without a browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from optest.errors import UsageError
from optest.report import section
from optest.report.chosen import Chosen

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from optest.report.section import Section

_SAFE = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST = 80  # letters of a part of a file's name
_DPI = 130


def check(folder: Path) -> None:
    """Say early that pictures cannot be written.

    Raises:
        UsageError: matplotlib is not installed, or a file stands in the folder's place.
    """
    from importlib.util import find_spec

    if find_spec("matplotlib") is None:
        raise UsageError("--png: matplotlib is not installed: pip install 'optest[report]'")
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"--png {folder}: this is a file: expected a folder")


def write(chosen: Chosen, folder: Path) -> list[Path]:
    """Write every picture into ``folder``, which is made where it is not there.

    Returns:
        The files, named by test function and picture.

    Raises:
        UsageError: one cannot be written.
    """
    written: list[Path] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, figure in _figures(chosen):
            path = _free(folder, name, written)
            figure.savefig(path, dpi=_DPI, format="png")
            written.append(path)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise UsageError(f"--png {folder}: it cannot be written ({reason})") from None
    return written


def _figures(chosen: Chosen) -> Iterator[tuple[str, Figure]]:
    import matplotlib as mpl

    from optest.report import pictures

    # A case's name is no formula; a letter that the font lacks is drawn as a box.
    with mpl.rc_context({"text.parse_math": False, "axes.unicode_minus": False}):
        for each in section.sections(chosen):
            for kind, figure in pictures.figures(each, chosen):
                yield f"{_name(each)}-{kind}", figure


def _name(each: Section) -> str:
    return each.function or Path(each.file).stem


def _free(folder: Path, name: str, taken: list[Path]) -> Path:
    """A file name of safe letters; numbered where two functions are called alike."""
    stem = "-".join(_SAFE.sub("_", part).strip("._-")[:_LONGEST] for part in name.split("-"))
    path, number = folder / f"{stem}.png", 2
    while path in taken:
        path, number = folder / f"{stem}-{number}.png", number + 1
    return path
