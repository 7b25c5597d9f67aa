"""OT5xx, second half: the summary tables."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from optest.lint.finding import Hit
from optest.lint.rule import Rule
from optest.lint.rules_main import is_table
from optest.lint.rules_measure import calls_the_unseen
from optest.lint.script import Script
from optest.lint.source import FUNCTIONS


def _no_table(script: Script) -> Iterator[Hit]:
    if calls_the_unseen(script, script.source.within(script.main or script.source.tree)):
        return
    if not any(is_table(script, node) for node in script.source.within()):
        yield Hit(
            script.main,
            'no summary table is printed: collect the rows and call summarize("<op>", rows), '
            "once for each test function",
        )  # fmt: skip


def _row_thrown_away(script: Script) -> Iterator[Hit]:
    for function in script.benchmarks:
        for use in script.uses(function):
            call = script.source.parents[use]
            if not isinstance(call, ast.Call) or call.func is not use:
                continue
            if isinstance(script.source.parents[call], ast.Expr):
                yield Hit(
                    call,
                    f"the row of {function.name} is thrown away: collect it, as "
                    f"rows.append({function.name}(...)), and print the table of the rows",
                )


def _shared_table(script: Script) -> Iterator[Hit]:
    for call in script.source.of(ast.Call):
        rows = _rows_of(script, call)
        if rows is None:
            continue
        tests = sorted(_tests_in(script, rows, call))
        if len(tests) > 1:
            yield Hit(
                call,
                f"rows of {' and '.join(tests)} go into one table, which scatters empty cells: "
                "collect them apart and print one table for each",
            )


def _rows_of(script: Script, call: ast.Call) -> ast.expr | None:
    """The rows that a call makes a table of: of ``summarize(name, rows)``, ``DataFrame(rows)``."""
    if script.harness(call) == "summarize":
        given = [*call.args[1:2], *(w.value for w in call.keywords if w.arg == "rows")]
    elif any(o.endswith(".DataFrame") for o in script.names.origins(call.func)):
        given = call.args[:1]
    elif is_table(script, call) and isinstance(call.func, ast.Name):
        given = call.args[-1:]  # a helper such as summarize(name, rows) of the file's own
    else:
        return None
    return given[0] if given else None


def _tests_in(script: Script, rows: ast.expr, table: ast.Call, depth: int = 3) -> set[str]:
    """Names of the test functions whose rows an expression holds."""
    found: set[str] = set()
    for node in script.source.within(rows):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            found |= _called_tests(script, node.func, table)
        if not isinstance(node, ast.Name) or depth == 0:
            continue
        for added in _added_to(script, node, table):
            found |= _tests_in(script, added, table, depth - 1)
    return found


def _called_tests(script: Script, name: ast.Name, table: ast.Call) -> set[str]:
    """The test that a name calls; all of them where a loop gives the name one after the other."""
    if name.id in script.test_names:
        return {name.id}
    for outer in script.source.ancestors(name):
        if isinstance(outer, ast.For) and not script.source.contains(outer, table):
            bound = {n.id for n in script.source.of(ast.Name, outer.target)}
            if name.id in bound:
                iterated = script.source.of(ast.Name, outer.iter)
                return {n.id for n in iterated if n.id in script.test_names}
    return set()


def _added_to(script: Script, rows: ast.Name, table: ast.Call) -> Iterator[ast.expr]:
    """What is put into a list of rows before the table is made, since it was last begun."""
    around = script.source.function_of(table)
    scope = around if around is not None else script.source.tree
    begun = 0
    added: list[ast.expr] = []
    for node in script.changes(rows.id, scope):
        if script.source.contains(node, table):
            continue  # df = pd.DataFrame(df)
        line = script.source.at(node)[0]
        if line > table.lineno and not _same_loop(script, node, table):
            break
        if isinstance(node, ast.Assign):
            begun, added = line, [node.value]
        elif isinstance(node, ast.AugAssign):
            added.append(node.value)
        elif isinstance(node, ast.Call):
            added += node.args
    yield from (node for node in added if node.lineno >= begun)


def _same_loop(script: Script, node: ast.AST, table: ast.Call) -> bool:
    """Whether a later line is run before the table's next round."""
    for outer in script.source.ancestors(table):
        if isinstance(outer, FUNCTIONS):
            return False
        if isinstance(outer, (ast.For, ast.While)) and script.source.contains(outer, node):
            return True
    return False


RULES = (
    Rule(
        "OT511",
        "no summary table",
        "The markdown table is what is pasted into a pull request; a test without one is not "
        "finished.",
        "for mn in args.mn:\n    print(test_scale(*mn, dtypes.bf16))",
        'summarize("scale", [test_scale(*mn, dtypes.bf16) for mn in args.mn])',
        _no_table,
    ),
    Rule(
        "OT512",
        "row thrown away",
        "What a test function returns is a row of its table; a call on a line of its own loses it.",
        "test_scale(16, 128, dtypes.bf16)",
        "rows.append(test_scale(16, 128, dtypes.bf16))",
        _row_thrown_away,
    ),
    Rule(
        "OT513",
        "one table for several functions",
        "Functions have columns of their own; in one table each leaves the other's empty.",
        'rows = [test_scale(16, 128), test_scale_fp8(16)]\nsummarize("scale", rows)',
        'summarize("scale", [test_scale(16, 128)])\nsummarize("scale_fp8", [test_scale_fp8(16)])',
        _shared_table,
    ),
)
