from __future__ import annotations

import argparse

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from optest import dtypes
from optest.errors import UsageError

FNUZ, FN = torch.float8_e4m3fnuz, torch.float8_e4m3fn
UPSTREAM = set("fp8 fp8_e8m0 fp16 bf16 fp32 i4x2 fp4x2 u32 i32 i16 i8 u8 i64 u64".split())


@pytest.mark.parametrize(
    ("gfx", "flavour"),
    [
        ("gfx942", FNUZ),
        ("gfx950", FN),
        ("gfx1200", FN),
        ("gfx1201", FN),
        ("gfx1250", FN),
        ("sm_89", FN),
        ("sm_90", FN),
        ("sm_90a", FN),
        ("sm_100", FN),
        ("sm_121", FN),
        ("cpu", FN),
    ],
)
def test_fp8_is_the_flavour_of_the_arch(monkeypatch, gfx, flavour):
    monkeypatch.setenv("OPTEST_GFX", gfx)
    assert dtypes.fp8 is flavour
    assert dtypes.d_dtypes["fp8"] is flavour
    assert dtypes.str2Dtype("fp8") is flavour


@pytest.mark.parametrize("gfx", ["gfx90a", "gfx1100", "gfx1151", "gfx1300", "sm_80", "sm_75"])
def test_an_arch_without_known_fp8_says_so_when_fp8_is_used(monkeypatch, gfx):
    monkeypatch.setenv("OPTEST_GFX", gfx)
    for use in (lambda: dtypes.fp8, lambda: dtypes.d_dtypes["fp8"]):
        with pytest.raises(UsageError, match=rf"no 8-bit float is known for arch '{gfx}'"):
            use()
    with pytest.raises(argparse.ArgumentTypeError, match=gfx):
        dtypes.str2Dtype("fp8")
    assert dtypes.bf16 is torch.bfloat16, "only fp8 is refused"
    assert "fp8" not in dtypes.d_dtypes
    assert torch.uint8 not in [v for k, v in dtypes.d_dtypes.items() if k != "u8"]


def test_d_dtypes_has_every_name_of_upstream_and_agrees_with_the_attributes():
    assert set(dtypes.d_dtypes) >= UPSTREAM
    assert len(dtypes.d_dtypes) == len(list(dtypes.d_dtypes))
    for name, dtype in dtypes.d_dtypes.items():
        assert isinstance(dtype, torch.dtype)
        assert getattr(dtypes, name) is dtype
        assert name in dir(dtypes)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("bf16", torch.bfloat16),
        ("fp16", torch.float16),
        ("fp32", torch.float32),
        ("fp64", torch.float64),
        ("fp8_e8m0", torch.float8_e8m0fnu),
        ("fp4x2", torch.float4_e2m1fn_x2),
        ("i8", torch.int8),
        ("u8", torch.uint8),
        ("i16", torch.int16),
        ("u16", torch.uint16),
        ("i32", torch.int32),
        ("u32", torch.uint32),
        ("i64", torch.int64),
        ("u64", torch.uint64),
    ],
)
def test_short_names(name, dtype):
    assert getattr(dtypes, name) is dtype


def test_unknown_names_are_ordinary_missing_things():
    with pytest.raises(AttributeError, match="bf61"):
        _ = dtypes.bf61
    with pytest.raises(KeyError):
        _ = dtypes.d_dtypes["bf61"]
    assert dtypes.d_dtypes.get("bf61") is None


def test_a_torch_that_lacks_a_dtype_is_named_not_replaced(monkeypatch):
    monkeypatch.delattr(torch, "float4_e2m1fn_x2")
    with pytest.raises(UsageError, match=r"fp4x2: torch .* has no torch.float4_e2m1fn_x2"):
        _ = dtypes.fp4x2
    assert "fp4x2" not in dtypes.d_dtypes


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("bf16", torch.bfloat16),
        ("BF16", torch.bfloat16),
        (" bf16 ", torch.bfloat16),
        ("bfloat16", torch.bfloat16),
        ("torch.bfloat16", torch.bfloat16),
        ("Torch.BFloat16", torch.bfloat16),
        ("half", torch.float16),
        ("float8_e4m3fnuz", FNUZ),
        ("bf16,", (torch.bfloat16,)),
        ("(bf16,)", (torch.bfloat16,)),
        ("bf16,fp8", (torch.bfloat16, FN)),
        ("(bf16, i8)", (torch.bfloat16, torch.int8)),
        ("none", None),
        ("None", None),
        ("none,", (None,)),
        ("bf16,none", (torch.bfloat16, None)),
    ],
)
def test_str2dtype_takes(text, value):
    assert dtypes.str2Dtype(text) == value


@pytest.mark.parametrize(
    "text", ["bf61", "", " ", ",", "()", "bf16;fp8", "Tensor", "nn", "__name__"]
)
def test_str2dtype_refuses_naming_value_and_choices(text):
    with pytest.raises(argparse.ArgumentTypeError) as caught:
        dtypes.str2Dtype(text)
    message = str(caught.value)
    assert repr(text) in message
    assert "one of fp8, bf16, fp16" in message
    assert "\n" not in message


def test_a_near_miss_is_suggested():
    for wrong, right in (("bf61", "bf16"), ("bfloat61", "bfloat16"), ("fp_32", "fp32")):
        with pytest.raises(argparse.ArgumentTypeError, match=rf"did you mean {right}\?"):
            dtypes.str2Dtype(wrong)


@given(st.text(max_size=20) | st.text("bf16,() none", max_size=12))
def test_any_text_gives_dtypes_or_one_clear_line(text):
    try:
        value = dtypes.str2Dtype(text)
    except argparse.ArgumentTypeError as error:
        value = ()
        refusal = str(error)
    else:
        refusal = ""
    parts = value if isinstance(value, tuple) else (value,)
    assert all(part is None or isinstance(part, torch.dtype) for part in parts)
    assert bool(parts) != bool(refusal)
    assert len(refusal.splitlines()) <= 1


@given(st.lists(st.sampled_from(["bf16", "fp16", "fp32", "fp8", "i8"]), min_size=1, max_size=4))
def test_the_parts_keep_their_order(names):
    assert dtypes.str2Dtype(",".join(names) + ",") == tuple(dtypes.d_dtypes[n] for n in names)


@pytest.mark.parametrize("text", ["bf16", "BF16", "torch.bfloat16", "bf16,", " bf16 "])
def test_one_of_takes_any_spelling(text):
    assert dtypes.one_of("bf16", "fp16")(text) is torch.bfloat16


@pytest.mark.parametrize("text", ["fp32", "bf61", "none", "bf16,fp16", "", "float32", "i8"])
def test_one_of_refuses_naming_what_the_op_takes(text):
    with pytest.raises(argparse.ArgumentTypeError) as caught:
        dtypes.one_of("bf16", "fp16")(text)
    assert str(caught.value).startswith(repr(text))
    assert str(caught.value).endswith("this op takes bf16, fp16, separated by blanks")


def test_one_of_suggests_what_was_meant():
    with pytest.raises(argparse.ArgumentTypeError, match=r"'bf61' \(did you mean bf16\?\)"):
        dtypes.one_of("bf16", "fp16")("bf61")


def test_one_of_on_an_arch_without_fp8_takes_the_rest_and_says_why_not_fp8(monkeypatch):
    monkeypatch.setenv("OPTEST_GFX", "gfx1151")
    assert dtypes.one_of("fp8", "i8")("i8") is torch.int8
    with pytest.raises(argparse.ArgumentTypeError, match="no 8-bit float is known for arch"):
        dtypes.one_of("fp8", "i8")("fp8")
