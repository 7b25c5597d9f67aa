"""All rules, by code, and what a user may name of them."""

from __future__ import annotations

from collections.abc import Iterable

from optest.errors import UsageError
from optest.lint import (
    rules_arch,
    rules_check,
    rules_function,
    rules_inputs,
    rules_main,
    rules_measure,
    rules_noqa,
    rules_row,
    rules_table,
)
from optest.lint.rule import Rule

GROUPS = {
    "OT0": "Exceptions that a file claims",
    "OT1": "The test function",
    "OT2": "Candidates and the row",
    "OT3": "What is timed",
    "OT4": "What is checked",
    "OT5": "main(), the command line and the tables",
    "OT6": "Cards",
    "OT7": "Inputs",
}
RULES: dict[str, Rule] = {
    rule.code: rule
    for rules in (
        rules_noqa.RULES,
        rules_function.RULES,
        rules_row.RULES,
        rules_measure.RULES,
        rules_check.RULES,
        rules_main.RULES,
        rules_table.RULES,
        rules_arch.RULES,
        rules_inputs.RULES,
    )
    for rule in rules
}


def chosen(select: Iterable[str], ignore: Iterable[str]) -> frozenset[str]:
    """Codes to look for: those selected (all where none is), without those ignored.

    A code may be shortened to its group: ``OT5``; several are separated by commas.

    Raises:
        UsageError: a word that begins no code.
    """
    selected = _codes("--select", select) or frozenset(RULES)
    return selected - _codes("--ignore", ignore)


def named(code: str) -> Rule:
    """The rule of a code.

    Raises:
        UsageError: there is none.
    """
    found = RULES.get(code.strip().upper())
    if found is None:
        raise UsageError(f"--explain {code!r}: expected one of {', '.join(RULES)}")
    return found


def _codes(option: str, words: Iterable[str]) -> frozenset[str]:
    found: set[str] = set()
    for word in (part.strip() for each in words for part in each.split(",")):
        matching = [code for code in RULES if word and code.startswith(word.upper())]
        if not matching:
            raise UsageError(
                f"{option} {word!r}: expected codes such as OT101, or groups such as OT5, "
                f"separated by commas; there are {', '.join(RULES)}"
            )
        found.update(matching)
    return frozenset(found)
