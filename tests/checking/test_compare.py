"""What a check must reject and accept: one row for each kind of fault.

Each row of ``REJECTED`` passed, crashed or was broadcast in a tool people use today.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch

from optest.checking import Tolerance, compare, describe, engines
from optest.checking.comparators import Detail
from optest.errors import UsageError

EXACT = Tolerance(rtol=0.0, atol=0.0)
NAN, INF = math.nan, math.inf


def _randn(*shape, scale=1.0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(5)) * scale


def _with(tensor, index, value):
    changed = tensor.clone()
    changed[index] = value
    return changed


def _t(*values, dtype=torch.float32):
    return torch.tensor(values, dtype=dtype)


A = _randn(64, 96)
SOFTMAX = torch.softmax(_randn(16, 4096), -1)
STALE = _randn(64, 97)[:, 1:]
SHARE_NAN = A.masked_fill(
    torch.rand(64, 96, generator=torch.Generator().manual_seed(1)) < 0.04, NAN
)
HARD = Tolerance(max_abs_delta=1e-3, catastrophic_check=True)

# id: reference, candidate, tolerance, words that the reason must hold
REJECTED = {
    "zeroed": (A, torch.zeros_like(A), Tolerance(), "mismatch"),
    "half written": (A, _with(A, slice(32, None), 0.0), Tolerance(), "gross"),
    "last tile unwritten": (A, _with(A, (slice(60, 64), slice(64, 96)), 0.0), Tolerance(), "gross"),
    "stale": (A, STALE, Tolerance(), "mismatch"),
    "sign flipped": (A, -A, Tolerance(), "mismatch"),
    "shifted by one": (A, A.roll(1), Tolerance(), "mismatch"),
    "two rows swapped": (A, _with(A, [3, 4], A[[4, 3]]), Tolerance(), "gross"),
    "one row at twice the scale": (A, _with(A, 9, 2 * A[9]), Tolerance(), "gross"),
    "one NaN": (A, _with(A, (5, 7), NAN), Tolerance(), "NaN"),
    "one Inf": (A, _with(A, (5, 7), INF), Tolerance(), "Inf"),
    "C1 small against zeros": (1e-3 * A, torch.zeros_like(A), Tolerance(), "by norm"),
    "C2 4 % NaN": (A, SHARE_NAN, Tolerance(), "NaN"),
    "C2 4 % NaN under caps": (A, SHARE_NAN, HARD, "NaN"),
    "C2 NaN at ratio 1": (A, SHARE_NAN, Tolerance(tol_err_ratio=1.0), "NaN"),
    "C3 (4,1) and (1,4)": (_randn(4, 1), _randn(1, 4), Tolerance(), "(4, 1), got (1, 4)"),
    "C3 (n,1) and (n,)": (_randn(8, 1), _randn(8), Tolerance(), "shapes differ"),
    "C3 (n,) and (n,1)": (_randn(8), _randn(8, 1), Tolerance(), "shapes differ"),
    "C3 (64,64) and (1,)": (_randn(64, 64), _randn(1), Tolerance(), "shapes differ"),
    "C3 (1,1) and (1,)": (_randn(1, 1), _randn(1), Tolerance(), "shapes differ"),
    "C3 () and (1,)": (_randn(1)[0], _randn(1), Tolerance(), "shapes differ"),
    "C4 empty and (1,5)": (torch.empty(0), _randn(1, 5), Tolerance(), "shapes differ"),
    "C4 (0,3) and (3,0)": (torch.empty(0, 3), torch.empty(3, 0), Tolerance(), "shapes differ"),
    "C5 dtypes": (A, A.bfloat16(), Tolerance(), "want float32, got bfloat16"),
    "C5 int widths": (_t(1, dtype=torch.int32), _t(1, dtype=torch.int64), Tolerance(), "dtypes"),
    "C5 bool": (_t(True, False), _t(True, True), Tolerance(), "mismatch"),
    "C6 one 1e30": (_randn(10**6), _with(_randn(10**6), 77, 1e30), Tolerance(), "gross"),
    "C6 one 1e30 at ratio 1": (A, _with(A, (0, 0), 1e30), Tolerance(tol_err_ratio=1.0), "gross"),
    "C7 uint8": (
        _t(0, dtype=torch.uint8), _t(255, dtype=torch.uint8), Tolerance(), "gross",
    ),
    "C7 one uint8 of many": (
        torch.full((999,), 9, dtype=torch.uint8),
        _with(torch.full((999,), 9, dtype=torch.uint8), 5, 255), Tolerance(), "gross",
    ),
    "C7 int64": (
        _t(2**24 + 1, dtype=torch.int64), _t(2**24, dtype=torch.int64), EXACT, "mismatch",
    ),
    "C7 int64 beyond fp64": (
        _t(2**53 + 1, dtype=torch.int64), _t(2**53, dtype=torch.int64), EXACT, "mismatch",
    ),
    "C7 int64 just beyond a bound": (
        _t(0, dtype=torch.int64), _t(2**53 + 1, dtype=torch.int64),
        Tolerance(rtol=0.0, atol=2.0**53), "mismatch",
    ),
    "C7 int32 extremes": (
        _t(-(2**31), dtype=torch.int32), _t(2**31 - 1, dtype=torch.int32), Tolerance(), "mismatch",
    ),
    "C7 int64 extremes": (
        _t(-(2**63), dtype=torch.int64), _t(2**63 - 1, dtype=torch.int64), Tolerance(), "mismatch",
    ),
    "C7 uint64 extremes": (
        _t(2**64 - 1, dtype=torch.uint64), _t(0, dtype=torch.uint64), Tolerance(), "mismatch",
    ),
    "C10 NaN and NaN": (_t(1, NAN), _t(1, NAN), Tolerance(), "NaN"),
    "C10 NaN and number, equal_nan": (_t(NAN), _t(1), Tolerance(equal_nan=True), "NaN"),
    "C10 number and NaN, equal_nan": (_t(1), _t(NAN), Tolerance(equal_nan=True), "NaN"),
    "C10 Inf and -Inf": (_t(INF), _t(-INF), Tolerance(), "Inf"),
    "C10 Inf and largest": (_t(INF), _t(torch.finfo().max), Tolerance(rtol=1.0), "Inf"),
    "C10 largest and Inf": (_t(torch.finfo().max), _t(INF), Tolerance(rtol=1.0), "Inf"),
    "C11 softmax against zeros": (SOFTMAX, torch.zeros_like(SOFTMAX), Tolerance(), "by norm"),
    "fp8 against zeros": (
        A.to(torch.float8_e4m3fn), torch.zeros_like(A).to(torch.float8_e4m3fn), Tolerance(),
        "mismatch",
    ),
    "sparse mask against all false": (
        torch.arange(100) < 4, torch.zeros(100, dtype=torch.bool), Tolerance(), "by norm",
    ),
    "max_abs_delta": (
        A, _with(A, (2, 2), A[2, 2] + 0.1), Tolerance(max_abs_delta=0.09), "max_abs_delta",
    ),
    "catastrophic_check": (
        100 * A.clamp(-1, 1), _with(100 * A.clamp(-1, 1), (2, 2), -51.0 * A[2, 2].sign()),
        Tolerance(rtol=10.0, catastrophic_check=True), "peak",
    ),
    "fp64 squares overflow": (
        _t(1e200, 1e200, dtype=torch.float64), _t(1e200, 0, dtype=torch.float64),
        Tolerance(tol_err_ratio=1.0), "gross",
    ),
    "complex128 is no complex64": (
        _t(1 + 1j, dtype=torch.complex128), _t(1 + 1j + 1e-12, dtype=torch.complex128), EXACT,
        "mismatch",
    ),
    "fp64 is no fp32": (
        _t(1, dtype=torch.float64), _t(1 + 1e-12, dtype=torch.float64), EXACT, "mismatch",
    ),
    "6 % near misses": (
        torch.ones(100), _with(torch.ones(100), slice(6), 1.05), Tolerance(), "allowed 0.05",
    ),
}  # fmt: skip

# id: reference, candidate, tolerance, status
ACCEPTED = {
    "equal": (A, A.clone(), Tolerance(), "pass"),
    "C4 both empty": (torch.empty(0, 3), torch.empty(0, 3), Tolerance(), "pass"),
    "C5 dtypes, by value": (A, A.bfloat16(), Tolerance(check_dtype=False), "pass"),
    "C5 int against float, by value": (
        _t(3, dtype=torch.int64), _t(3.0), Tolerance(check_dtype=False), "pass",
    ),
    "C8 exactly 5 %": (
        torch.ones(100), _with(torch.ones(100), slice(5), 1.05), Tolerance(), "near",
    ),
    "C8 exactly 29 %": (
        torch.ones(100), _with(torch.ones(100), slice(29), 1.05), Tolerance(tol_err_ratio=0.29),
        "near",
    ),
    "C10 NaN and NaN, equal_nan": (_t(1, NAN), _t(1, NAN), Tolerance(equal_nan=True), "pass"),
    "C10 Inf and Inf": (_t(INF, -INF), _t(INF, -INF), EXACT, "pass"),
    "C13 negative zero": (_t(0.0), _t(-0.0), EXACT, "pass"),
    "C13 denormals": (_t(1e-40, -1e-42), _t(1e-40, -1e-42), EXACT, "pass"),
    "C13 0-dim": (torch.tensor(2.5), torch.tensor(2.5), EXACT, "pass"),
    "ids, few wrong": (
        torch.arange(100), _with(torch.arange(100), slice(5), 77), EXACT, "near",
    ),
    "int8 off by one": (
        torch.full((9,), 50, dtype=torch.int8), torch.full((9,), 51, dtype=torch.int8),
        Tolerance(atol=1.0), "pass",
    ),
    "zeros": (torch.zeros(5), torch.zeros(5), EXACT, "pass"),
    "noise about zeros": (torch.zeros(5), torch.full((5,), 1e-3), Tolerance(), "pass"),
    "1e30 in both": (_t(1e30, 1.0), _t(1e30, 1.0), EXACT, "pass"),
}  # fmt: skip


@pytest.fixture(params=["best", "plain"])
def engine(request, monkeypatch):
    """The engine this machine would choose, and the one it has without a compiler."""
    if request.param == "plain":
        monkeypatch.setattr(engines, "_compiled", lambda *_: None)


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("name", REJECTED)
def test_rejected(name):
    reference, candidate, tolerance, words = REJECTED[name]
    verdict = compare(reference, candidate, tolerance)
    assert verdict.status == "fail"
    assert words in verdict.reason
    assert not verdict.passed


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted(name):
    reference, candidate, tolerance, status = ACCEPTED[name]
    verdict = compare(reference, candidate, tolerance)
    assert verdict.status == status, verdict.reason
    assert verdict.passed


def test_share_is_of_mismatched_elements():
    verdict = compare(torch.ones(200), _with(torch.ones(200), slice(8), 1.05))
    assert float(verdict) == 0.04
    assert (verdict.mismatched, verdict.compared) == (8, 200)


def test_what_cannot_be_compared_is_all_wrong():
    """1.0, so that a table whose column is read by eye cannot look right."""
    assert float(compare(_randn(4, 1), _randn(1, 4))) == 1.0
    assert float(compare(A, A.double())) == 1.0


def test_swallowed_outputs_show_in_the_share():
    """C1 with the bound as given has no mismatch at all; a table that said 0 would look right."""
    verdict = compare(1e-3 * A, torch.zeros_like(A))
    assert float(verdict) == 1.0
    assert "atol=0.01 swallows" in verdict.notes[0]
    assert verdict.shown[0].index == (0, 0)


def test_outputs_below_the_norm_rule_are_named():
    """Under rms 1e-6 atol may decide, since rounding noise lives there; the verdict says so."""
    verdict = compare(1e-8 * A, torch.zeros_like(A))
    assert verdict.status == "pass"
    assert "zeros would pass" in verdict.notes[0]


def test_a_reference_of_zeros_is_named():
    """Arguments swapped with a zeroed candidate, or a reference never computed: all inside atol."""
    verdict = compare(torch.zeros(64, 96), 1e-3 * A)
    assert verdict.status == "pass"
    (note,) = verdict.notes
    assert "zero throughout" in note
    assert "atol=0.01 alone decided" in note
    assert "swapped?" in note
    assert f"note: {note}" in describe(verdict)


@pytest.mark.parametrize(
    ("scale", "asked"), [(1e-3, True), (0.5e-8, False)], ids=["much larger", "as small"]
)
def test_a_tiny_reference_asks_about_the_order(scale, asked):
    """Beside a much larger candidate it may be the candidate's place that it took."""
    verdict = compare(1e-8 * A, -scale * A)
    assert verdict.status == "pass"
    assert ("swapped?" in verdict.notes[0]) is asked


