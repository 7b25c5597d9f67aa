"""What a sweep leaves out, and what it says of a filter that matches nothing."""

from __future__ import annotations

import pytest

from optest.errors import UsageError
from optest.store.records import Planned
from optest.sweep.filters import Filters


def unit(file, function, inside, where=""):
    return Planned(f"{file}::{function}[{inside}]", f"ops/{file}", function, where=where)


UNITS = [
    unit("test_a.py", "test_gemm", "m=1"),
    unit("test_a.py", "test_gemm", "m=16"),
    unit("test_a.py", "test_norm", "m=1"),
    Planned("test_whole.py", "ops/test_whole.py"),
]
NAMES = ["ops/test_gemm.py", "ops/test_norm.py", "other/test_norm.py"]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, [0, 1, 2, 3]),
        ({"keep": "m=1]"}, [0, 2]),
        ({"keep": "gemm*m=1"}, [0, 1]),
        ({"keep": "[m=1?]"}, [1]),
        ({"keep": "whole"}, [3]),
        ({"function": "test_gemm"}, [0, 1]),
        ({"function": "*norm"}, [2]),
        ({"function": "test_gemm", "keep": "m=16"}, [1]),
    ],
)
def test_wild_characters_are_wild_and_brackets_are_brackets(filters, expected):
    assert Filters(**filters).cases(UNITS, "cpu") == [UNITS[at] for at in expected]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("test_norm.py", ["ops/test_norm.py", "other/test_norm.py"]),
        ("ops/test_norm.py", ["ops/test_norm.py"]),
        ("*norm*", ["ops/test_norm.py", "other/test_norm.py"]),
        ("ops/*", ["ops/test_gemm.py", "ops/test_norm.py"]),
    ],
)
def test_files_are_known_by_their_name_and_by_their_path(pattern, expected):
    assert Filters(file=pattern).files(NAMES) == expected


@pytest.mark.parametrize(
    ("filters", "words"),
    [
        ({"keep": "tset_gemm"}, r"-k 'tset_gemm' matches no case: did you mean test_gemm"),
        ({"keep": "zzzzzzzz"}, r"-k 'zzzzzzzz' matches no case: expected a part of test_gemm"),
        ({"function": "gemm"}, r"--function 'gemm' matches no test function: did you mean test_"),
        (
            {"function": "test_norm", "keep": "m=16"},
            "no case matches both -k 'm=16' and --function 'test_norm'",
        ),
    ],
)
def test_a_filter_that_matches_nothing_is_an_error_that_names_close_ones(filters, words):
    with pytest.raises(UsageError, match=words):
        Filters(**filters).cases(UNITS, "cpu")


def test_a_file_that_is_not_there_is_an_error_that_names_close_ones():
    with pytest.raises(UsageError, match=r"did you mean test_norm\.py"):
        Filters(file="test_nrom.py").files(NAMES)


def test_arch_leaves_what_runs_there_and_is_no_error_elsewhere():
    mixed = [unit("t.py", "f", "m=1", "gfx942"), unit("t.py", "f", "m=1", "sm_90")]
    assert Filters(arch="sm_90").cases(mixed, "cpu") == mixed[1:]
    assert Filters(arch="cpu", keep="norm").cases(UNITS, "cpu") == [UNITS[2]]
    assert Filters(arch="gfx942", keep="nothing").cases(UNITS, "cpu") == []


@pytest.mark.parametrize("name", ["H100", "gfx", "sm90"])
def test_an_arch_that_there_can_be_none_of_is_an_error(name):
    with pytest.raises(UsageError, match=f"--arch '{name}': expected an arch name"):
        Filters(arch=name).check_arch()
