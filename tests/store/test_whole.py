"""What was recorded comes back equal: every type, every character, every order."""

from __future__ import annotations

import json
import math
import string
from dataclasses import asdict, replace

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from store_examples import FACTS, result, timing, verdict

from optest.store import columns, packing
from optest.store.records import Place, Planned, Result
from optest.store.text import bounded, restored, stored

# Surrogates, NUL and the mark of what is escaped are as likely as a letter.
WORDS = st.text(
    st.characters(exclude_categories=()) | st.sampled_from("\x00\ud800\udfff\ufdd0\\\"'%:? az"),
    max_size=12,
)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | st.integers() | FLOATS | WORDS
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)
SAMPLES = st.lists(FLOATS | st.floats(width=32, allow_nan=False, allow_infinity=False) | st.none())
TIMINGS = st.builds(
    lambda samples, more: {**more, "median_us": 1.5, "samples_us": samples},
    SAMPLES,
    st.dictionaries(WORDS, JSON, max_size=2),
)
VERDICTS = st.builds(
    lambda value, more: {"value": value, "tolerance": {}, "counts": {}, **more},
    SCALARS,
    st.dictionaries(WORDS, JSON, max_size=2),
)
NAMES = st.builds("{} {}".format, WORDS, WORDS) | st.sampled_from(["us", "cpp us", "cpp err"])
ROWS = st.dictionaries(NAMES, JSON | TIMINGS | VERDICTS, max_size=5)
LONG = st.integers(-(2**63), 2**63 - 1)
DICTS = st.dictionaries(WORDS, JSON, max_size=2)
PLACES = st.builds(Place, WORDS, WORDS, WORDS, WORDS, st.dictionaries(WORDS, WORDS, max_size=2))
PLANNED = st.builds(Planned, WORDS, WORDS, WORDS, DICTS, WORDS, LONG, WORDS)
RESULTS = st.builds(
    Result,
    planned=PLANNED,
    status=WORDS,
    reason=WORDS,
    text=WORDS,
    seconds=FLOATS.map(abs),
    seed=st.none() | LONG,
    row=ROWS,
    checks=st.lists(st.builds(lambda v: {"verdict": v}, VERDICTS) | DICTS, max_size=3),
    findings=st.lists(DICTS, max_size=2),
    unguarded=st.lists(WORDS, max_size=2),
    left=st.lists(WORDS, max_size=2),
    peak_bytes=st.none() | LONG,
    device_peak_bytes=st.none() | LONG,
    neighbours=st.integers(0, 1000),
    place=PLACES,
    started=FLOATS.map(abs),
)
UNHURRIED = settings(
    max_examples=100,
    deadline=None,
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def spelt(record):
    """Apart where ``==`` sees no difference: 1, 1.0 and True, the order of columns."""
    return json.dumps(asdict(record))


@UNHURRIED
@given(made=RESULTS)
def test_any_result_comes_back_as_it_was(store, made):
    run = store.begin(FACTS)
    store.record(run, made)
    (back,) = store.results(run)
    assert spelt(back) == spelt(made)
    assert spelt(store.latest(made.planned.id)) == spelt(made)


@UNHURRIED
@given(
    units=st.lists(PLANNED, max_size=4, unique_by=lambda unit: unit.key), words=WORDS, more=DICTS
)
def test_any_plan_and_any_facts_come_back_as_they_were(store, units, words, more):
    facts = replace(FACTS, branch=words, commit=words, arguments=more, environment={"A": words})
    run = store.begin(facts)
    store.plan(run, units)
    found = store.planned(run)
    assert sorted(map(spelt, found)) == sorted(map(spelt, units))
    assert [unit.position for unit in found] == sorted(unit.position for unit in units)
    assert store.missing(run) == found
    assert spelt(store.find(run).facts) == spelt(facts)


@pytest.mark.parametrize("number", [-0.0, 5e-324, 1.7e308, 2**63, -(10**400), True, 1, 1.0])
def test_a_number_keeps_its_kind_and_its_sign(store, number):
    run = store.begin(FACTS)
    made = result(1, row={"cpp us": number}, checks=[])
    store.record(run, made)
    assert spelt(next(store.results(run))) == spelt(made)


@pytest.mark.parametrize(
    ("given_", "kept"),
    [
        (math.nan, None),
        (math.inf, "inf"),
        (-math.inf, "-inf"),
        ({"deep": [math.nan, {"er": math.inf}]}, {"deep": [None, {"er": "inf"}]}),
        ({**timing(), "samples_us": [1.0, math.nan]}, {**timing(), "samples_us": [1.0, None]}),
        ({**verdict(), "value": math.nan}, {**verdict(), "value": None}),
    ],
)
def test_nan_is_kept_as_none_and_infinity_as_text(store, given_, kept):
    run = store.begin(FACTS)
    store.record(run, result(1, row={"cpp us": given_}, checks=[{"verdict": given_}]))
    (back,) = store.results(run)
    assert back.row == {"cpp us": kept}
    assert back.checks == [{"verdict": kept}]


def test_a_long_text_keeps_its_head_and_its_tail(store):
    run = store.begin(FACTS)
    text = "".join(f"line {n}\n" for n in range(1_000_000))
    store.record(run, result(1, "error", reason=text, text=text, row={"error": text}))
    (back,) = store.results(run)
    for kept, longest in ((back.text, 210_000), (back.reason, 4_100), (back.row["error"], 210_000)):
        assert len(kept) < longest
        assert kept.startswith("line 0\nline 1\n")
        assert kept.endswith("line 999999\n")
        assert "characters left out" in kept


def test_a_text_of_the_longest_length_is_left_alone():
    assert bounded("x" * 10, 10) == "x" * 10
    assert bounded("0123456789a", 10) == "01234\n… 1 characters left out …\n6789a"


@pytest.mark.parametrize(
    "text", ["", "plain", "\x00", "a\ud800b", "\ufdd0", "ü\U0001f600", "\\u0000"]
)
def test_what_a_column_holds_has_no_nul_and_no_surrogate(text):
    held = stored(text)
    assert "\x00" not in held
    held.encode()
    assert restored(held) == text
    assert (held == text) == (text not in {"\x00", "a\ud800b", "\ufdd0"})


@pytest.mark.parametrize(
    ("samples", "bytes_each"),
    [
        ([0.1, 0.2], 8),
        ([0.5, -0.0, 1e-3], 8),
        ([0.5, 1.25], 4),
        ([1e300], 8),
        ([5e-324], 8),
    ],
)
def test_samples_take_four_bytes_where_that_loses_nothing(samples, bytes_each):
    data = packing.packed(samples)
    assert len(data) == 1 + bytes_each * len(samples)
    assert list(map(str, packing.unpacked(data))) == list(map(str, samples))


@pytest.mark.parametrize(
    "samples", [[], None, [1], [True], [1.0, None], [math.nan], [math.inf], "ab"]
)
def test_what_is_no_list_of_numbers_is_not_packed(samples):
    assert packing.packed(samples) is None


def test_bytes_that_are_no_samples_are_refused():
    with pytest.raises(ValueError, match="samples that begin with b'x'"):
        packing.unpacked(b"x1234")


@pytest.mark.parametrize(
    ("column", "parts"),
    [
        ("us", ("", "us")),
        ("cpp us", ("cpp", "us")),
        ("ck asm TB/s", ("ck asm", "TB/s")),
        (" us", ("", " us")),
        ("cpp ", ("", "cpp ")),
        ("", ("", "")),
        ("  ", ("", "  ")),
    ],
)
def test_a_column_is_a_candidate_and_a_quantity(column, parts):
    assert columns.split(column) == parts


@given(st.text(string.ascii_letters + "  \x00", max_size=8))
def test_a_column_that_was_split_is_joined_again(column):
    assert columns.joined(*columns.split(column)) == column


def test_words_that_nothing_measured_follows_are_no_candidate():
    row = {"gfx": "cpu", "best kernel": "cpp", "cpp us": timing(), "cpp note": "fast", "us": None}
    assert columns.by_candidate(row) == {
        "": {"gfx": "cpu", "best kernel": "cpp", "us": None},
        "cpp": {"us": timing(), "note": "fast"},
    }


def test_a_verdict_that_a_check_holds_already_is_stored_once(sqlite):
    run = sqlite.begin(FACTS)
    sqlite.record(run, result(1))
    kept = sqlite._database.read(
        lambda c: c.exec_driver_sql(
            "SELECT check_position, detail FROM measures WHERE kind = 'verdict'"
        ).fetchall()
    )
    assert kept == [(0, None), (1, None)]


def test_results_share_the_places_and_names_that_they_have_in_common(sqlite):
    run = sqlite.begin(FACTS)
    for n in range(3):
        sqlite.record(run, result(n))
    tables = ("places", "candidates", "cases")
    counts = [
        sqlite._database.read(
            lambda c, table=table: c.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar()
        )
        for table in tables
    ]
    assert counts == [1, 3, 3]
