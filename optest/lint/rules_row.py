"""OT2xx: candidates and the row."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from optest.lint.column import Column, heading, words_of
from optest.lint.finding import Hit
from optest.lint.loops import candidate_loop, in_dict_loop
from optest.lint.rule import Rule
from optest.lint.script import Script
from optest.lint.source import Function

_ERROR_WORDS = {"err", "error", "errs", "errors", "diff", "mismatch"}
_TIME_NAME = re.compile(r"(us|avg|time|lat|latency)(_\w+|\d+)?|\w+_(us|ms|avg|time)\d*")


def _no_dict_loop(script: Script) -> Iterator[Hit]:
    for function in script.tests:
        nodes = script.reach(function)
        sites = script.timed(nodes)
        alone = len(sites) == 1 and candidate_loop(script, sites[0]) is None
        if alone and _is_in_place(script, function, nodes):
            continue  # the standard's other shape: one kernel, in place, against the reference
        for site in sites:
            if not in_dict_loop(script, site):
                yield Hit(
                    site,
                    "candidates live in a dict and one loop times and checks them: write "
                    'candidates = {"name": fn, ...} and for name, fn in candidates.items(): ...',
                )


def _is_in_place(script: Script, function: Function, nodes: list[ast.AST]) -> bool:
    decorator = script.decorator(function, "benchmark")
    if isinstance(decorator, ast.Call) and any(w.arg == "inout" for w in decorator.keywords):
        return True
    return any(isinstance(node, ast.Attribute) and node.attr == "clone" for node in nodes)


def _us_alone(script: Script) -> Iterator[Hit]:
    for function in script.tests:
        found = script.columns(script.reach(function))
        for column in found:
            if not column.is_of("us") or _sets_the_unseen(script, function):
                continue
            missing = [
                name
                for name, word in (("TFLOPS", "tflops"), ("TB/s", "tbs"))
                if not any(_goes_with(column, other, word) for other in found)
            ]
            if missing:
                words = " and ".join(missing)
                yield Hit(
                    column.node,
                    f"{column.text!r} has no {words} beside it: set "
                    f"{_set_like(column, missing)}, from the work and the bytes of the operator",
                )


def _goes_with(us: Column, other: Column, word: str) -> bool:
    return other.is_of(word) and other.rest(word) == us.rest("us")


def _set_like(us: Column, missing: list[str]) -> str:
    formulas = {"TFLOPS": "flops / us / 1e6", "TB/s": "nbytes / us / 1e6"}
    columns_ = (re.sub(r"(?i)\bus\b", name, us.text) for name in missing)
    return " and ".join(
        f'"{column}" = {formulas[name]}' for column, name in zip(columns_, missing, strict=True)
    )


def _sets_the_unseen(script: Script, function: Function) -> bool:
    """Whether a row is filled by something that the file does not show (``ret.update(f(us))``)."""
    for node in script.reach(function):
        if isinstance(node, ast.Dict) and None in node.keys:
            return True
        if isinstance(node, ast.Call) and _updates(node.func):
            shown = all(isinstance(given, ast.Dict) for given in node.args)
            if not shown:
                return True
    return False


def _updates(function: ast.expr) -> bool:
    return isinstance(function, ast.Attribute) and function.attr == "update"


def _ratio(script: Script) -> Iterator[Hit]:
    timed = _timed_names(script)
    for column in script.columns(script.source.within()):
        words = set(column.words)
        named = words & {"speedup", "uplift"} or {"speed", "up"} <= words
        divided = _divides_times(script, column.value, timed)
        by_name = "ratio" in words and not words & _ERROR_WORDS and _divides(script, column.value)
        if named or divided or by_name:
            yield Hit(
                column.node,
                f"{column.text!r} is a ratio written by hand: keep us, TFLOPS, TB/s and err of "
                "each candidate in the table and compute ratios from the finished table",
            )


def _timed_names(script: Script) -> set[str]:
    """Names that take the time of a measurement: ``us`` of ``out, us = run_perftest(fn)``."""
    names: set[str] = set()
    for call in script.timed(script.source.within()):
        assigned = script.source.parents[call]
        target = assigned.targets[0] if isinstance(assigned, ast.Assign) else None
        if isinstance(target, ast.Tuple):
            names.update(n.id for n in target.elts[1:2] if isinstance(n, ast.Name))
    return names


def _divides(script: Script, value: ast.expr) -> bool:
    return any(_divisions(script, each) for each in script.resolved(value))


def _divisions(script: Script, value: ast.expr) -> list[ast.BinOp]:
    return [n for n in script.source.of(ast.BinOp, value) if isinstance(n.op, ast.Div)]


def _divides_times(script: Script, value: ast.expr, timed: set[str]) -> bool:
    return any(
        _is_time(node.left, timed) and _is_time(node.right, timed)
        for each in script.resolved(value)
        for node in _divisions(script, each)
    )


def _is_time(node: ast.expr, timed: set[str]) -> bool:
    if isinstance(node, ast.Call) and node.args and isinstance(node.func, ast.Name):
        return node.func.id == "float" and _is_time(node.args[0], timed)
    if isinstance(node, ast.Name):
        return node.id in timed or bool(_TIME_NAME.fullmatch(node.id))
    if isinstance(node, ast.Subscript):
        text = heading(node.slice)
        return text is not None and "us" in words_of(text)
    return False


def _no_gfx(script: Script) -> Iterator[Hit]:
    for function in script.tests:
        found = _row(script, function)
        known = any(c.is_of("gfx") or script.is_arch(c.value) for c in found)
        if found and not known:
            yield Hit(
                function,
                f'{function.name}: the row does not say on which card it was measured: start it '
                'with ret = {"gfx": get_gfx()}',
            )  # fmt: skip


def _no_err(script: Script) -> Iterator[Hit]:
    for function in script.tests:
        found = _row(script, function)
        timed = any(column.is_of("us") for column in found)
        if timed and not any(_is_error(column) for column in found):
            yield Hit(
                function,
                f"{function.name}: the row has times and no err: record what checkAllclose "
                'returns, as ret[f"{name} err"] = err',
            )


def _is_error(column: Column) -> bool:
    """Whether a column tells an error; a table of tolerances for a check is no row."""
    return bool(_ERROR_WORDS & set(column.words)) and column.text != "tol_err_ratio"


def _row(script: Script, function: Function) -> list[Column]:
    """Columns of a function's row; empty where some are set out of sight."""
    if _sets_the_unseen(script, function):
        return []
    found = script.columns(script.reach(function))
    shown = {"us", "err", "tflops", "tbs", "gfx"}
    return found if any(shown & set(column.words) for column in found) else []


