"""Ids and cells are the same in every process: no address, no line break, bounded length."""

from __future__ import annotations

import dataclasses
import enum
import functools
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import torch

from optest import dtypes
from optest.cases import case, text


class Kind(enum.Enum):
    PER_TOKEN = 1


class Opaque:
    pass


@dataclasses.dataclass
class Config:
    names: object
    dtype: torch.dtype = torch.int8
    cache: object = dataclasses.field(default_factory=object, repr=False)


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
        (Config({"b", "a"}), "Config(names={a,b},dtype=i8)"),
        (Config, "Config"),
        (np.int64(4), "4"),
        (np.float32(1.5), "1.5"),
        (np.bool_(True), "True"),
        (np.zeros(()), "0.0"),
        ([np.int8(3)], "[3]"),
        ("a\x01b", "a\\x01b"),
        ("\x1b[31m\x7f", "\\x1b[31m\\x7f"),
        ("\udcff", "\\udcff"),
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


def test_sets_of_text_in_a_dataclass_have_one_order_in_every_process():
    code = (
        "import dataclasses; from optest.cases.text import of_value\n"
        "C = dataclasses.make_dataclass('C', ['names'])\n"
        "print(of_value(C([{'k%d' % n for n in range(8)}])))"
    )
    runs = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert runs == {"C(names=[{k0,k1,k2,k3,k4,k5,k6,k7}])\n"}


def test_containers_that_hold_themselves_or_go_very_deep_end():
    own, config, deep = [1], Config(None), []
    own.append(own)
    config.names = {"own": config}
    for _ in range(5000):
        deep = [deep]
    assert text.of_value(own) == "[1,...]"
    assert text.of_value(config) == "Config(names={own:...},dtype=i8)"
    assert len(text.of_value(deep)) <= 80
    twice = [7]
    assert text.of_value([twice, twice]) == "[[7],[7]]", "seen before is not inside itself"


@pytest.mark.parametrize(
    ("value", "expected"),
    [(np.int64(4), 4), (np.float64(0.5), 0.5), (np.float32(1.5), 1.5), (np.bool_(False), False)],
)
def test_numpy_scalars_are_numbers_in_a_row(value, expected):
    held = text.cell(value)
    assert (held, type(held)) == (expected, type(expected))


def test_only_scalars_of_numpy_are_unpacked():
    assert text.of_value(np.ones(1)) == "array([1.])"
    assert text.of_value(np.datetime64("2020-01-01")).startswith("np.datetime64")


def test_text_that_no_encoding_holds_has_an_id_and_a_seed():
    identity = case.case_id("f.py", "t", {"name": "\udcff" * 100})
    assert identity.isascii()
    assert case.seed_of(identity) >= 0
