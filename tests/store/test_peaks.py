"""Ceilings of machines: kept whole, found by arch and device, in a table that old stores get."""

from __future__ import annotations

from dataclasses import replace

import pytest
import sqlalchemy as sa
from store_examples import FACTS, PLACE, planned, result

from optest.errors import StoreError
from optest.store import Store, migrate
from optest.store.database import Database
from optest.store.records import Ceiling, Peaks
from optest.store.url import parse

CEILINGS = (
    Ceiling("read", "L1", 1, 2.5e11, 49_152),
    Ceiling("copy", "memory", 2, 2.0e10, 1 << 40),
    Ceiling("matrix", "bf16", 2, 1.5e12, 25_165_824),
    Ceiling("launch", "csrc", 1, 0.75),
)


def measured(at=1_700_000_000.25, place=PLACE, ceilings=CEILINGS):
    return Peaks(place, at, ceilings)


def test_what_was_measured_comes_back_whole_and_in_order(store):
    store.record_peaks(measured())
    assert store.peaks(PLACE) == measured()


def test_a_machine_that_nobody_measured_has_none(store):
    store.record_peaks(measured())
    assert store.peaks(replace(PLACE, gfx="gfx942")) is None
    assert store.peaks(replace(PLACE, device="Another CPU")) is None


def test_the_newest_ceilings_are_meant_and_the_older_stay(store):
    newer = measured(at=1_700_000_001.0, ceilings=CEILINGS[:1])
    store.record_peaks(newer)
    store.record_peaks(measured())  # written later, measured before
    assert store.peaks(PLACE) == newer
    count = store._database.read(
        lambda c: c.execute(sa.text("SELECT count(*) FROM peaks")).scalar()
    )
    assert count == len(CEILINGS) + 1


def test_the_same_host_goes_before_a_newer_measurement_on_its_like(store):
    elsewhere = measured(at=1_800_000_000.0, place=replace(PLACE, host="other"))
    store.record_peaks(measured())
    store.record_peaks(elsewhere)
    assert store.peaks(PLACE) == measured()
    assert store.peaks(replace(PLACE, host="third")) == elsewhere


def test_another_torch_on_the_same_device_is_the_same_device(store):
    store.record_peaks(measured())
    now = replace(PLACE, versions={"torch": "9"}, driver="2")
    assert store.peaks(now) == measured()


def test_writing_the_same_measurement_twice_doubles_nothing(store):
    for _ in range(2):
        store.record_peaks(measured())
    assert store.peaks(PLACE).ceilings == CEILINGS


def test_names_that_a_database_refuses_are_kept(store):
    odd = (Ceiling("read", "L\x00\ud800", 0, 1.0),)
    store.record_peaks(measured(ceilings=odd))
    assert store.peaks(PLACE).ceilings == odd


def test_no_ceiling_at_all_is_refused(store):
    with pytest.raises(StoreError, match="none was measured"):
        store.record_peaks(measured(ceilings=()))


def test_a_store_from_before_the_table_keeps_its_results_and_gets_it(url):
    database = Database(at(url))
    migrate.bring_up(database, version="0001")
    old = Store(database)
    run = old.begin(FACTS)
    old.plan(run, [planned(1), planned(2)])
    old.record(run, result(1, "failed"))
    old.end(run, "complete")
    assert "peaks" not in tables(old)
    before = old.find(run)
    old.close()
    with Store.open(url) as store:
        assert tables(store) >= {"peaks", "runs", "cases", "measures"}
        assert store.find(run) == before
        assert list(store.results(run)) == [result(1, "failed")]
        assert store.missing(run) == [planned(1), planned(2)]
        store.record_peaks(measured())
        assert store.peaks(PLACE) == measured()


def at(text):
    return parse(text)


def tables(store):
    return store._database.read(lambda c: {*sa.inspect(c).get_table_names()})


def test_the_best_ceiling_of_a_name_is_the_highest_of_the_kinds_asked_for():
    peaks = measured(
        ceilings=(
            Ceiling("read", "memory", 1, 1.0),
            Ceiling("copy", "memory", 2, 3.0),
            Ceiling("read", "memory", 2, 2.0),
            Ceiling("launch", "memory", 1, 9.0),
        )
    )
    assert peaks.best(("read", "copy"), "memory").value == 3.0
    assert peaks.best(("read",), "memory").value == 2.0
    assert peaks.best(("read",), "L1") is None
