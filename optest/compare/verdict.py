"""What a comparison says of one candidate of one case."""

from __future__ import annotations

from enum import Enum

FLOOR = 0.005  # a smaller change of the median is never called one
ALPHA = 0.01  # the share of false ones among the changes that are called


class Verdict(str, Enum):
    """In the words that tables show. A ``str``, so that it is written to JSON as it stands."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "same"
    NOISY = "too noisy to say"
    NEW = "new"
    GONE = "gone"
    NOW_WRONG = "now wrong"
    NOW_RIGHT = "now right"
    STILL_WRONG = "still wrong"
    UNTIMED = "not timed"

    def __str__(self) -> str:
        return self.value

    @property
    def changed(self) -> bool:
        """Whether it says that a time changed."""
        return self in {Verdict.FASTER, Verdict.SLOWER}


def is_change(ratio: float, interval: tuple[float, float], adjusted_p: float) -> bool:
    """Whether two times are called apart.

    Three things hold then: the adjusted p is below 1 %, the interval leaves out 1, and the median
    moved by more than half a per cent. Arguments are those of ``of_change``.
    """
    low, high = interval
    return abs(ratio - 1.0) > FLOOR and adjusted_p < ALPHA and not low <= 1.0 <= high


def of_change(
    ratio: float, interval: tuple[float, float], adjusted_p: float, *, threshold: float
) -> Verdict:
    """The verdict on two times.

    Where no change is called, the times are the same where the interval leaves out every change as
    large as the threshold, and too noisy where it does not.

    Args:
        ratio: head's time over base's, above 0.
        interval: between what the ratio lies, 95 %; (0, inf) where nothing can be said.
        adjusted_p: of the family, as ``benjamini_hochberg`` gives it.
        threshold: the change that matters, as a share of base's time; 0.05 is 5 %.
    """
    if is_change(ratio, interval, adjusted_p):
        return Verdict.SLOWER if ratio > 1.0 else Verdict.FASTER
    low, high = interval
    alike = high < 1.0 + threshold and low > 1.0 / (1.0 + threshold)
    return Verdict.SAME if alike else Verdict.NOISY
