"""Which elements a mutant may touch."""

from __future__ import annotations

import pytest
import torch

from optest.mutate.region import region, written


def marked(*rows):
    return torch.tensor([[c == "x" for c in row] for row in rows])


@pytest.mark.parametrize(
    ("rows", "shape"),
    [
        (("xx", "xx"), (2, 2)),
        (("..", "xx"), (1, 2)),
        (("x.x", "x.x"), (2, 2)),
        (("x..", "..x"), (2, 1)),
        (("xxx", "x.."), (4, 1)),  # rows of unequal length have no columns
    ],
)
def test_rows_keep_their_columns(rows, shape):
    assert region(marked(*rows)).index.shape == shape


def test_in_one_dimension_every_element_is_a_row():
    assert region(torch.ones(5, dtype=torch.bool)).index.shape == (5, 1)


def test_nothing_allowed_is_no_region():
    assert region(torch.zeros(3, 4, dtype=torch.bool)) is None


def test_an_element_that_was_written_to_what_it_held_belongs_to_its_row():
    changed = torch.ones(3, 40, dtype=torch.bool)
    changed[0, 7] = False
    changed[1] = False
    assert written(changed, exact=False).sum(1).tolist() == [40, 0, 40]
    assert written(changed, exact=True).sum(1).tolist() == [39, 0, 40]


def test_writing_goes_into_the_memory_itself_whatever_its_strides():
    memory = torch.zeros(4, 3, dtype=torch.int32)
    view = memory.t()[1:]
    place = region(torch.tensor([[False, True, False, False], [False, False, False, True]]))
    place.write(view, place.read(view) + 7)
    assert memory.nonzero().tolist() == [[1, 1], [3, 2]]