@pytest.mark.parametrize(
    ("reference", "candidate", "tolerance"),
    [
        (torch.zeros(9), -torch.zeros(9), Tolerance()),
        (torch.zeros(9), torch.ones(9), Tolerance()),
        (1e-8 * A, torch.zeros_like(A), EXACT),
        (A, A + 1e-3, Tolerance()),
    ],
    ids=["both zero", "zeros, failed", "tiny, failed", "ordinary"],
)
def test_no_note_where_atol_did_not_decide_alone(reference, candidate, tolerance):
    assert compare(reference, candidate, tolerance).notes == ()


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("size", [5, 100_000])
@pytest.mark.parametrize("where", [slice(None), 3], ids=["all", "one"])
@pytest.mark.parametrize("byte", [0xFF, 0x7F, 2])
def test_a_byte_that_is_no_boolean_is_named(byte, where, size):
    """Unwritten bool memory: torch reads such a byte as True, or as its number, as it happens."""
    reference = torch.ones(size, dtype=torch.bool)
    candidate = reference.clone()
    candidate.view(torch.uint8)[where] = byte
    verdict = compare(reference, candidate, EXACT)
    assert verdict.mismatched == (size if where != 3 else 1)
    assert (verdict.worst.got, verdict.worst.want) == (byte, True)
    assert f"holds the byte {byte:#04x}, which is no boolean" in describe(verdict)


