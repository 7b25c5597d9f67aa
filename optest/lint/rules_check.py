"""OT4xx: what is checked, and whether the check can fail."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from optest.lint.finding import Hit
from optest.lint.number import numbers
from optest.lint.rule import Rule
from optest.lint.rules_measure import calls_the_unseen
from optest.lint.script import CHECKS, Script
from optest.lint.source import FUNCTIONS, Function

# Positions of checkAllclose's tolerances, for those who pass them without names.
_POSITION = {"rtol": 2, "atol": 3, "tol_err_ratio": 4}
_UNIT_DATA = {"torch.randn", "torch.rand", "torch.randn_like", "torch.rand_like"}
_WIDE_DATA = {"torch.randint", "torch.arange", "torch.randint_like"}
_LARGE_ATOL = 10.0
_COMPARING = {
    "torch.allclose",
    "torch.equal",
    "torch.isclose",
    "numpy.allclose",
    "numpy.array_equal",
}


def _unchecked(script: Script) -> Iterator[Hit]:
    for function in script.tests:
        nodes = script.reach(function)
        checks = script.calls(CHECKS, nodes)
        if not checks and not calls_the_unseen(script, nodes):
            yield Hit(
                function,
                f"{function.name} checks nothing with checkAllclose: write err = "
                "checkAllclose(want, out, rtol=..., atol=..., msg=name) for every candidate",
            )
        elif checks:
            yield from _last_only(script, function, checks)


def _last_only(script: Script, function: Function, checks: list[ast.Call]) -> Iterator[Hit]:
    """A loop that times every candidate, and one check behind it, of what the last one made."""
    for site in script.timed(script.source.within(function)):
        loop = _loop_around(script, site, function)
        assigned = script.source.parents[site]
        if loop is None or not isinstance(assigned, ast.Assign):
            continue
        if any(_loop_around(script, check, function) is not None for check in checks):
            continue
        made = {n.id for t in assigned.targets for n in script.source.of(ast.Name, t)}
        for check in checks:
            if made & {n.id for a in check.args[1:2] for n in script.source.of(ast.Name, a)}:
                yield Hit(
                    check,
                    "this check stands behind the loop and sees what the last candidate made: "
                    "move it into the loop, below run_perftest",
                )


def _loop_around(script: Script, node: ast.AST, function: Function) -> ast.AST | None:
    """The loop around a node; for a node of a helper, the helper itself, which a loop may call."""
    for outer in script.source.ancestors(node):
        if isinstance(outer, (ast.For, ast.While, ast.ListComp, ast.DictComp)):
            return outer
        if isinstance(outer, FUNCTIONS):
            return None if outer is function else outer
    return node


def _discarded(script: Script) -> Iterator[Hit]:
    for call in script.calls(("checkAllclose",), script.source.within()):
        if script.names.only_aiter(call.func) and _is_dropped(script, call):
            yield Hit(
                call,
                "aiter's checkAllclose returns its verdict and fails nothing: write assert "
                "checkAllclose(...) == 0, record it as err, or take it from optest.test_common, "
                "where it fails the run",
            )
    for statement in script.source.of(ast.Expr):
        comparison = _comparison(script, statement.value)
        if comparison:
            yield Hit(
                statement,
                f"the answer of {comparison} is thrown away and gates nothing: write "
                "checkAllclose(want, out, rtol=..., atol=..., msg=...)",
            )


def _is_dropped(script: Script, call: ast.Call) -> bool:
    parent = script.source.parents[call]
    if isinstance(parent, ast.Expr):
        return True
    if isinstance(parent, ast.Assign) and isinstance(parent.targets[0], ast.Name):
        around = script.source.function_of(call)
        return not script.loads(parent.targets[0].id, around)
    return False


def _comparison(script: Script, value: ast.expr) -> str:
    """What an expression statement compares, also inside ``print(…)``; empty where nothing."""
    if isinstance(value, ast.Call) and _is_print(value.func):
        found = [_comparison(script, argument) for argument in value.args]
        return next((each for each in found if each), "")
    if isinstance(value, ast.Compare):
        return "this comparison"
    if not isinstance(value, ast.Call):
        return ""
    named = script.names.origins(value.func) & _COMPARING
    if named:
        return min(named)
    method = value.func.attr if isinstance(value.func, ast.Attribute) else ""
    inner = value.func.value if isinstance(value.func, ast.Attribute) else None
    if method in ("all", "any", "item") and inner is not None:
        return _comparison(script, inner)
    return ""


def _is_print(function: ast.expr) -> bool:
    return isinstance(function, ast.Name) and function.id == "print"


def _cannot_fail(script: Script) -> Iterator[Hit]:
    for call in script.calls(CHECKS, script.source.within()):
        said = _too_loose(script, call)
        if said:
            yield Hit(
                call,
                f"{said}: write the tolerance that follows from the number format, such as "
                "rtol=2**-8 for bf16, and the share that may miss by rounding, such as "
                "tol_err_ratio=0.01",
            )


def _too_loose(script: Script, call: ast.Call) -> str:
    """Why a check cannot fail; empty where it can."""
    hard_cap = any(word.arg in ("max_abs_delta", "catastrophic_check", "comparator")
                   for word in call.keywords)  # fmt: skip
    share = _largest(script, call, "tol_err_ratio")
    if share >= 1 and not hard_cap:
        return f"tol_err_ratio={share:g} lets every element be wrong"
    relative = _largest(script, call, "rtol")
    if relative >= 1 and not hard_cap:
        return f"rtol={relative:g} accepts an output of zeros"
    absolute = _largest(script, call, "atol")
    if absolute >= _LARGE_ATOL and not hard_cap and _is_on_unit_data(script, call):
        return f"atol={absolute:g} is wider than the data, which torch.randn or rand drew"
    return ""


def _largest(script: Script, call: ast.Call, name: str) -> float:
    given = [word.value for word in call.keywords if word.arg == name]
    given += call.args[_POSITION[name] : _POSITION[name] + 1]
    return max((n for each in given for n in numbers(script, each)), default=0.0)


def _is_on_unit_data(script: Script, call: ast.Call) -> bool:
    """Whether all that is drawn around a check has the size of 1, and nothing scales it up."""
    around = [f for f in script.tests if call in script.reach(f)]
    drawn = [node for f in around for node in script.reach(f) if isinstance(node, ast.Call)]
    origins = {origin for node in drawn for origin in script.names.origins(node.func)}
    return bool(origins & _UNIT_DATA) and not origins & _WIDE_DATA and not any(
        _is_scaled(script, node) for node in drawn if script.names.origins(node.func) & _UNIT_DATA
    )  # fmt: skip


def _is_scaled(script: Script, drawn: ast.Call) -> bool:
    parent = script.source.parents[drawn]
    if not isinstance(parent, ast.BinOp) or not isinstance(parent.op, (ast.Mult, ast.Add)):
        return isinstance(parent, ast.Attribute) and parent.attr in ("mul", "mul_", "add", "add_")
    other = parent.right if parent.left is drawn else parent.left
    found = numbers(script, other)
    return not found or max(found) > 1


def _with_itself(script: Script) -> Iterator[Hit]:
    for call in script.calls(CHECKS, script.source.within()):
        if len(call.args) < 2:  # noqa: PLR2004
            continue
        sides = [_bare(argument) for argument in call.args[:2]]
        if sides[0] == sides[1]:
            yield Hit(
                call,
                f"{sides[0]} is compared with itself: compare the reference with what the "
                "candidate wrote",
            )


def _bare(node: ast.expr) -> str:
    """The expression without casts around it."""
    while (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("to", "float", "cpu", "detach", "clone", "contiguous")
    ):
        node = node.func.value
    return ast.unparse(node)


RULES = (
    Rule(
        "OT401",
        "no checkAllclose",
        "A time without a check is the time of anything. Every candidate is checked, in the loop "
        "that times it: a check behind the loop sees the last one.",
        "for name, fn in candidates.items():\n    out, us = run_perftest(fn, x)\n"
        '    ret[f"{name} us"] = us',
        "for name, fn in candidates.items():\n    out, us = run_perftest(fn, x)\n"
        '    ret[f"{name} err"] = checkAllclose(want, out, rtol=2**-8, atol=1e-6, msg=name)',
        _unchecked,
    ),
    Rule(
        "OT402",
        "verdict discarded where it gates nothing",
        "optest's checkAllclose fails the run whatever is done with its result. aiter's only "
        "returns a number, and torch.allclose or == only a truth value: thrown away, a wrong "
        "kernel passes.",
        "torch.allclose(want, out)",
        "checkAllclose(want, out, rtol=2**-8, atol=1e-6, msg=name)",
        _discarded,
    ),
    Rule(
        "OT403",
        "tolerance that cannot fail",
        "tol_err_ratio of 1 forgives every element, rtol of 1 accepts an output of zeros, and an "
        "atol of 10 or more accepts anything where the data come from torch.randn or rand. A hard "
        "cap beside them (max_abs_delta, catastrophic_check) still fails, and is left alone.",
        "checkAllclose(want, out, rtol=1e-2, atol=100, msg=name)",
        "checkAllclose(want, out, rtol=2**-8, atol=1e-6, tol_err_ratio=0.01, msg=name)",
        _cannot_fail,
    ),
    Rule(
        "OT404",
        "check of a value against itself",
        "It passes whatever the kernel does.",
        "err = checkAllclose(out, out.to(dtypes.fp32), msg=name)",
        "err = checkAllclose(want, out, msg=name)",
        _with_itself,
    ),
)
