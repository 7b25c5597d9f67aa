"""OT1xx: the test function."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TypeVar

from optest.lint.finding import Hit
from optest.lint.rule import Rule
from optest.lint.script import Script
from optest.lint.source import Function

_Node = TypeVar("_Node", bound=ast.AST)


def _undecorated(script: Script) -> Iterator[Hit]:
    for function in script.benchmarks:
        decorator = script.decorator(function, "benchmark")
        if not isinstance(decorator, ast.Call):
            yield Hit(function, "@benchmark needs its brackets: write @benchmark()")
    for function in script.undecorated:
        yield Hit(
            function,
            f"{function.name} times or checks candidates and is no case: put @benchmark() above "
            "it, which makes its arguments the table's left columns",
        )
    if not script.tests:
        yield Hit(
            None,
            "there is no test function: put inputs, reference and candidates into one "
            "test_<op>(shape, dtype) under @benchmark(), which main() calls for each shape",
        )


def _rowless(script: Script) -> Iterator[Hit]:
    for function in script.benchmarks:
        returns = _own(script, ast.Return, function)
        empty = [node for node in returns if _is_none(node.value)]
        for node in empty:
            yield Hit(
                node,
                "a return without a row leaves a row of arguments alone in the table: skip whole "
                "archs in main(), single candidates by not adding them to the dict",
            )
        yields = [*_own(script, ast.Yield, function), *_own(script, ast.YieldFrom, function)]
        if not returns and not yields and not isinstance(function.body[-1], ast.Raise):
            yield Hit(
                function,
                f"{function.name} returns nothing, so its row holds arguments alone: return the "
                "dict of gfx, us, TFLOPS, TB/s and err",
            )


def _own(script: Script, kind: type[_Node], function: Function) -> list[_Node]:
    """Nodes of one kind in the function, without those of functions inside it."""
    every = script.source.of(kind, function)
    return [node for node in every if script.source.function_of(node) is function]


def _is_none(value: ast.expr | None) -> bool:
    return value is None or (isinstance(value, ast.Constant) and value.value is None)


def _uncalled(script: Script) -> Iterator[Hit]:
    looked_up = [n for n in script.source.of(ast.Name) if n.id in ("globals", "getattr", "vars")]
    if looked_up:
        return  # called by a name that is made while it runs, perhaps
    candidates = {id(f): f for f in script.functions.values() if f.name.startswith("test_")}
    candidates |= {id(f): f for f in script.benchmarks if f.name in script.functions}
    for function in candidates.values():
        if not script.uses(function) and not _is_for_pytest(script, function):
            yield Hit(
                function,
                f"nothing calls {function.name}, so it tests nothing: sweep it in main() and "
                "print its own table, or delete it",
            )


def _is_for_pytest(script: Script, function: Function) -> bool:
    roots = (
        origin.partition(".")[0]
        for decorator in function.decorator_list
        for node in script.source.within(decorator)
        for origin in script.names.origins(node)
    )
    return "pytest" in roots


def _nested(script: Script) -> Iterator[Hit]:
    for function in script.benchmarks:
        around = script.source.function_of(function)
        if around is not None:
            yield Hit(
                function,
                f"{function.name} stands inside {around.name}() where no other script can import "
                "it: move it to the top level and pass what it uses as parameters",
            )


RULES = (
    Rule(
        "OT101",
        "test function without @benchmark()",
        "The decorator makes each call a case: it has a name, seeds, a row, and fails the run "
        "where a check fails or an exception comes. A plain function has none of these.",
        "def test_scale(m, n, dtype): ...",
        "@benchmark()\ndef test_scale(m, n, dtype): ...",
        _undecorated,
    ),
    Rule(
        "OT102",
        "@benchmark() function that returns no row",
        "The decorator always adds a row of arguments. A bare return inside leaves it in the "
        "table with empty cells, as if the card had been tested.",
        '@benchmark()\ndef test_scale(m, n, dtype):\n    if get_gfx() == "gfx1250":\n'
        "        return",
        "def main():\n    if get_gfx() not in SUPPORTED_GFX:\n"
        '        logger.warning("scale is not supported on %s; skipping", get_gfx())\n'
        "        return",
        _rowless,
    ),
    Rule(
        "OT103",
        "test function that nothing calls",
        "A script runs what main() calls. A test_ function that nobody calls looks like a test "
        "and is none. Functions under a decorator of pytest are left to pytest.",
        'def main():\n    summarize("scale", [test_scale(16, 128, dtypes.bf16)])\n\n\n'
        "# and test_scale_backward is never named",
        'def main():\n    summarize("scale", [test_scale(16, 128, dtypes.bf16)])\n'
        '    summarize("scale_backward", [test_scale_backward(16, 128, dtypes.bf16)])',
        _uncalled,
    ),
    Rule(
        "OT104",
        "test function inside another function",
        "Test functions stay at the top level, so that other scripts can import and combine them.",
        "def main():\n    @benchmark()\n    def test_scale(m, n, dtype): ...",
        "@benchmark()\ndef test_scale(m, n, dtype): ...\n\n\ndef main(): ...",
        _nested,
    ),
)