def test_a_wrong_boolean_is_just_wrong():
    verdict = compare(_t(True, False, dtype=torch.bool), _t(True, True, dtype=torch.bool))
    assert verdict.worst.got is True
    assert verdict.notes == ()


def test_integers_that_differ_inside_the_bound_are_named():
    verdict = compare(torch.arange(1000, 1100), torch.arange(1001, 1101))
    assert verdict.status == "pass"
    assert "100 integers differ" in verdict.notes[0]


def test_nothing_compared_is_said():
    assert "nothing was compared" in compare(torch.empty(0), torch.empty(0)).reason


def test_the_first_argument_scales_the_bound():
    """C9: 1.9 times too high fails one way round and would pass the other under this rtol."""
    low, high = torch.full((9,), 1.0), torch.full((9,), 1.9)
    tolerance = Tolerance(rtol=0.48, atol=0.0, tol_err_ratio=0.0)
    assert compare(low, high, tolerance).mismatched == 9
    assert compare(high, low, tolerance).mismatched == 0


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e8m0fnu], ids=str)
def test_coded_values_are_decoded(dtype):
    """A code read as a number would be off by orders of magnitude."""
    a = torch.tensor([0.5, 1.0, 4.0]).to(dtype)
    b = torch.tensor([0.5, 2.0, 4.0]).to(dtype)
    worst = compare(a, b).worst
    assert (worst.index, worst.got, worst.want) == ((1,), 2.0, 1.0)


