"""Versions of the tables: old ones are brought forward, newer ones refused."""

from __future__ import annotations

import shutil

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from store_examples import FACTS, planned, result

from optest.errors import StoreError
from optest.store import Store, migrate, schema

NEXT = """
import sqlalchemy as sa
from alembic import op

revision = "9001"
down_revision = {last!r}

def upgrade():
    op.add_column("runs", sa.Column("weather", sa.Text(), nullable=False, server_default="fine"))
    op.execute("UPDATE runs SET weather = 'rain' WHERE branch = 'main'")
    {more}
"""


def versions():
    config = Config()
    config.set_main_option("script_location", str(migrate.SCRIPTS))
    return ScriptDirectory.from_config(config)


def scripts(tmp_path, more=""):
    """The scripts of an optest to come: ours and one more."""
    folder = tmp_path / "100% scripts"
    shutil.copytree(migrate.SCRIPTS, folder, ignore=shutil.ignore_patterns("__pycache__"))
    text = NEXT.format(last=schema.VERSION, more=more)
    (folder / "versions" / "9001_weather.py").write_text(text)
    return folder


def test_the_tables_that_the_migrations_make_are_those_that_the_code_uses(store):
    def differences(connection):
        options = {"version_table": schema.VERSION_TABLE, "compare_type": True}
        return compare_metadata(
            MigrationContext.configure(connection, opts=options), schema.metadata
        )

    assert store._database.read(differences) == []
    assert versions().get_heads() == [schema.VERSION]


def test_a_store_of_an_older_version_is_brought_forward_with_its_rows(store, url, tmp_path):
    run = store.begin(FACTS)
    store.plan(run, [planned(1), planned(2)])
    store.record(run, result(1, "failed"))
    folder = scripts(tmp_path)
    for _ in range(2):  # the second finds nothing to do
        migrate.bring_up(store._database, folder, "9001")
    weather = store._database.read(
        lambda c: c.execute(sa.text("SELECT weather FROM runs")).scalars().all()
    )
    assert weather == ["rain"]
    assert list(store.results(run)) == [result(1, "failed")]
    assert store.missing(run) == [planned(1), planned(2)]


def test_a_migration_that_fails_leaves_the_version_it_found(store, url, tmp_path):
    run = store.begin(FACTS)
    folder = scripts(tmp_path, more='op.execute("SELECT nonsense FROM nowhere")')
    with pytest.raises(StoreError, match="nowhere"):
        migrate.bring_up(store._database, folder, "9001")
    with Store.open(url) as again:
        assert [each.id for each in again.runs()] == [run]
        assert "weather" not in again._database.read(
            lambda c: {column["name"] for column in sa.inspect(c).get_columns("runs")}
        )


def test_a_store_of_a_newer_version_is_refused_and_left_alone(store, url, tmp_path):
    run = store.begin(FACTS)
    migrate.bring_up(store._database, scripts(tmp_path), "9001")
    words = rf"by a newer optest \(version 9001 .* up to {schema.VERSION}\): update optest"
    with pytest.raises(StoreError, match=words):
        Store.open(url)
    assert store.find("latest").id == run
