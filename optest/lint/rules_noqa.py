"""OT0xx: exceptions that a file claims. They are judged when all other rules have spoken."""

from __future__ import annotations

from collections.abc import Iterator

from optest.lint.finding import Hit
from optest.lint.rule import Rule
from optest.lint.script import Script

NO_REASON, NO_USE = "OT001", "OT002"


def _judged_last(_script: Script) -> Iterator[Hit]:
    """Nothing: whether an exception is of use is known only after all other rules."""
    return iter(())


RULES = (
    Rule(
        NO_REASON,
        "noqa without a reason",
        "An exception is fine where somebody can say why. The reason stands behind the code.",
        "@benchmark()\ndef test_scale(m, n, dtype):  # noqa: OT204\n    ...",
        "@benchmark()\ndef test_scale(m, n, dtype):  # noqa: OT204 the op is made for one card\n"
        "    ...",
        _judged_last,
    ),
    Rule(
        NO_USE,
        "noqa that suppresses nothing",
        "It hides the next mistake on that line. Neither this nor OT001 can be suppressed.",
        'ret = {"gfx": get_gfx()}  # noqa: OT204 the op is made for one card',
        'ret = {"gfx": get_gfx()}',
        _judged_last,
    ),
)