def test_packed_fp4_counts_and_indexes_values():
    """Two values a byte, low nibble first: codes 2 (1.0), 7 (6.0), 15 (-6.0)."""
    a = torch.tensor([[0x72, 0x22], [0x22, 0x22]], dtype=torch.uint8)
    b = _with(a, (1, 0), 0xF2)
    verdict = compare(a.view(torch.float4_e2m1fn_x2), b.view(torch.float4_e2m1fn_x2))
    assert (verdict.compared, verdict.mismatched) == (8, 1)
    worst = verdict.worst
    assert (worst.index, worst.got, worst.want) == ((1, 1), -6.0, 1.0)


def test_packed_fp4_is_not_compared_with_bytes():
    codes = torch.zeros(4, dtype=torch.uint8)
    verdict = compare(codes.view(torch.float4_e2m1fn_x2), codes, Tolerance(check_dtype=False))
    assert "two values" in verdict.reason


@pytest.mark.parametrize(
    ("unsigned", "signed", "tolerance", "status"),
    [
        (2**63, -(2**63), Tolerance(), "fail"),
        (2**63 + 5, 2**63 - 1, EXACT, "fail"),
        (2**53 + 1, 2**53, EXACT, "fail"),
        (7, 7, EXACT, "pass"),
        (2, -1, Tolerance(rtol=0.0, atol=3.0), "pass"),
        (2, -2, Tolerance(rtol=0.0, atol=3.0), "fail"),
    ],
)
def test_uint64_against_int64_is_exact(unsigned, signed, tolerance, status):
    """Neither fits the other; read as bits, 2^63 and -2^63 are equal."""
    a, b = _t(unsigned, dtype=torch.uint64), _t(signed, dtype=torch.int64)
    either = dataclasses.replace(tolerance, check_dtype=False)
    assert compare(a, b, either).status == status


