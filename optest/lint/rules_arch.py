"""OT6xx: which cards a test runs on."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from optest.lint.column import heading
from optest.lint.finding import Hit
from optest.lint.rule import Rule
from optest.lint.rules_measure import calls_the_unseen
from optest.lint.script import Script

_ARCH = re.compile(r"gfx\d[0-9a-f]{2,3}|sm_\d{2,3}[a-z]?")
_SUFFIX = re.compile(r"(.+)_(gfx\d[0-9a-f]{2,3}|sm_?\d{2,3}[a-z]?)(_\w+)?")
# A gate that asks torch keeps other cards off as well as one that asks get_gfx().
_TORCH_ASKS = {"gcnArchName", "get_device_capability", "get_device_name", "get_device_properties"}
_LEAVING = {"sys.exit", "os._exit"}
_ALLOW, _DENY, _OTHER = "allow", "deny", "other"
_ADVICE = (
    "if get_gfx() not in SUPPORTED_GFX: logger.warning(...); return, with SUPPORTED_GFX the list "
    "of cards that the op is built for"
)


def _ungated(script: Script) -> Iterator[Hit]:
    begins = script.source.within(script.main or script.source.tree)
    if not _gates(script) and not calls_the_unseen(script, begins):
        yield Hit(
            script.main,
            f"no gate keeps the test off cards that its kernels are not built for: begin main() "
            f"with {_ADVICE}",
        )


def _denying(script: Script) -> Iterator[Hit]:
    gates = _gates(script)
    if any(kind != _DENY for _, kind in gates):
        return
    for gate, _ in gates:
        yield Hit(
            gate,
            "this gate lists cards to keep off, so a new card runs a kernel that was never built "
            f"for it: list those it is built for; write {_ADVICE}",
        )


def _gates(script: Script) -> list[tuple[ast.If, str]]:
    """Each ``if`` that decides by the arch whether the sweep runs, and how it decides."""
    if script.main is not None:
        places: list[ast.AST] = [script.main]
    else:
        places = [script.guard] if script.guard is not None else []
        places += [n for n in script.source.tree.body if n is not script.guard]
    tests = script.tests
    nodes = [n for place in places for n in script.reach(place, stop=tests)
             if isinstance(n, ast.If)]  # fmt: skip
    found = []
    for node in nodes:
        if script.source.function_of(node) in tests or not _asks_arch(script, node.test):
            continue
        leaves = _leaves(script, node.body[-1])
        if leaves or _runs_tests(script, node):
            kind = _kind(script, node.test)
            kind = kind if leaves else {_ALLOW: _DENY, _DENY: _ALLOW}.get(kind, kind)
            # A != around one table of several is a check that one card lacks, not a gate.
            if leaves or kind != _DENY:
                found.append((node, kind))
    return found


def _asks_arch(script: Script, test: ast.expr) -> bool:
    """Whether a condition depends on the arch, also through a function of the file."""
    nodes = script.reach(test, stop=script.tests)
    asked = (node.attr for node in nodes if isinstance(node, ast.Attribute))
    return any(name in _TORCH_ASKS for name in asked) or any(map(script.is_arch, nodes))


def _leaves(script: Script, last: ast.stmt) -> bool:
    if isinstance(last, (ast.Return, ast.Raise)):
        return True
    call = last.value if isinstance(last, ast.Expr) else None
    if not isinstance(call, ast.Call):
        return False
    named = isinstance(call.func, ast.Name) and call.func.id in ("exit", "quit")
    asked = isinstance(call.func, ast.Attribute) and call.func.attr in ("exit", "skip")
    return named or asked or bool(script.names.origins(call.func) & _LEAVING)


def _runs_tests(script: Script, node: ast.If) -> bool:
    return any(
        isinstance(n, ast.Name) and n.id in script.test_names
        for statement in node.body
        for n in script.source.within(statement)
    )


def _kind(script: Script, test: ast.expr) -> str:
    """How a condition under which the test is *not* run speaks of the arch."""
    if isinstance(test, ast.BoolOp):
        parts = [v for v in test.values if _asks_arch(script, v)]
        kinds = {_kind(script, part) for part in parts}
        return _ALLOW if _ALLOW in kinds else kinds.pop()
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = _kind(script, test.operand)
        return {_DENY: _ALLOW, _ALLOW: _DENY}.get(inner, inner)
    if isinstance(test, ast.Compare):
        if isinstance(test.ops[0], (ast.NotIn, ast.NotEq)):
            return _ALLOW
        return _DENY if isinstance(test.ops[0], (ast.In, ast.Eq)) else _OTHER
    asked = test.func if isinstance(test, ast.Call) else None
    if isinstance(asked, ast.Attribute) and asked.attr == "startswith":
        return _DENY
    return _OTHER


def _hard_coded(script: Script) -> Iterator[Hit]:
    for node in script.source.of(ast.Constant):
        if not isinstance(node.value, str) or not _ARCH.fullmatch(node.value):
            continue
        if not _is_compared_or_listed(script, node):
            yield Hit(
                node,
                f"{node.value!r} is written where the card's own arch belongs: write get_gfx(); "
                "to leave out a candidate compare it with get_gfx()",
            )


def _is_compared_or_listed(script: Script, node: ast.AST, depth: int = 4) -> bool:
    """Whether an arch name decides something, is one of a list, or is only said."""
    parent = script.source.parents[node]
    if isinstance(parent, ast.Assign) and isinstance(parent.targets[0], ast.Name):
        name, near = parent.targets[0].id, script.source.function_of(node)
        uses = script.loads(name, near)
        listed = depth and all(_is_compared_or_listed(script, use, depth - 1) for use in uses)
        return bool(uses and listed)
    for outer in script.source.ancestors(node):
        if isinstance(outer, (ast.Compare, ast.List, ast.Tuple, ast.Set, ast.match_case)):
            return True
        if isinstance(outer, ast.Dict):
            return not _is_value_of_gfx(outer, node)
        if isinstance(outer, ast.Call):
            return _is_said_or_asked(script, outer)
        if isinstance(outer, (ast.stmt, ast.Lambda)):
            return isinstance(outer, (ast.Expr, ast.Match))
    return False


def _is_value_of_gfx(table: ast.Dict, node: ast.AST) -> bool:
    pairs = zip(table.keys, table.values, strict=True)
    words = [heading(key) or "" for key, value in pairs if value is node]
    return any(re.search("gfx|arch", word.lower()) for word in words)


def _is_said_or_asked(script: Script, call: ast.Call) -> bool:
    """Whether a call only prints its arguments, or asks something of ``get_gfx()``."""
    function = call.func
    if isinstance(function, ast.Name):
        return function.id in ("print", "set", "frozenset")
    if not isinstance(function, ast.Attribute):
        return False
    said = function.attr in ("debug", "info", "warning", "error", "skip", "get", "startswith")
    return said or script.knows_arch(function.value)


def _suffixed_file(script: Script) -> Iterator[Hit]:
    path = script.source.path
    match = _SUFFIX.fullmatch(path.stem)
    if match is None:
        return
    base = match[1] + (match[3] or "")
    for sibling in sorted(path.parent.glob("test_*.py")):
        other = _SUFFIX.fullmatch(sibling.stem)
        stem = other[1] + (other[3] or "") if other else sibling.stem
        if sibling.name != path.name and stem == base:
            yield Hit(
                None,
                f"{path.name} and {sibling.name} test one op for different archs: merge them into "
                f"{base}.py, which calls the wrapper that dispatches by get_gfx()",
            )
            return


def _suffixed_kernel(script: Script) -> Iterator[Hit]:
    for node in script.source.within():
        if not isinstance(node, (ast.Import, ast.ImportFrom)):
            continue
        module = getattr(node, "module", None) or ""
        parts = [p for p in module.split(".") if p]
        parts += [part for alias in node.names for part in alias.name.split(".")]
        for part in parts:
            match = _SUFFIX.fullmatch(part)
            if match is not None and match[3] is None:  # is_gfx950_or_later is no kernel
                yield Hit(
                    node,
                    f"{part} is the kernel of one arch: import the wrapper that dispatches by "
                    "get_gfx(), and leave a candidate out where the card lacks it",
                )
                break


RULES = (
    Rule(
        "OT601",
        "no allow-list gate in main()",
        "On a card that the op is not built for the test must end in a warning, not in a crash. "
        "The gate stands in main(), before the sweep.",
        "def main():\n    parser = argparse.ArgumentParser()",
        "def main():\n    if get_gfx() not in SUPPORTED_GFX:\n"
        '        logger.warning("scale is not supported on %s; skipping", get_gfx())\n'
        "        return",
        _ungated,
    ),
    Rule(
        "OT602",
        "gate that lists what is forbidden",
        "A card that nobody has thought of yet passes such a gate. Single candidates may be left "
        'out by get_gfx() != "gfx1250" in a file with a gate; that is the standard\'s own way.',
        'def main():\n    if get_gfx() in ["gfx1250"]:\n        return',
        "def main():\n    if get_gfx() not in SUPPORTED_GFX:\n        return",
        _denying,
    ),
    Rule(
        "OT603",
        "hard-coded arch",
        "One test runs on every card. An arch written into a row or handed to a kernel is wrong "
        "on all others. Names that are compared with get_gfx(), listed, or printed are not meant.",
        'ret = {"gfx": "gfx942"}',
        'ret = {"gfx": get_gfx()}',
        _hard_coded,
    ),
    Rule(
        "OT604",
        "one file for each arch",
        "Two files drift apart. The wrapper picks the kernel by the card, so one test covers all.",
        "# test_scale_gfx1250.py beside test_scale.py",
        "# test_scale.py alone",
        _suffixed_file,
    ),
    Rule(
        "OT605",
        "kernel of one arch imported",
        "Models call the wrapper, which dispatches; the test must call what the model calls.",
        "from aiter.ops.scale_gfx1250 import scale",
        "from aiter.ops.scale import scale",
        _suffixed_kernel,
    ),
)
