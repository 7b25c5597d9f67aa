"""The page about the rules, made from the rules: ``python -m optest.lint.document``."""

from __future__ import annotations

import sys

from optest.lint.catalogue import GROUPS, RULES
from optest.lint.rule import Rule

_HEAD = """# The linter

`optest lint PATH...` holds op tests to the standard they are written by, without importing or
running them. It reads files named `test_*.py` that import `benchmark`, `run_perftest` or
`checkAllclose` from `optest` or from `aiter`; all others pass, tests of `optest.golden` and
`optest.testing` among them.

    optest lint op_tests
    optest lint op_tests --select OT2,OT403 --format github
    optest lint --explain OT201

| exit code | meaning |
|---|---|
| 0 | nothing to say |
| 1 | a rule is broken |
| 2 | a file cannot be read or is no Python, or the command line is wrong |

`--format` is `text` (`path:line:column: code message`), `json` or `github`. Findings go to standard
output, the line of totals to standard error.

The rules look at names and at the shape of the code, so they can be wrong. They are made to be
silent where they cannot tell: what another file does for a test is not judged. Where a rule does
not fit, say so on the line: `# noqa: OT204 the op is made for one card`. A `noqa` needs its reason
and must suppress something. For a function it stands on the line of its `def`, for a call on any of
its lines.

This page is made from the rules: `python -m optest.lint.document > docs/lint.md`.
"""


def page() -> str:
    """The whole page."""
    parts = [_HEAD]
    for group, title in GROUPS.items():
        parts.append(f"## {group}xx: {title}\n")
        parts += [explanation(rule, "###") for rule in RULES.values() if rule.code[:3] == group]
    return "\n".join(parts)


def explanation(rule: Rule, level: str = "#") -> str:
    """One rule: what it asks for, why, and what to write."""
    return (
        f"{level} {rule.code}: {rule.name}\n\n{rule.why}\n\n"
        f"Instead of\n\n```python\n{rule.bad}\n```\n\nwrite\n\n```python\n{rule.good}\n```\n"
    )


if __name__ == "__main__":
    sys.stdout.write(page())
