"""An op test as the rules see it: its test functions, ``main()``, guard, and what reaches what."""

from __future__ import annotations

import ast
import functools
from collections.abc import Collection, Iterable, Iterator

from optest.lint.column import SETTING, Column, set_by
from optest.lint.names import Names
from optest.lint.source import FUNCTIONS, Function, Source

CHECKS = ("checkAllclose", "assertAllclose")
ARCH = ("get_gfx", "get_arch", "get_gfx_runtime")


class Script:
    """One op test file."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.names = Names(source)
        self._harness: dict[ast.AST, str] = {
            node: name
            for node in source.within()
            if isinstance(node, (ast.Name, ast.Attribute)) and (name := self.names.harness(node))
        }
        self.guard = next((n for n in source.tree.body if is_guard(n)), None)
        self.functions = {n.name: n for n in self._top_level() if isinstance(n, FUNCTIONS)}
        self._globals = self._bound_at_top_level()
        self._reached: dict[tuple[ast.AST, frozenset[ast.AST]], list[ast.AST]] = {}

    @property
    def main(self) -> Function | None:
        """``main()``, or None."""
        return self.functions.get("main")

    @functools.cached_property
    def benchmarks(self) -> list[Function]:
        """Functions under ``@benchmark()``, wherever they stand."""
        every = [node for node in self.source.within() if isinstance(node, FUNCTIONS)]
        return [node for node in every if self.decorator(node, "benchmark") is not None]

    @functools.cached_property
    def undecorated(self) -> list[Function]:
        """``test_`` functions that time or check something and should be under ``@benchmark()``."""
        used = {node for each in self.benchmarks for node in self.reach(each)}
        return [
            function
            for name, function in self.functions.items()
            if name.startswith("test_") and function not in used and self.works(function)
        ]

    @functools.cached_property
    def tests(self) -> list[Function]:
        """Test functions, decorated or not, in the order of the file."""
        return sorted((*self.benchmarks, *self.undecorated), key=lambda each: each.lineno)

    @functools.cached_property
    def test_names(self) -> frozenset[str]:
        """Their names."""
        return frozenset(each.name for each in self.tests)

    def harness(self, node: ast.AST) -> str:
        """The harness's name for a name or attribute, or for what a call calls; or empty."""
        return self._harness.get(node.func if isinstance(node, ast.Call) else node, "")

    def decorator(self, function: Function, name: str) -> ast.expr | None:
        """The decorator of that harness name, called or bare."""
        return next((d for d in function.decorator_list if self.harness(d) == name), None)

    @functools.cached_property
    def _called(self) -> dict[ast.AST, tuple[str, ast.Call]]:
        calls = self.source.of(ast.Call)
        return {call: (self.harness(call), call) for call in calls if self.harness(call)}

    @functools.cached_property
    def _timed(self) -> dict[ast.AST, ast.Call]:
        functions = self.functions.items()
        decorated = {name for name, f in functions if self.decorator(f, "perftest") is not None}
        return {
            call: call
            for call in self.source.of(ast.Call)
            if self.harness(call) == "run_perftest"
            or (isinstance(call.func, ast.Name) and call.func.id in decorated)
        }

    def calls(self, names: Collection[str], nodes: Iterable[ast.AST]) -> list[ast.Call]:
        """Calls of the harness's functions of those names."""
        return [
            self._called[n][1] for n in nodes if n in self._called and self._called[n][0] in names
        ]

    def timed(self, nodes: Iterable[ast.AST]) -> list[ast.Call]:
        """Calls that time a candidate: of ``run_perftest``, of functions under ``@perftest()``."""
        return [self._timed[node] for node in nodes if node in self._timed]

    def works(self, function: Function) -> bool:
        """Whether a function, or what it calls in this file, times or checks something."""
        nodes = self.reach(function)
        return bool(self.timed(nodes) or self.calls(CHECKS, nodes))

    def reach(self, start: ast.AST, *, stop: Iterable[ast.AST] = ()) -> list[ast.AST]:
        """Nodes beneath ``start`` and beneath all of the file's own that it names, and so on."""
        key = (start, frozenset(stop))
        if key not in self._reached:
            self._reached[key] = list(self._reach(start, key[1]))
        return self._reached[key]

    def _reach(self, start: ast.AST, stop: frozenset[ast.AST]) -> Iterator[ast.AST]:
        waiting, seen = [start], {start}
        while waiting:
            nodes = self.source.within(waiting.pop())
            yield from nodes
            for node in nodes:
                if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load):
                    continue
                for found in self._globals.get(node.id, ()):
                    if found not in seen and found not in stop:
                        seen.add(found)
                        waiting.append(found)

    def uses(self, function: Function) -> list[ast.Name]:
        """Where the file names a function, other than in the function itself."""
        return [
            node
            for node in self._loads.get(function.name, ())
            if not self.source.contains(function, node)
        ]

    @functools.cached_property
    def _loads(self) -> dict[str, list[ast.Name]]:
        loads: dict[str, list[ast.Name]] = {}
        for node in self.source.of(ast.Name):
            if isinstance(node.ctx, ast.Load):
                loads.setdefault(node.id, []).append(node)
        return loads

    def loads(self, name: str, within: ast.AST | None = None) -> list[ast.Name]:
        """Where a name is read."""
        found = self._loads.get(name, [])
        return [n for n in found if within is None or self.source.contains(within, n)]

    @functools.cached_property
    def _assigned(self) -> dict[str, list[tuple[ast.stmt, ast.expr]]]:
        bound: dict[str, list[tuple[ast.stmt, ast.expr]]] = {}
        for node in self.source.within():
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        bound.setdefault(target.id, []).append((node, node.value))
            elif isinstance(node, ast.AnnAssign) and node.value is not None:
                name = ast.unparse(node.target)
                bound.setdefault(name, []).append((node, node.value))
        return bound

    @functools.cached_property
    def _changes(self) -> dict[str, list[ast.AST]]:
        changed: dict[str, list[ast.AST]] = {}
        for assign in self.source.of(ast.Assign):
            changed.setdefault(ast.unparse(assign.targets[0]), []).append(assign)
        for augmented in self.source.of(ast.AugAssign):
            changed.setdefault(ast.unparse(augmented.target), []).append(augmented)
        for call in self.source.of(ast.Call):
            if isinstance(call.func, ast.Attribute) and call.func.attr in ("append", "extend"):
                changed.setdefault(ast.unparse(call.func.value), []).append(call)
        return {name: sorted(nodes, key=self.source.position) for name, nodes in changed.items()}

    @functools.cached_property
    def _columns(self) -> dict[ast.AST, list[Column]]:
        nodes = [node for kind in SETTING for node in self.source.of(kind)]
        return {node: found for node in nodes if (found := set_by(node))}

    def columns(self, nodes: Iterable[ast.AST]) -> list[Column]:
        """Columns that are set anywhere in ``nodes``."""
        return [column for node in nodes for column in self._columns.get(node, ())]

    def changes(self, name: str, within: ast.AST) -> list[ast.AST]:
        """Where a list is bound, added to, appended to or extended, in the order of the text."""
        found = self._changes.get(name, [])
        return [node for node in found if self.source.contains(within, node)]

    def values(self, name: str, near: ast.AST) -> list[ast.expr]:
        """What a name is bound to by assignment: in the function around ``near``, else on top."""
        function = self.source.function_of(near)
        bound = self._assigned.get(name, [])
        own = [v for s, v in bound if function and self.source.function_of(s) is function]
        return own or [v for s, v in bound if self.source.function_of(s) is None]

    def resolved(self, node: ast.expr) -> list[ast.expr]:
        """The expression itself, or for a name what it is bound to."""
        if isinstance(node, ast.Name):
            return self.values(node.id, node) or [node]
        return [node]

    def is_arch(self, node: ast.AST) -> bool:
        """Whether an expression is ``get_gfx()`` or a name for what it gave."""
        if isinstance(node, ast.Call):
            return self.harness(node) in ARCH
        if isinstance(node, ast.Name):
            return any(self.harness(v) in ARCH for v in self.values(node.id, node)
                       if isinstance(v, ast.Call))  # fmt: skip
        return False

    def knows_arch(self, node: ast.AST) -> bool:
        """Whether ``get_gfx()`` stands anywhere in an expression."""
        return any(self.is_arch(each) for each in self.source.within(node))

    def now(self, statement: ast.AST) -> Iterator[ast.AST]:
        """Nodes that run when a statement runs: not the bodies of lambdas and functions."""
        waiting = [statement]
        while waiting:
            node = waiting.pop()
            yield node
            if not isinstance(node, (ast.Lambda, *FUNCTIONS)):
                waiting.extend(ast.iter_child_nodes(node))

    def before_guard(self) -> list[ast.stmt]:
        """Statements that an import runs, without imports and definitions."""
        passive = (ast.Import, ast.ImportFrom, ast.ClassDef, *FUNCTIONS)
        return [n for n in self._top_level() if not isinstance(n, passive)]

    def _top_level(self) -> list[ast.stmt]:
        """Statements of the module, also under ``if``, ``try`` and ``with``, but not the guard."""
        found: list[ast.stmt] = []
        waiting = list(reversed(self.source.tree.body))
        while waiting:
            node = waiting.pop()
            if node is self.guard:
                continue
            if isinstance(node, (ast.If, ast.Try, ast.With)):
                inner = [n for n in ast.iter_child_nodes(node) if isinstance(n, ast.stmt)]
                for handler in getattr(node, "handlers", []):
                    inner.extend(handler.body)
                if any(isinstance(n, FUNCTIONS) for n in inner):
                    waiting.extend(reversed(inner))
                    continue
            found.append(node)
        return found

    def _bound_at_top_level(self) -> dict[str, list[ast.AST]]:
        bound: dict[str, list[ast.AST]] = {}
        for node in self._top_level():
            if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
                bound.setdefault(node.name, []).append(node)
            elif isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        bound.setdefault(target.id, []).append(node)
        return bound


def is_guard(node: ast.AST) -> bool:
    """Whether a statement is ``if __name__ == "__main__":``."""
    if not isinstance(node, ast.If) or not isinstance(node.test, ast.Compare):
        return False
    sides = [node.test.left, *node.test.comparators]
    named = any(isinstance(side, ast.Name) and side.id == "__name__" for side in sides)
    return named and any(isinstance(s, ast.Constant) and s.value == "__main__" for s in sides)
