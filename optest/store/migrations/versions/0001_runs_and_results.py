# ruff: noqa: INP001 - alembic loads it by its path
"""Runs, their cases, and what was measured, judged and said of each."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make the first tables."""
    _places()
    _runs()
    _cases()
    _measures()
    _words()


def _key(table: str) -> list[sa.schema.SchemaItem]:
    return [
        sa.Column("number", _NUMBER, nullable=False),
        sa.PrimaryKeyConstraint("number", name=f"pk_{table}"),
    ]


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), nullable=False)


def _reference(table: str, to: str, *, nullable: bool = False) -> list[sa.schema.SchemaItem]:
    column = f"{to.removesuffix('s')}_number"
    return [
        sa.Column(column, _NUMBER, nullable=nullable),
        sa.ForeignKeyConstraint(
            [column],
            [f"{to}.number"],
            name=f"fk_{table}_{column}_{to}",
            ondelete="CASCADE" if to in {"runs", "cases"} else None,
        ),
    ]


def _places() -> None:
    op.create_table(
        "places",
        *_key("places"),
        _text("digest"),
        _text("host"),
        _text("gfx"),
        _text("device"),
        _text("driver"),
        _text("versions"),
        sa.UniqueConstraint("digest", name="uq_places_digest"),
    )


def _runs() -> None:
    op.create_table(
        "runs",
        *_key("runs"),
        _text("id"),
        _text("state"),
        sa.Column("started", sa.Double(), nullable=False),
        sa.Column("ended", sa.Double()),
        _text("commit_hash"),
        _text("branch"),
        sa.Column("dirty", sa.Boolean(), nullable=False),
        _text("mode"),
        _text("optest"),
        *_reference("runs", "places"),
        _text("environment"),
        _text("arguments"),
        sa.UniqueConstraint("id", name="uq_runs_id"),
    )


def _cases() -> None:
    op.create_table(
        "cases",
        *_key("cases"),
        *_reference("cases", "runs"),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("id_hash", sa.BigInteger(), nullable=False),
        _text("id"),
        _text("file"),
        _text("function"),
        _text("arguments"),
        _text("node"),
        sa.Column("position", sa.BigInteger(), nullable=False),
        _text("table_name"),
        sa.Column("planned", sa.Boolean(), nullable=False),
        sa.Column("status", sa.Text()),
        sa.Column("seconds", sa.Double()),
        sa.Column("started", sa.Double()),
        sa.Column("seed", sa.BigInteger()),
        sa.Column("peak_bytes", sa.BigInteger()),
        sa.Column("device_peak_bytes", sa.BigInteger()),
        sa.Column("neighbours", sa.Integer()),
        *_reference("cases", "places", nullable=True),
        sa.Column("findings", sa.Text()),
        sa.Column("unguarded", sa.Text()),
        sa.Column("left_changed", sa.Text()),
        sa.UniqueConstraint("run_number", "digest", name="uq_cases_run_number_digest"),
    )
    op.create_index("ix_cases_id_hash", "cases", ["id_hash"])
    op.create_index("ix_cases_run_number_status", "cases", ["run_number", "status"])


def _measures() -> None:
    op.create_table(
        "candidates",
        *_key("candidates"),
        _text("digest"),
        _text("name"),
        sa.UniqueConstraint("digest", name="uq_candidates_digest"),
    )
    op.create_table(
        "measures",
        *_reference("measures", "cases"),
        sa.Column("position", sa.Integer(), nullable=False),
        *_reference("measures", "candidates"),
        _text("quantity"),
        _text("kind"),
        sa.Column("value", sa.Double()),
        sa.Column("detail", sa.Text()),
        sa.Column("samples", sa.LargeBinary()),
        sa.Column("check_position", sa.Integer()),
        sa.PrimaryKeyConstraint("case_number", "position", name="pk_measures"),
    )


def _words() -> None:
    op.create_table(
        "verdicts",
        *_reference("verdicts", "cases"),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("status", sa.Text()),
        sa.Column("value", sa.Double()),
        _text("detail"),
        sa.PrimaryKeyConstraint("case_number", "position", name="pk_verdicts"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "failures",
        *_reference("failures", "cases"),
        _text("reason"),
        _text("text"),
        sa.PrimaryKeyConstraint("case_number", name="pk_failures"),
    )