def test_complex_is_compared_by_magnitude():
    a = torch.tensor([3 + 4j, 1j])
    assert compare(a, a * 1.001).status == "pass"
    assert compare(a, a.conj()).status == "fail"
    assert compare(a.conj(), a.conj().resolve_conj(), EXACT).status == "pass"


def test_lazy_negation_is_seen():
    """``imag`` of a conjugate is negative only by a flag; its bits are the positive values."""
    lazy = torch.tensor([1 + 2j, 3 + 4j]).conj().imag
    assert lazy.is_neg()
    assert compare(torch.tensor([-2.0, -4.0]), lazy, EXACT).status == "pass"


BAD_TYPES = {
    "list": ([1.0], "list"),
    "number": (1.0, "float"),
    "numpy": (np.zeros(3), "numpy.ndarray"),
    "none": (None, "NoneType"),
    "sparse": (torch.eye(3).to_sparse(), "to_dense"),
    "csr": (torch.eye(3).to_sparse_csr, "to_dense"),
    "meta": (torch.empty(3, device="meta"), "meta"),
    "nested": (
        lambda: torch.nested.nested_tensor([torch.zeros(2), torch.zeros(1)]),
        "to_dense|layout",
    ),
    "quantised": (
        lambda: torch._empty_affine_quantized([3], scale=1.0, zero_point=0, dtype=torch.quint8),
        "int_repr",
    ),
    "subclass": (torch.zeros(3).as_subclass(type("Mine", (torch.Tensor,), {})), "Mine"),
    "bits": (torch.zeros(4, dtype=torch.uint8).view(torch.bits8), "bits8"),
}


@pytest.mark.filterwarnings("ignore:Sparse CSR:UserWarning", "ignore:.*(nested|quant):UserWarning")
@pytest.mark.parametrize("side", ["reference", "candidate"])
@pytest.mark.parametrize("name", BAD_TYPES)
def test_what_is_no_dense_tensor_is_a_type_error(name, side):
    """C14: the error names the argument and what it is."""
    value, words = BAD_TYPES[name]
    value = value() if callable(value) and not isinstance(value, torch.Tensor) else value
    pair = {"reference": torch.zeros(3), "candidate": torch.zeros(3), side: value}
    with pytest.raises(TypeError, match=f"{side}.*{words}"):
        compare(pair["reference"], pair["candidate"])


def test_parameters_that_need_a_gradient_are_compared():
    a = torch.nn.Parameter(torch.ones(4))
    assert compare(a, a * 1.0).status == "pass"


def test_devices_are_named(monkeypatch):
    """C14: a CPU tensor against another device's is a failure that names both."""

    class Elsewhere:
        shape = torch.Size([3])
        device = torch.device("cuda", 1)

    from optest.checking.alike import why_unlike

    assert "want cpu, got cuda:1" in why_unlike(torch.zeros(3), Elsewhere())


