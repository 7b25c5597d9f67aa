"""Faults planted in our own op tests, which are longer and odder than the cases: all are found."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from optest.lint import catalogue
from optest.lint.run import violations
from optest.lint.script import Script
from optest.lint.source import parse

OP_TESTS = sorted((Path(__file__).parents[2] / "op_tests").glob("test_*.py"))
PLANTS = [
    ("OT101", r"@benchmark\(.*\)\n", ""),
    ("OT102", r"    return (ret|(?:run_case|measured)\(.*\))\n", "    return\n"),
    ("OT103", r"def main\(\):", "@benchmark()\ndef test_more(m):\n    return {}\n\n\ndef main():"),
    ("OT201", r"for name, fn in candidates.items\(\):", "for name, fn in [('a', torch.mul)]:"),
    ("OT202", r".* TFLOPS\"\] = .*\n", ""),
    ("OT202", r".* TB/s\"\] = .*\n", ""),
    ("OT203", r"(    return ret\n)", r"    ret['gain'] = us / us\n\1"),
    ("OT204", r'"gfx": get_gfx\(\)', ""),
    ("OT205", r".* err\"\] = .*\n", ""),
    ("OT301", r"= run_perftest\(", "= mine("),
    ("OT302", r"candidates = \{", "candidates = {'torch': lambda *a: run_torch(*a),"),
    ("OT303", r"from optest\.test_common import", "from aiter.test_common import"),
    ("OT401", r"checkAllclose\(", "print("),
    ("OT402", r"(    return ret\n)", r"    torch.allclose(want, want)\n\1"),
    ("OT403", r"(tol_err_ratio(?:=|\": ))[0-9.e-]+", r"\g<1>1"),
    ("OT404", r"(    return ret\n)", r"    checkAllclose(ret, ret)\n\1"),
    ("OT501", r'if __name__ == "__main__":\n    main\(\)', "main()"),
    ("OT502", r"(def main\(\):)", r"ARGS = dtypes.ArgumentParser()\n\n\n\1"),
    ("OT504", r"(    args = parser)", r"    parser.add_argument('--x', action='store_true')\n\1"),
    ("OT505", r'nargs="\+"', 'nargs="?"'),
    ("OT511", r"summarize", "print"),
    ("OT512", r"(\n\nif __name__)", r"    {test}(1)\n\1"),
    ("OT601", r"    if get_gfx\(\) not in(.|\n)*?return\n", ""),
    ("OT602", r"if get_gfx\(\) not in SUPPORTED_GFX[^:]*:", "if get_gfx() in ['gfx906']:"),
    ("OT603", r'"gfx": get_gfx\(\)', '"gfx": "gfx942"'),
]


def found(text):
    script = Script(parse(Path("test_x.py"), text))
    return {v.code for v in violations(script, frozenset(catalogue.RULES))}


@pytest.mark.parametrize(("code", "pattern", "replacement"), PLANTS)
@pytest.mark.parametrize("path", OP_TESTS, ids=lambda path: path.stem)
def test_a_planted_fault_is_found(path, code, pattern, replacement):
    text = path.read_text()
    test = re.search(r"@benchmark.*\n(?:#.*\n)*def (\w+)", text)[1]
    changed, count = re.subn(pattern, replacement.replace("{test}", test), text)
    assert count
    if code == "OT303":
        changed = re.sub(r"run_perftest\(fn, .*\)", "run_perftest(lambda: fn(1))", changed)
    assert code in found(changed)