RULES = (
    Rule(
        "OT201",
        "candidates not in a dict loop",
        "One dict and one loop give every candidate the same inputs, the same clock and the same "
        "check, and the next candidate is one line. A single kernel that works in place (a clone "
        "of its buffer, or inout=) may stand alone.",
        "out, us = run_perftest(scale_ck, x)\nout_hip, us_hip = run_perftest(scale_hip, x)",
        'candidates = {"ck": scale_ck, "hip": scale_hip}\n'
        "for name, fn in candidates.items():\n    out, us = run_perftest(fn, x)",
        _no_dict_loop,
    ),
    Rule(
        "OT202",
        "us without TFLOPS and TB/s",
        "A time alone does not say whether a kernel is bound by arithmetic or by memory, nor how "
        "far it is from the machine's limits.",
        'ret[f"{name} us"] = us',
        'ret[f"{name} us"] = us\nret[f"{name} TFLOPS"] = flops / us / 1e6\n'
        'ret[f"{name} TB/s"] = nbytes / us / 1e6',
        _us_alone,
    ),
    Rule(
        "OT203",
        "ratio column written by hand",
        "The table holds what was measured. A ratio picks a winner and a base, goes stale when a "
        "candidate is added, and can be computed from the table.",
        'ret["speedup"] = ret["ck us"] / ret["triton us"]',
        'ret[f"{name} us"] = us',
        _ratio,
    ),
    Rule(
        "OT204",
        "no gfx column",
        "Tables of several cards are pasted side by side; each must say where it comes from.",
        "ret = {}",
        'ret = {"gfx": get_gfx()}',
        _no_gfx,
    ),
    Rule(
        "OT205",
        "no err column",
        "A fast wrong kernel is found by the error beside its time.",
        'checkAllclose(want, out, msg=name)\nret[f"{name} us"] = us',
        'err = checkAllclose(want, out, msg=name)\nret[f"{name} us"] = us\n'
        'ret[f"{name} err"] = err',
        _no_err,
    ),
)