def test_a_comparator_takes_over():
    seen = {}

    def top1(actual, expected, **rest):
        seen.update(actual=actual, expected=expected, **rest)
        return bool(actual.argmax() == expected.argmax()), "another first"

    reference, candidate = _t(1, 5, 2), _t(0, 9, 0)
    assert compare(reference, candidate, comparator=top1).status == "pass"
    assert seen["actual"] is candidate
    assert seen["expected"] is reference
    assert seen["actual_outputs"] == {"out": candidate}
    assert seen["expected_outputs"] == {"out": reference}
    assert (seen["inputs"], seen["rtol"], seen["atol"]) == ({}, 1e-2, 1e-2)
    wrong = compare(reference, _t(9, 1, 1), comparator=top1)
    assert (float(wrong), wrong.reason) == (1.0, "top1: another first")
    assert compare(reference, _t(1, 2), comparator=top1).status == "fail"


@pytest.mark.parametrize("answer", [True, (1, ""), (True, None), (True, "", 3)])
def test_a_comparator_that_answers_otherwise_is_an_error(answer):
    """A truthy object taken for a pass would be a check that cannot fail."""
    with pytest.raises(TypeError, match="expected \\(ok, detail\\)"):
        compare(_t(1), _t(1), comparator=lambda *_, **__: answer)


@pytest.mark.parametrize("show", [0, 1, 3, 50])
def test_show_says_how_many(show):
    verdict = compare(torch.zeros(40), torch.ones(40), show=show)
    assert [e.index for e in verdict.shown] == [(i,) for i in range(min(show, 40))]


@pytest.mark.parametrize("show", [0, 3, 8, 20, 100])
def test_as_many_are_shown_as_there_are(show):
    """Over many blocks, of which only some are read again: first ones first, none left out."""
    a = torch.ones(1 << 20)
    wrong = [70_000 * i + 40_000 for i in range(14)] + [980_001, 1_048_000]
    b = a.clone()
    b[wrong] = 1.5
    assert [e.index[0] for e in compare(a, b, show=show).shown] == sorted(wrong)[:show]


def test_the_worst_is_the_first_that_is_not_finite():
    """A NaN has no difference to be largest by; it goes before all others, in a block's end too."""
    a = torch.ones(200_000)
    b = a.clone()
    b[3], b[130_000], b[190_000] = 9e9, NAN, INF
    worst = compare(a, b).worst
    assert worst.index == (130_000,)
    assert math.isnan(worst.got)


def test_the_worst_is_found_in_any_block():
    """The block with the largest difference is not the first that mismatches."""
    a = torch.ones(300_000)
    b = a.clone()
    b[10], b[250_001] = 1.5, 40.0
    verdict = compare(a, b)
    assert verdict.worst.index == (250_001,)
    assert [e.index for e in verdict.shown] == [(10,), (250_001,)]
    assert verdict.max_abs == 39.0


@pytest.mark.parametrize(
    "options",
    [
        {"rtol": -1e-3}, {"rtol": NAN}, {"atol": INF}, {"atol": "1e-2"}, {"rtol": True},
        {"tol_err_ratio": 1.1}, {"tol_err_ratio": -0.1}, {"tol_err_ratio": 5 * NAN},
        {"max_abs_delta": -1.0}, {"max_abs_delta": NAN}, {"equal_nan": 1}, {"check_dtype": None},
        {"catastrophic_check": 0.5},
    ],
    ids=str,
)  # fmt: skip
def test_tolerances_without_a_meaning_are_refused(options):
    """``|a-b| <= nan`` is never true and ``not (|a-b| > nan)`` always: neither may decide."""
    with pytest.raises(UsageError, match=next(iter(options))):
        Tolerance(**options)


def test_a_failure_of_which_no_element_is_wrong_is_no_share_of_zero():
    """As a float it would read as a match."""

    def tail(*_, **__):
        return False, Detail("the tail is not zero", mismatched=0, compared=3)

    verdict = compare(_t(1, 2, 3), _t(1, 2, 3), comparator=tail)
    assert (float(verdict), verdict.status, verdict.mismatched) == (1.0, "fail", 0)
