"""The tables. ``migrations`` makes them; this is how the newest version stands.

Text that comes from outside is written through ``text.stored``; dicts and lists are JSON in text,
since PostgreSQL's own JSON type refuses NUL. Cases are found by a digest of what makes them one of
their run: an id may be longer than a PostgreSQL index bears.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import sqlalchemy as sa

VERSION = "0002"
VERSION_TABLE = "optest_schema"

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# SQLite counts rows by itself only in a column of this very type.
_Number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=False)


places = sa.Table(
    "places",
    metadata,
    sa.Column("number", _Number, primary_key=True),
    sa.Column("digest", sa.Text, nullable=False, unique=True),
    _text("host"),
    _text("gfx"),
    _text("device"),
    _text("driver"),
    _text("versions"),
)

runs = sa.Table(
    "runs",
    metadata,
    sa.Column("number", _Number, primary_key=True),
    sa.Column("id", sa.Text, nullable=False, unique=True),
    _text("state"),
    sa.Column("started", sa.Double, nullable=False),
    sa.Column("ended", sa.Double),
    _text("commit_hash"),
    _text("branch"),
    sa.Column("dirty", sa.Boolean, nullable=False),
    _text("mode"),
    _text("optest"),
    sa.Column("place_number", _Number, sa.ForeignKey(places.c.number), nullable=False),
    _text("environment"),
    _text("arguments"),
)

# A unit of a run, and what became of it: status is NULL until its result is there.
cases = sa.Table(
    "cases",
    metadata,
    sa.Column("number", _Number, primary_key=True),
    sa.Column(
        "run_number", _Number, sa.ForeignKey(runs.c.number, ondelete="CASCADE"), nullable=False
    ),
    sa.Column("digest", sa.LargeBinary, nullable=False),
    sa.Column("id_hash", sa.BigInteger, nullable=False),
    _text("id"),
    _text("file"),
    _text("function"),
    _text("arguments"),
    _text("node"),
    sa.Column("position", sa.BigInteger, nullable=False),
    _text("table_name"),
    sa.Column("planned", sa.Boolean, nullable=False),
    sa.Column("status", sa.Text),
    sa.Column("seconds", sa.Double),
    sa.Column("started", sa.Double),
    sa.Column("seed", sa.BigInteger),
    sa.Column("peak_bytes", sa.BigInteger),
    sa.Column("device_peak_bytes", sa.BigInteger),
    sa.Column("neighbours", sa.Integer),
    sa.Column("place_number", _Number, sa.ForeignKey(places.c.number)),
    sa.Column("findings", sa.Text),
    sa.Column("unguarded", sa.Text),
    sa.Column("left_changed", sa.Text),
    sa.UniqueConstraint("run_number", "digest"),
    sa.Index("ix_cases_id_hash", "id_hash"),
    sa.Index("ix_cases_run_number_status", "run_number", "status"),
)


def _case() -> sa.Column[int]:
    key = sa.ForeignKey(cases.c.number, ondelete="CASCADE")
    return sa.Column("case_number", _Number, key, primary_key=True, autoincrement=False)


def _position() -> sa.Column[int]:
    return sa.Column("position", sa.Integer, primary_key=True, autoincrement=False)


candidates = sa.Table(
    "candidates",
    metadata,
    sa.Column("number", _Number, primary_key=True),
    sa.Column("digest", sa.Text, nullable=False, unique=True),
    _text("name"),
)

# A case, a candidate and a quantity. value: the number, of a timing its median in microseconds, of
# a verdict its share. detail: what the value alone does not say, as JSON. samples: of a timing, as
# packing has them. check_position: of a verdict, the position of the check whose verdict it is.
measures = sa.Table(
    "measures",
    metadata,
    _case(),
    _position(),
    sa.Column("candidate_number", _Number, sa.ForeignKey(candidates.c.number), nullable=False),
    _text("quantity"),
    _text("kind"),
    sa.Column("value", sa.Double),
    sa.Column("detail", sa.Text),
    sa.Column("samples", sa.LargeBinary),
    sa.Column("check_position", sa.Integer),
)

verdicts = sa.Table(
    "verdicts",
    metadata,
    _case(),
    _position(),
    sa.Column("status", sa.Text),
    sa.Column("value", sa.Double),
    _text("detail"),
    sqlite_with_rowid=False,
)

failures = sa.Table(
    "failures",
    metadata,
    _case(),
    _text("reason"),
    _text("text"),
)

# What a place can do: a ceiling a row; those of one place and one moment belong together.
peaks = sa.Table(
    "peaks",
    metadata,
    sa.Column("number", _Number, primary_key=True),
    sa.Column("place_number", _Number, sa.ForeignKey(places.c.number), nullable=False),
    sa.Column("measured", sa.Double, nullable=False),
    _text("kind"),
    _text("name"),
    sa.Column("threads", sa.Integer, nullable=False),
    sa.Column("value", sa.Double, nullable=False),
    sa.Column("nbytes", sa.BigInteger, nullable=False),
    sa.Index("ix_peaks_place_number_measured", "place_number", "measured"),
)


def digest(parts: Iterable[str]) -> bytes:
    """16 bytes that stand for these texts in this order."""
    joined = "\x00".join(f"{len(part)}:{part}" for part in parts)
    return hashlib.sha256(joined.encode("utf-8", "surrogatepass")).digest()[:16]


def id_hash(case_id: str) -> int:
    """A 63-bit number of a case's id, for an index; two ids may share one."""
    whole = hashlib.sha256(case_id.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(whole[:8], "little") >> 1
