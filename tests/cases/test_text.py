"""Ids and cells are the same in every process: no address, no line break, bounded length."""

from __future__ import annotations

import enum
import functools
import pathlib
import subprocess
import sys

import pytest
import torch

from optest import dtypes
from optest.cases import text


class Kind(enum.Enum):
    PER_TOKEN = 1


class Opaque:
    pass


def named(x):
    return x


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (torch.bfloat16, "bf16"),
        ((torch.bfloat16,), "bf16"),
        (torch.float8_e4m3fn, "fp8"),
        (torch.float8_e4m3fnuz, "float8_e4m3fnuz"),
        (torch.zeros(2, 3), "Tensor(2x3:fp32)"),
        (torch.nn.Linear(2, 2), "Linear"),
        (Kind.PER_TOKEN, "PER_TOKEN"),
        (pathlib.PurePosixPath("a/b"), "a/b"),
        (((1, 2), [3, None]), "((1,2),[3,None])"),
        ({3, 1}, "{1,3}"),
        ({"a": torch.int8}, "{a:i8}"),
        (named, "named"),
        (functools.partial(named, 1), "partial(named)"),
        (Opaque(), "Opaque"),
        ("two\nlines", "two lines"),
        (None, "None"),
        (1.5, "1.5"),
        (True, "True"),
    ],
)
def test_values_have_short_stable_text(value, expected):
    assert text.of_value(value) == expected


def test_a_lambda_and_a_bound_repr_have_no_address():
    class Mine:
        def __repr__(self):
            return f"<Mine object at {hex(id(self))}>"

    for value in (lambda: 0, Mine()):
        assert "0x" not in text.of_value(value)


def test_long_text_is_cut_and_stays_distinct():
    a, b = text.of_value("x" * 200 + "a"), text.of_value("x" * 200 + "b")
    assert len(a) <= 80
    assert a != b


def test_fp8_is_named_alike_on_cards_with_different_flavours(monkeypatch):
    monkeypatch.setenv("OPTEST_GFX", "gfx942")
    assert dtypes.fp8 == torch.float8_e4m3fnuz
    assert text.of_value(torch.float8_e4m3fnuz) == "fp8"
    assert text.of_value(torch.float8_e4m3fn) == "float8_e4m3fn"


def test_text_of_a_lambda_is_equal_in_another_process():
    code = "from optest.cases.text import of_value; print(of_value(lambda: 0), of_value(object()))"
    runs = {
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    }
    assert runs == {"<lambda> object\n"}
