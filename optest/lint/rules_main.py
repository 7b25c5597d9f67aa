"""OT5xx, first half: what runs when, and the command line."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from optest.lint.finding import Hit
from optest.lint.rule import Rule
from optest.lint.script import CHECKS, Script
from optest.lint.source import FUNCTIONS, Function

_PARSING = {"add_argument", "parse_args", "parse_known_args"}
_TOGGLES = {"store_true", "store_false", "store_const", "append_const", "count"}
_LIST_ACTIONS = {"append", "extend", "help", "version"}
_LISTS = {"*", "+"}
_SHOWING = {"to_markdown"}


def _works(script: Script, node: ast.AST) -> str:
    """What a call of the command line or of a sweep is called by; empty for any other."""
    if not isinstance(node, ast.Call):
        return ""
    called = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    called = node.func.id if isinstance(node.func, ast.Name) else called
    sweeps = called in script.test_names or script.harness(node) in (
        "run_perftest",
        "summarize",
        *CHECKS,
    )
    return called if sweeps or called in _PARSING or called == "ArgumentParser" else ""


def _at_import(script: Script) -> Iterator[tuple[ast.stmt, str]]:
    for statement in script.before_guard():
        for node in script.now(statement):
            called = _works(script, node)
            if called:
                yield statement, called


def _unguarded(script: Script) -> Iterator[Hit]:
    if script.guard is None and next(_at_import(script), None) is None:
        yield Hit(
            script.main,
            'the file has no main guard: end it with if __name__ == "__main__": main()',
        )  # fmt: skip


def _import_works(script: Script) -> Iterator[Hit]:
    first = next(_at_import(script), None)
    if first is not None:
        statement, called = first
        yield Hit(
            statement,
            f"{called}(...) runs when the file is imported: move argparse and the sweep into "
            'main() and end the file with if __name__ == "__main__": main()',
        )


def _guard_works(script: Script) -> Iterator[Hit]:
    if script.guard is None:
        return
    for node in script.source.within(script.guard):
        called = _works(script, node)
        if called:
            yield Hit(
                script.guard,
                f"{called}(...) stands under the guard itself, where no other script can call "
                "it: move argparse and the sweep into main(), and let the guard call main()",
            )
            return


def _options(script: Script) -> Iterator[tuple[ast.Call, str, dict[str, ast.expr]]]:
    """Each option: the call, its flag, its keywords."""
    for call in script.source.of(ast.Call):
        if not isinstance(call.func, ast.Attribute) or call.func.attr != "add_argument":
            continue
        flags = [a.value for a in call.args if isinstance(a, ast.Constant)]
        words = {word.arg: word.value for word in call.keywords if word.arg is not None}
        unseen = len(words) < len(call.keywords) or len(flags) < len(call.args)
        if flags and not unseen and all(isinstance(f, str) and f[:1] == "-" for f in flags):
            yield call, str(flags[-1]), words


def _text(node: ast.expr | None) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    return ast.unparse(node).rpartition(".")[2] if node is not None else ""


def _toggles(script: Script) -> Iterator[Hit]:
    for call, flag, words in _options(script):
        action, kind = _text(words.get("action")), _text(words.get("type"))
        switch = action in _TOGGLES or action == "BooleanOptionalAction"
        if switch or (kind in ("bool", "str2bool") and _text(words.get("nargs")) not in _LISTS):
            axis = flag.lstrip("-").replace("-", "_")
            yield Hit(
                call,
                f"{flag} switches behaviour: make it an axis that the sweep iterates, as "
                f'"--{axis}" with choices and nargs="+", or leave it out',
            )


def _single_valued(script: Script) -> Iterator[Hit]:
    toggles = {hit.node for hit in _toggles(script)}
    for call, flag, words in _options(script):
        if call in toggles or _text(words.get("action")) in _LIST_ACTIONS:
            continue
        nargs = words.get("nargs")
        counted = isinstance(nargs, ast.Constant) and isinstance(nargs.value, int)
        if not counted and (nargs is None or _text(nargs) in ("?", "None")):
            yield Hit(
                call,
                f'{flag} takes one value: every option is a list that the sweep iterates; write '
                'nargs="+" and a list as default',
            )  # fmt: skip


def _sweep_nested(script: Script) -> Iterator[Hit]:
    seen = set()
    for function in script.tests:
        for use in script.uses(function):
            call = script.source.parents[use]
            if not isinstance(call, ast.Call) or call.func is not use:
                continue
            axes = _axes(script, call)
            if len(axes) > 1 and not any(_is_product(script, axis) for axis in axes):
                outermost = axes[-1]
                if outermost not in seen:
                    seen.add(outermost)
                    yield Hit(
                        outermost,
                        f"{len(axes)} loops inside each other sweep {function.name}: write one "
                        "over itertools.product(args.dtype, args.mnk, ...)",
                    )


def _axes(script: Script, call: ast.Call) -> list[ast.expr]:
    """What the loops around a call of a test iterate, inner first, up to the one with a table."""
    given = [*call.args, *(word.value for word in call.keywords)]
    used = {n.id for each in given for n in script.source.of(ast.Name, each)}
    axes: list[ast.expr] = []
    for outer in script.source.ancestors(call):
        if isinstance(outer, FUNCTIONS):
            break
        loops: list[ast.For | ast.AsyncFor | ast.comprehension] = []
        if isinstance(outer, (ast.For, ast.AsyncFor)):
            if axes and shows_table(script, outer):
                break  # one table for each round of this loop
            loops = [outer]
        elif isinstance(outer, (ast.ListComp, ast.GeneratorExp, ast.SetComp)):
            loops = list(reversed(outer.generators))
        for loop in loops:
            bound = {n.id for n in script.source.of(ast.Name, loop.target)}
            if bound & {n.id for axis in axes for n in script.source.of(ast.Name, axis)}:
                return []  # an axis whose values depend on another's: no product
            if used & bound:
                axes.append(loop.iter)
    return axes


def shows_table(script: Script, node: ast.AST) -> bool:
    """Whether a table is printed beneath a node."""
    return any(is_table(script, each) for each in script.source.within(node))


def is_table(script: Script, node: ast.AST) -> bool:
    """Whether a node is a call that prints or makes a markdown table."""
    if not isinstance(node, ast.Call):
        return False
    if script.harness(node) == "summarize":
        return True
    if isinstance(node.func, ast.Attribute):
        return node.func.attr in _SHOWING
    if "tabulate.tabulate" in script.names.origins(node.func):
        return any(_text(w.value) in ("github", "pipe") for w in node.keywords)
    return isinstance(node.func, ast.Name) and _is_table_helper(script, node.func.id)


def _is_table_helper(script: Script, name: str) -> bool:
    """Whether a function of the file, which runs no test itself, makes a table."""
    helper: Function | None = script.functions.get(name)
    if helper is None or helper is script.main or helper in script.tests:
        return False
    nodes = script.source.within(helper)
    runs = any(isinstance(n, ast.Name) and n.id in script.test_names for n in nodes)
    return not runs and any(
        isinstance(n, ast.Call)
        and (
            script.harness(n) == "summarize"
            or (isinstance(n.func, ast.Attribute) and n.func.attr in _SHOWING)
        )
        for n in nodes
    )


def _is_product(script: Script, axis: ast.expr) -> bool:
    return any(
        "itertools.product" in script.names.origins(node.func)
        for each in script.resolved(axis)
        for node in script.source.of(ast.Call, each)
    )


RULES = (
    Rule(
        "OT501",
        "no main guard",
        "Without it the sweep either starts when another script imports the test, or never.",
        "def main(): ...\n\n\nmain()",
        'def main(): ...\n\n\nif __name__ == "__main__":\n    main()',
        _unguarded,
    ),
    Rule(
        "OT502",
        "argparse or sweep at import",
        "Other scripts import run_torch and the test function to combine them, and pytest imports "
        "the file to collect it. Importing must parse and run nothing.",
        "args = parser.parse_args()",
        "def main():\n    args = parser.parse_args()",
        _import_works,
    ),
    Rule(
        "OT503",
        "argparse or sweep under the guard instead of in main()",
        "pytest and other runners call main(). What stands under the guard itself they cannot run.",
        'if __name__ == "__main__":\n    args = parser.parse_args()',
        'def main():\n    args = parser.parse_args()\n\n\nif __name__ == "__main__":\n    main()',
        _guard_works,
    ),
    Rule(
        "OT504",
        "flag that switches behaviour",
        "A switch is a second test in the same file that no column tells apart. An axis gets a "
        "column, and both values are tested.",
        'parser.add_argument("--dsv4", action="store_true")',
        'parser.add_argument("--layout", choices=["bmn", "mbn"], nargs="+", default=["bmn"])',
        _toggles,
    ),
    Rule(
        "OT505",
        "option that takes one value",
        "Every option is a list that the sweep iterates, so that one command covers what somebody "
        "asks for and each value is a row.",
        'parser.add_argument("-b", "--batch", type=int, default=16)',
        'parser.add_argument("-b", "--batch", type=int, nargs="+", default=[16])',
        _single_valued,
    ),
    Rule(
        "OT506",
        "nested loops instead of itertools.product",
        "One loop over the product shows all axes in one place. A loop around a whole table (one "
        "table for each dtype) is not counted.",
        "for dtype in args.dtype:\n    for m, n in args.mn:\n"
        "        rows.append(test_scale(m, n, dtype))",
        "for dtype, (m, n) in itertools.product(args.dtype, args.mn):\n"
        "    rows.append(test_scale(m, n, dtype))",
        _sweep_nested,
    ),
)
