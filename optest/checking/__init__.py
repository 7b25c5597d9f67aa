"""Whether a result is right: tolerances, the comparison, verdicts and their wording."""

from optest.checking.comparators import Comparator
from optest.checking.compare import compare
from optest.checking.message import describe
from optest.checking.tolerance import Tolerance
from optest.checking.verdict import Counts, Element, Finding, Verdict

__all__ = [
    "Comparator",
    "Counts",
    "Element",
    "Finding",
    "Tolerance",
    "Verdict",
    "compare",
    "describe",
]
