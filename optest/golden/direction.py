"""Directions: which tensors a kernel reads and which it writes, where its annotations say so.

Mark parameters as ``x: In[torch.Tensor]``, ``y: Out[torch.Tensor]``, ``z: InOut[torch.Tensor]``,
bare as ``y: Out``, as ``y: Annotated[torch.Tensor, Out]``, or with what the kernel takes:
``y: Out[[-1, 128], torch.bfloat16]`` (-1 is any size). Markers of other packages are recognised
by their names, and annotations that are text are read even where they cannot be evaluated. In a
Triton kernel write them as text, ``y: "Out"``: Triton's compiler refuses others.
"""

from __future__ import annotations

import ast
import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

if TYPE_CHECKING:
    import torch

_BY_NAME = {"In": "in", "Out": "out", "InOut": "inout"}
_PAIR = 2
_T = TypeVar("_T")


@dataclass(frozen=True)
class Marked:
    """What ``Out[...]`` makes: a direction, and what was between the brackets."""

    direction: str
    of: object


if TYPE_CHECKING:
    In = Annotated[_T, "in"]
    Out = Annotated[_T, "out"]
    InOut = Annotated[_T, "inout"]
else:

    class In:
        """The kernel reads the tensor and leaves it as it is."""

        def __class_getitem__(cls, of: object) -> Marked:
            return Marked("in", of)

    class Out:
        """The kernel writes the tensor and does not read what it held."""

        def __class_getitem__(cls, of: object) -> Marked:
            return Marked("out", of)

    class InOut:
        """The kernel reads the tensor and writes it."""

        def __class_getitem__(cls, of: object) -> Marked:
            return Marked("inout", of)


@dataclass(frozen=True)
class Annotation:
    """What one annotation says: a direction, a shape (-1 is any size), a dtype; None where not."""

    direction: str | None = None
    shape: tuple[int, ...] | None = None
    dtype: torch.dtype | None = None


def annotations_of(fn: Callable[..., object]) -> dict[str, Annotation]:
    """What the annotations of ``fn``'s parameters say, for those that have one."""
    written = dict(getattr(fn, "__annotations__", {}))
    written.pop("return", None)
    evaluated = _evaluated(fn) if any(isinstance(a, str) for a in written.values()) else {}
    return {name: read(evaluated.get(name, written[name])) for name in written}


def _evaluated(fn: Callable[..., object]) -> Mapping[str, object]:
    """Annotations that are text, as objects; none where a name in them exists only for checkers."""
    try:
        return inspect.get_annotations(fn, eval_str=True)
    except Exception:  # noqa: BLE001 - whatever the names in them raise; the text is read instead
        return {}


def read(annotation: object) -> Annotation:
    """What one annotation, an object or its text, says."""
    if isinstance(annotation, str):
        return Annotation(_direction_of_text(annotation))
    if typing.get_origin(annotation) is Annotated:
        said = [read(part) for part in typing.get_args(annotation)[1:]]
        return next((one for one in said if one.direction), Annotation())
    if isinstance(annotation, Marked):
        shape, dtype = _shape_and_dtype(annotation.of)
        return Annotation(annotation.direction, shape, dtype)
    return Annotation(_direction_of_object(annotation))


def _direction_of_object(annotation: object) -> str | None:
    """By the name of the class, bare or subscripted, or of the class of a marker object."""
    candidates = (annotation, typing.get_origin(annotation), type(annotation))
    names = (getattr(one, "__name__", None) for one in candidates)
    return next((_BY_NAME[name] for name in names if name in _BY_NAME), None)


def _direction_of_text(text: str) -> str | None:
    try:
        node = ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        return None
    return _direction_of_node(node)


def _direction_of_node(node: ast.expr) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return _direction_of_text(node.value)  # quotes inside an annotation that is text already
    head = node.value if isinstance(node, ast.Subscript) else node
    name = head.attr if isinstance(head, ast.Attribute) else getattr(head, "id", "")
    if name == "Annotated" and isinstance(node, ast.Subscript):
        parts = node.slice.elts[1:] if isinstance(node.slice, ast.Tuple) else []
        return next(filter(None, map(_direction_of_node, parts)), None)
    return _BY_NAME.get(name)


def _shape_and_dtype(of: object) -> tuple[tuple[int, ...] | None, torch.dtype | None]:
    if not (isinstance(of, tuple) and len(of) == _PAIR):
        return None, None
    import torch  # a kernel is marked, and imported by others, without it

    sizes: Any = of[0]
    dtype = of[1] if isinstance(of[1], torch.dtype) else None
    if isinstance(sizes, (list, tuple)) and all(type(size) is int for size in sizes):
        return tuple(sizes), dtype
    return None, dtype
