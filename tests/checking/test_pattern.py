"""Where mismatches lie, in words: a wrong description sends its reader to the wrong line."""

from __future__ import annotations

import pytest
import torch

from optest.checking import compare

# id: shape, index that is overwritten, words
PATTERNS = {
    "element": ((64, 96), (5, 7), "one element, [5, 7]"),
    "only": ((1,), (0,), "the only element"),
    "all": ((64, 96), slice(None), "every element"),
    "last row": ((4096, 64), 4095, "row 4095 only"),
    "rows": ((64, 96), slice(8, 16), "rows 8 to 15 only"),
    "two rows": ((64, 96), [3, 40], "rows 3, 40 only"),
    "last rows": ((64, 96), slice(60, None), "the last 4 rows (from 60) only"),
    "column": ((64, 96), (slice(None), 9), "column 9 only"),
    "every 2nd column": (
        (64, 96), (slice(None), slice(0, None, 2)), "every 2nd column (from 0) only",
    ),
    "every 4th row": ((64, 96), slice(3, None, 4), "every 4th row (from 3) only"),
    "tile": ((256, 256), (slice(64, 128), slice(32, 64)), "rows 64 to 127, columns 32 to 63 only"),
    "last tile": (
        (256, 256), (slice(192, None), slice(224, None)),
        "the last 64 rows (from 192), the last 32 columns (from 224) only",
    ),
    "batch": ((8, 32, 32), 3, "dim-0 index 3 only"),
    "1-d tail": ((1000,), slice(960, None), "the last 40 elements (from 960) only"),
    "large tail": (
        (1 << 20,), slice(300_000, None), "the last 748576 elements (from 300000) only",
    ),
    "large every 2nd": (
        (2048, 512), (slice(None), slice(1, None, 2)), "every 2nd column (from 1) only",
    ),
    "large last row": ((2048, 512), 2047, "row 2047 only"),
    "large half": ((2048, 512), slice(0, 1024), "rows 0 to 1023 only"),
}  # fmt: skip


@pytest.mark.parametrize("name", PATTERNS)
def test_pattern(name):
    shape, index, words = PATTERNS[name]
    a = torch.ones(shape)
    b = a.clone()
    b[index] = 3.0
    assert compare(a, b).pattern == words


def test_a_tail_that_starts_within_a_row():
    a = torch.ones(64, 96)
    b = a.clone()
    b.view(-1)[40 * 96 + 17 :] = 3.0
    assert compare(a, b).pattern == "the tail from [40, 17] on, 2287 elements"


def test_a_run_and_a_head():
    a = torch.ones(64, 96)
    run, head = a.clone(), a.clone()
    run.view(-1)[130:420] = 3.0
    head.view(-1)[:420] = 3.0
    assert compare(a, run).pattern == "a run from [1, 34] to [4, 35], 290 elements"
    assert compare(a, head).pattern == "the head up to [4, 35], 420 elements"


def test_scattered_errors_are_not_given_a_shape():
    a = torch.ones(512, 512)
    b = a.clone()
    b[torch.rand(512, 512, generator=torch.Generator().manual_seed(0)) < 0.01] = 3.0
    assert compare(a, b).pattern == "scattered"


def test_a_tile_where_some_values_happen_to_match():
    """Zeros left unwritten match the reference's zeros; the tile is still the finding."""
    a = torch.ones(256, 256)
    a[::8] = 0.0
    b = a.clone()
    b[128:192, 64:128] = 0.0
    assert compare(a, b).pattern == (
        "rows 129 to 191, columns 64 to 127 only (89% of the elements there)"
    )


def test_the_index_is_the_callers_not_memorys():
    """Both transposed alike are walked as they lie in memory; row and column must not swap."""
    a = torch.ones(300, 400).t()
    b = torch.ones(300, 400).t()
    b[7, 200:] = 3.0
    verdict = compare(a, b)
    assert verdict.pattern == "row 7, the last 100 columns (from 200) only"
    assert verdict.worst.index == (7, 200)
