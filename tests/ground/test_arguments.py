from __future__ import annotations

import argparse

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optest import dtypes
from optest.arguments import ArgumentParser, positive_int, str2bool, str2tuple, tuple_of

mnk = tuple_of(3, "m,n,k")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("512", 512),
        ("512,", (512,)),
        ("512,1024", (512, 1024)),
        ("(512, 1024)", (512, 1024)),
        ("-1,2", (-1, 2)),
    ],
)
def test_str2tuple_returns_what_upstream_returns(text, value):
    assert str2tuple(text) == value


@pytest.mark.parametrize("text", ["", ",", "a", "1,b", "1.5", "1 2", "()"])
def test_str2tuple_names_what_it_refuses(text):
    with pytest.raises(argparse.ArgumentTypeError) as caught:
        str2tuple(text)
    assert str(caught.value).startswith(repr(text))


@pytest.mark.parametrize("text", ["yes", "true", "T", "y", "1", " True ", True])
def test_str2bool_yes(text):
    assert str2bool(text) is True


@pytest.mark.parametrize("text", ["no", "False", "f", "n", "0", False])
def test_str2bool_no(text):
    assert str2bool(text) is False


@pytest.mark.parametrize("text", ["", "maybe", "2", "on"])
def test_str2bool_refuses(text):
    with pytest.raises(argparse.ArgumentTypeError, match="no boolean"):
        str2bool(text)


@given(st.lists(st.integers(0, 2**40), min_size=3, max_size=3), st.sampled_from(["", " "]))
def test_tuple_of_takes_sizes_zero_among_them(sizes, blank):
    text = f",{blank}".join(map(str, sizes))
    assert mnk(text) == mnk(f"({text})") == tuple(sizes)


@pytest.mark.parametrize(
    "text", ["4096", "1,2,3,4", "a,b,c", "-1,2,3", "1,2,", ",1,2", "1,,2", "", "1.0,2,3", "1 2 3",
             "1_0,2,3", "+1,2,3", "²,1,1", "1;2;3"]
)  # fmt: skip
def test_tuple_of_refuses_what_does_not_fit_naming_value_and_form(text):
    with pytest.raises(argparse.ArgumentTypeError) as caught:
        mnk(text)
    message = str(caught.value)
    assert message.startswith(f"{text!r}: expected m,n,k, 3 whole numbers of at least 0")
    assert "\n" not in message


@given(st.lists(st.integers(0, 99), max_size=6), st.integers(1, 5))
def test_tuple_of_takes_exactly_its_arity(sizes, arity):
    text = ",".join(map(str, sizes))
    if len(sizes) == arity:
        assert tuple_of(arity, "x")(text) == tuple(sizes)
    else:
        with pytest.raises(argparse.ArgumentTypeError):
            tuple_of(arity, "x")(text)


@pytest.mark.parametrize(("text", "value"), [("1", 1), (" 16 ", 16), ("007", 7)])
def test_positive_int_takes(text, value):
    assert positive_int(text) == value


def test_positive_int_says_how_to_write_a_list():
    with pytest.raises(argparse.ArgumentTypeError, match=r"separate with blanks: 1 2 16$"):
        positive_int("1,2, 16")


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "a", "", "a,b", "²"])
def test_positive_int_refuses(text):
    with pytest.raises(argparse.ArgumentTypeError, match="of at least 1"):
        positive_int(text)


def _parser():
    parser = ArgumentParser(prog="test_op.py", description="config input of test")
    parser.add_argument("-d", "--dtype", type=dtypes.str2Dtype, nargs="+", default="bf16,")
    parser.add_argument("-b", "--batch", type=positive_int, nargs="+", default=[1])
    parser.add_argument("-s", "--mnk", type=mnk, nargs="+", default=[(1, 2, 3)])
    parser.add_argument("--layout", choices=["bmn", "mbn"], nargs="+", default=["bmn"])
    return parser


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (["-d"], ["-d/--dtype", "a dtype such as bf16"]),
        (["-s"], ["-s/--mnk", "m,n,k"]),
        (["-b"], ["-b/--batch", "whole numbers of at least 1"]),
        (["--layout"], ["--layout", "one or more of bmn, mbn"]),
        (["-s", "-1,2,3"], ["'-1,2,3'", "m,n,k"]),
        (["-b", "-1"], ["'-1'", "at least 1"]),
        (["-s", "4096", "4096", "4096"], ["'4096'", "m,n,k"]),
        (["-s", "a,b,c"], ["'a,b,c'", "m,n,k"]),
        (["-d", "bf61"], ["'bf61'", "did you mean bf16"]),
        (["-b", "1,2"], ["'1,2'", "separate with blanks: 1 2"]),
        (["--layout", "nmb"], ["'nmb'", "bmn"]),
        (["--nonsense"], ["--nonsense"]),
    ],
)
def test_a_command_line_that_cannot_be_is_one_line_and_exit_2(capsys, argv, named):
    with pytest.raises(SystemExit) as caught:
        _parser().parse_args(argv)
    assert caught.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    for words in named:
        assert words in err


def test_what_fits_is_parsed():
    args = _parser().parse_args(["-d", "bf16", "fp32", "-s", "0,128,128", "1,2,3", "-b", "1", "2"])
    assert args.mnk == [(0, 128, 128), (1, 2, 3)]
    assert args.batch == [1, 2]
    assert args.dtype == [dtypes.bf16, dtypes.fp32]


def test_the_template_s_default_is_parsed_to_a_tuple():
    assert _parser().parse_args([]).dtype == (dtypes.bf16,)


def test_plain_argparse_passes_the_parsers_words_on(capsys):
    parser = argparse.ArgumentParser()
    parser.add_argument("-s", type=mnk, nargs="+")
    with pytest.raises(SystemExit):
        parser.parse_args(["-s", "1,2"])
    assert "'1,2': expected m,n,k, 3 whole numbers" in capsys.readouterr().err
