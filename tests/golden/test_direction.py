"""Directions by annotation, in every way that one can be written."""

from __future__ import annotations

from typing import Annotated

import pytest
import torch

from optest.golden.direction import Annotation, In, InOut, Out, annotations_of, read


class Foreign:
    """A marker of another package: subscripting gives the class, an instance, or an alias."""

    class Out:
        def __class_getitem__(cls, item):
            return cls

    class InOut:
        def __class_getitem__(cls, item):
            return cls()

    class Tensor:
        pass


@pytest.mark.parametrize(
    ("annotation", "direction"),
    [
        (In[torch.Tensor], "in"),
        (Out[torch.Tensor], "out"),
        (InOut[torch.Tensor], "inout"),
        (In, "in"),
        (Out, "out"),
        (InOut, "inout"),
        (Out[...], "out"),
        (Annotated[torch.Tensor, Out], "out"),
        (Annotated[torch.Tensor, "words", InOut[...]], "inout"),
        (Foreign.Out, "out"),
        (Foreign.Out[...], "out"),
        (Foreign.InOut[4], "inout"),
        ("Out", "out"),
        ("pl.Out[...]", "out"),
        ("pl.InOut[pl.Tensor[[T, D], pl.BF16]]", "inout"),
        ("Annotated[torch.Tensor, Out]", "out"),
        ("typing.Annotated[Tensor, In[...]]", "in"),
        ("'Out[int]'", "out"),
        (torch.Tensor, None),
        (Foreign.Tensor, None),
        (int, None),
        (Annotated[torch.Tensor, "words"], None),
        ("torch.Tensor", None),
        ("Output[x]", None),
        ("no python", None),
        ("Annotated[Out]", None),
        (None, None),
    ],
)
def test_what_one_annotation_says(annotation, direction):
    assert read(annotation).direction == direction


@pytest.mark.parametrize(
    ("annotation", "said"),
    [
        (Out[[-1, 128], torch.bfloat16], Annotation("out", (-1, 128), torch.bfloat16)),
        (In[(4,), torch.int32], Annotation("in", (4,), torch.int32)),
        (In[["T", 4], torch.int32], Annotation("in", None, torch.int32)),
        (In[[4], "fp32"], Annotation("in", (4,), None)),
    ],
)
def test_shapes_and_dtypes_between_the_brackets(annotation, said):
    assert read(annotation) == said


def test_annotations_that_are_text_are_evaluated_where_their_names_exist():
    def kernel(x, y: Out[[-1, 8], torch.float32], n: int) -> None: ...

    assert isinstance(kernel.__annotations__["y"], str)
    assert annotations_of(kernel) == {
        "y": Annotation("out", (-1, 8), torch.float32),
        "n": Annotation(),
    }


def test_annotations_whose_names_exist_for_nobody_are_still_read():
    def kernel(x: elsewhere.In[torch.Tensor], y: elsewhere.Out[...]) -> None: ...  # noqa: F821

    assert {n: a.direction for n, a in annotations_of(kernel).items()} == {"x": "in", "y": "out"}
