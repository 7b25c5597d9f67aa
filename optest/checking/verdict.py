"""What a comparison found: a float (the share of mismatched elements) that knows the rest."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from optest.checking.tolerance import Tolerance
from optest.errors import CheckFailedError

if TYPE_CHECKING:
    from typing_extensions import Self

Status = Literal["pass", "near", "fail"]
Value = bool | int | float | complex
_DEFAULT = Tolerance()
_AS_THEY_ARE = (str, int, bool, type(None))


@dataclass(frozen=True)
class Element:
    """One element of the pair; ``rel_diff`` is ``abs_diff / |want|``."""

    index: tuple[int, ...]
    got: Value
    want: Value
    abs_diff: float
    rel_diff: float


@dataclass(frozen=True)
class Counts:
    """How many elements were compared, and how many were wrong in which way."""

    compared: int = 0
    mismatched: int = 0
    gross: int = 0
    nonfinite: int = 0
    nan_reference: int = 0
    nan_candidate: int = 0
    inf_reference: int = 0
    inf_candidate: int = 0


@dataclass(frozen=True)
class Finding:
    """The record behind a verdict.

    Attributes:
        status: ``pass`` (all match), ``near`` (near misses that the ratio forgives), ``fail``.
        reason: one sentence, empty for a plain pass.
        counts: see ``Counts``.
        max_abs: the largest finite ``|reference - candidate|``.
        worst: the element that is furthest off, or the first that is wrongly NaN or Inf.
        shown: the first mismatched elements.
        pattern: where the mismatches lie, in words.
        tolerance: what was allowed.
        shape: of the reference, unpacked where the dtype packs two values in a byte.
        dtype: as the pair was given, for messages.
        notes: what is worth knowing though it decided nothing.
        msg: the caller's name for the comparison.
    """

    status: Status
    reason: str = ""
    counts: Counts = Counts()
    max_abs: float = 0.0
    worst: Element | None = None
    shown: tuple[Element, ...] = ()
    pattern: str = ""
    tolerance: Tolerance = _DEFAULT
    shape: tuple[int, ...] = ()
    dtype: str = ""
    notes: tuple[str, ...] = ()
    msg: str = ""


class Verdict(float):
    """The share of mismatched elements, 0.0 to 1.0, with everything that was found.

    Arithmetic, comparison, formatting, pickling and pandas see a float. 1.0 where the pair could
    not be compared element by element (shape, dtype or device differ).
    """

    finding: Finding

    def __new__(cls, value: float, finding: Finding) -> Self:
        """A verdict of ``value``, the share of mismatched elements."""
        verdict = super().__new__(cls, value)
        verdict.finding = finding
        return verdict

    @property
    def status(self) -> Status:
        """``pass``, ``near`` or ``fail``."""
        return self.finding.status

    @property
    def passed(self) -> bool:
        """Whether the check passed; near misses that the ratio forgives pass."""
        return self.finding.status != "fail"

    @property
    def reason(self) -> str:
        """Why it failed or came near, one sentence."""
        return self.finding.reason

    @property
    def counts(self) -> Counts:
        """How many elements were wrong in which way."""
        return self.finding.counts

    @property
    def compared(self) -> int:
        """Elements compared."""
        return self.finding.counts.compared

    @property
    def mismatched(self) -> int:
        """Elements outside the bound."""
        return self.finding.counts.mismatched

    @property
    def gross(self) -> int:
        """Elements so far off that no ratio forgives them."""
        return self.finding.counts.gross

    @property
    def max_abs(self) -> float:
        """The largest finite absolute difference."""
        return self.finding.max_abs

    @property
    def worst(self) -> Element | None:
        """The element that is furthest off."""
        return self.finding.worst

    @property
    def shown(self) -> tuple[Element, ...]:
        """The first mismatched elements."""
        return self.finding.shown

    @property
    def pattern(self) -> str:
        """Where the mismatches lie, in words."""
        return self.finding.pattern

    @property
    def notes(self) -> tuple[str, ...]:
        """What is worth knowing though it decided nothing."""
        return self.finding.notes

    @property
    def tolerance(self) -> Tolerance:
        """What was allowed."""
        return self.finding.tolerance

    @property
    def msg(self) -> str:
        """The caller's name for the comparison."""
        return self.finding.msg

    def with_msg(self, msg: str) -> Verdict:
        """The same verdict under a name."""
        if msg == self.finding.msg:
            return self
        return Verdict(float(self), replace(self.finding, msg=msg))

    def raise_if_failed(self) -> None:
        """Raise where the check failed.

        Raises:
            CheckFailedError: with the whole description as its text.
        """
        if not self.passed:
            # Wording is another concern than finding, and it reads verdicts: imported when needed.
            from optest.checking.message import describe

            raise CheckFailedError(describe(self))

    def to_dict(self) -> dict[str, Any]:
        """The verdict as JSON-safe values: NaN, Inf and complex numbers are spelt out."""
        return {"value": float(self), **_encode(self.finding)}

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> Verdict:
        """The inverse of ``to_dict``."""
        fields = {key: _decode(item) for key, item in record.items() if key != "value"}
        fields["counts"] = Counts(**fields["counts"])
        fields["tolerance"] = Tolerance.from_dict(fields["tolerance"])
        fields["worst"] = _element(fields["worst"]) if fields["worst"] else None
        fields["shown"] = tuple(_element(item) for item in fields["shown"])
        for name in ("shape", "notes"):
            fields[name] = tuple(fields[name])
        return cls(float(record["value"]), Finding(**fields))

    def __reduce__(self) -> tuple[Any, ...]:
        return (Verdict, (float(self), self.finding))

    def __copy__(self) -> Verdict:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Verdict:
        return self  # immutable all through


def _element(record: dict[str, Any]) -> Element:
    return Element(**{**record, "index": tuple(record["index"])})


def _encode(value: Any) -> Any:  # noqa: ANN401, PLR0911 - any field of a record, one line a kind
    if type(value) in _AS_THEY_ARE:  # as nearly always
        return value
    if isinstance(value, (Finding, Counts, Element, Tolerance)):
        return {key: _encode(item) for key, item in vars(value).items()}
    if isinstance(value, complex):
        return {"complex": [_encode(value.real), _encode(value.imag)]}
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": repr(value)}
    if isinstance(value, dict):
        return {key: _encode(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_encode(item) for item in value]
    return value


def _decode(value: Any) -> Any:  # noqa: ANN401 - any field of a record
    if isinstance(value, dict):
        if set(value) == {"float"}:
            return float(value["float"])
        if set(value) == {"complex"}:
            return complex(*(_decode(part) for part in value["complex"]))
        return {key: _decode(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_decode(item) for item in value]
    return value
