"""OT4xx: what is checked, and whether the check can fail."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from optest.lint.finding import Hit
from optest.lint.loops import candidate_loop, targets
from optest.lint.number import numbers
from optest.lint.rule import Rule
from optest.lint.rules_measure import calls_the_unseen
from optest.lint.script import CHECKS, Script
from optest.lint.source import Function

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
    "optest.checking.compare",
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
        for site in script.timed(script.source.within(function)):
            loop = candidate_loop(script, site)
            if checks and loop is not None:
                yield from _not_each(script, function, loop, checks)


def _not_each(
    script: Script, function: Function, loop: ast.For, checks: list[ast.Call]
) -> Iterator[Hit]:
    """Checks that see some of the candidates that a loop times, and not each."""
    outside = [check for check in checks if script.source.function_of(check) is not function]
    inside = [check for check in checks if script.source.contains(loop, check)]
    looped = [check for check in checks if _is_looped(script, check)]
    if outside or (looped and not inside):
        return  # a helper checks, or another loop
    made = {n.id for n in script.source.of(ast.Name, loop) if isinstance(n.ctx, ast.Store)}
    for check in checks if not inside else []:
        if made & {n.id for a in check.args[1:2] for n in script.source.of(ast.Name, a)}:
            yield Hit(
                check,
                "this check stands behind the loop and sees what the last candidate made: move "
                "it into the loop, below run_perftest",
            )
    if inside and all(_is_for_some(script, loop, check) for check in inside):
        yield Hit(
            inside[0],
            "only some of the candidates that this loop times are checked: move checkAllclose out "
            "of the if; leave a candidate that cannot be right here out of the dict",
        )


def _is_looped(script: Script, node: ast.AST) -> bool:
    loops = (ast.For, ast.While, ast.ListComp, ast.DictComp, ast.GeneratorExp)
    return any(isinstance(outer, loops) for outer in script.source.ancestors(node))


def _is_for_some(script: Script, loop: ast.For, check: ast.Call) -> bool:
    """Whether a check stands under an ``if`` about the candidate, and its other side has none."""
    names = targets(script, loop)
    inner: ast.AST = check
    for outer in script.source.ancestors(check):
        if outer is loop:
            return False
        if isinstance(outer, ast.If) and inner is not outer.test:
            about = names & {n.id for n in script.source.of(ast.Name, outer.test)}
            other = outer.orelse if inner in outer.body else outer.body
            checked = [c for s in other for c in script.calls(CHECKS, script.source.within(s))]
            if about and not checked:
                return True
        inner = outer
    return False


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
    given += [value for word in call.keywords if word.arg is None
              for value in _unpacked(script, word.value, name)]  # fmt: skip
    given += call.args[_POSITION[name] : _POSITION[name] + 1]
    return max((n for each in given for n in numbers(script, each)), default=0.0)


def _unpacked(script: Script, table: ast.expr, name: str) -> Iterator[ast.expr]:
    """The value of ``name`` in ``**table``."""
    for value in script.resolved(table):
        if isinstance(value, ast.Dict):
            pairs = zip(value.keys, value.values, strict=True)
            yield from (v for k, v in pairs if isinstance(k, ast.Constant) and k.value == name)
        elif isinstance(value, ast.Call):
            yield from (word.value for word in value.keywords if word.arg == name)


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
