# ruff: noqa: INP001 - alembic loads it by its path
"""What machines can do: the ceilings that ``optest peaks`` measured."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make the table of ceilings."""
    op.create_table(
        "peaks",
        sa.Column("number", _NUMBER, nullable=False),
        sa.Column("place_number", _NUMBER, nullable=False),
        sa.Column("measured", sa.Double(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("threads", sa.Integer(), nullable=False),
        sa.Column("value", sa.Double(), nullable=False),
        sa.Column("nbytes", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_peaks"),
        sa.ForeignKeyConstraint(
            ["place_number"], ["places.number"], name="fk_peaks_place_number_places"
        ),
    )
    op.create_index("ix_peaks_place_number_measured", "peaks", ["place_number", "measured"])
