"""How many threads torch uses while a golden function runs, and only then."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from optest import settings
from optest.errors import SettingError
from optest.timing.threads import threads

OURS, UPSTREAMS = "OPTEST_GOLDEN_NUM_THREADS", "PYPTO_GOLDEN_NUM_THREADS"


def wanted() -> int | None:
    """Threads asked for by the environment, ours before upstream's; None leaves torch its own.

    Raises:
        SettingError: (a ValueError) a variable that holds no positive integer.
    """
    ours = settings.get(OURS)
    if ours is not None:
        assert isinstance(ours, int)
        return ours
    text = settings.get(UPSTREAMS)
    if text is None:
        return None
    assert isinstance(text, str)
    if text.isascii() and text.isdigit() and int(text) > 0:
        return int(text)
    raise SettingError(
        f"{UPSTREAMS} must be a positive integer, got {text!r}. Correct it or unset it."
    )


def reference_threads(count: int | None) -> AbstractContextManager[None]:
    """Inside, torch computes on ``count`` threads; before and after on as many as it had."""
    return nullcontext() if count is None else threads(count)
