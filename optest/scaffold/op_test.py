"""A new op test: its text, and the file."""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Sequence
from pathlib import Path
from string import Template

from optest.errors import UsageError
from optest.scaffold.template import TEXT

_MOST_AXES = 6
_ARCH = re.compile(r"_(gfx[0-9a-f]+|sm_?[0-9]+[a-z]?)(_|$)")
# First axis, those between, last axis: a quick run, then what a model has.
_SMOKE, _SIZES = (16, 4, 256), ((16, 2, 4096), (256, 2, 4096))
_SMOKE_ALONE, _SIZES_ALONE = 4096, (65536, 4194304)  # of an op with one axis
_COLUMNS = {"gfx"}  # an axis of that name would be a second column of it


FOLDER = Path("op_tests")


def write(op: str, shape: str, folder: Path | None = None) -> Path:
    """Write ``test_<op>.py`` into ``folder`` and return its path; a file there is never replaced.

    Args:
        op: the operator's name, such as ``fused_add``.
        shape: its axes, separated by commas, such as ``m,n,k``.
        folder: an existing folder; None is ``op_tests`` here, made where it is not there.

    Raises:
        UsageError: a name that cannot be one, a folder that is not there, or a file that is.
    """
    text = render(_operator(op), _axes(op, shape))
    if folder is not None and not folder.is_dir():
        raise UsageError(f"--out {str(folder)!r}: there is no such folder; make it first")
    path = (folder or FOLDER) / f"test_{op}.py"
    try:
        path.parent.mkdir(exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise UsageError(f"{error.filename!r} is there already: choose another name") from None
    except OSError as error:
        raise UsageError(f"{str(path)!r} cannot be written: {error.strerror}") from None
    return path


def render(op: str, axes: Sequence[str]) -> str:
    """The op test of ``op`` over ``axes``, as text."""
    return Template(TEXT).substitute(
        op=op,
        axes=", ".join(axes),
        form=",".join(axes),
        shape=", ".join(axes) + ("," if len(axes) == 1 else ""),
        last=axes[-1],
        count=len(axes),
        smoke=",".join(map(str, _sizes(len(axes), _SMOKE, _SMOKE_ALONE))),
        shapes=", ".join(
            str(_sizes(len(axes), sizes, alone))
            for sizes, alone in zip(_SIZES, _SIZES_ALONE, strict=True)
        ),
    )


def _sizes(count: int, sizes: tuple[int, int, int], alone: int) -> tuple[int, ...]:
    first, between, last = sizes
    return (alone,) if count == 1 else (first, *[between] * (count - 2), last)


def _operator(op: str) -> str:
    if op.startswith("test_"):
        raise UsageError(f"OP {op!r}: leave test_ off, the file is named test_<op>.py anyhow")
    if not _is_identifier(op):
        raise UsageError(
            f"OP {op!r}: expected a name of letters, digits and _ that does not begin with a "
            "digit, such as fused_add; the folder is given by --out"
        )
    arch = _ARCH.search(op)
    if arch is not None:
        raise UsageError(
            f"OP {op!r}: one file covers all cards, leave _{arch[1]} off and let the kernel's "
            "wrapper dispatch by get_gfx()"
        )
    return op


def _axes(op: str, shape: str) -> list[str]:
    axes = [part.strip() for part in shape.split(",")]
    if not 1 <= len(axes) <= _MOST_AXES:
        raise UsageError(f"--shape {shape!r}: expected 1 to {_MOST_AXES} axes, got {len(axes)}")
    taken = _names_of(render(op, ["_"])) | _COLUMNS
    for axis in axes:
        if not _is_identifier(axis) or keyword.iskeyword(axis):
            raise UsageError(
                f"--shape {shape!r}: {axis!r} cannot be the name of an axis: expected names "
                "separated by commas, such as m,n,k"
            )
        if axes.count(axis) > 1:
            raise UsageError(f"--shape {shape!r}: {axis!r} stands there twice")
        if axis in taken:
            raise UsageError(f"--shape {shape!r}: the file itself uses {axis!r}; name it otherwise")
    return axes


def _is_identifier(name: str) -> bool:
    return name.isascii() and name.isidentifier()


def _names_of(text: str) -> set[str]:
    """Every name that the file binds or reads."""
    nodes = list(ast.walk(ast.parse(text)))
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    names |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    names |= {node.name for node in nodes if isinstance(node, (ast.FunctionDef, ast.alias))}
    return names - {"_"}
