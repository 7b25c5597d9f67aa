"""Which pointer parameters a Triton kernel loads from and stores to, read from its source.

Nothing is run: the kernel's syntax tree is followed from the parameters through assignments,
pointer arithmetic and calls of other Triton functions to ``tl.load``, ``tl.store`` and the atomics.
Branches that constants switch off are left out.
"""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from optest.golden.source import function_of, text_of
from optest.golden.triton_constants import UNKNOWN, Folder, is_language

if TYPE_CHECKING:
    import types

_LOADS = {"load", "gather", "load_tensor_descriptor"}
_STORES = {"store", "scatter", "store_tensor_descriptor", "atomic_max_descriptor"}
_OPAQUE = {"inline_asm_elementwise", "extern_elementwise", "debug_barrier"}
# Attributes of a pointer that are no pointers.
_FACTS = {"dtype", "type", "shape", "element_ty", "block_shape", "strides", "numel"}
_MAX_DEPTH = 16
_MAX_PASSES = 20


@dataclass
class Access:
    """What a function does with the pointers it is given.

    Attributes:
        loads: parameters whose memory is read.
        stores: parameters whose memory is written.
        returns: parameters whose pointers may be in what it returns.
        lost: a store or an unknown call whose pointer could not be followed.
    """

    loads: set[str] = field(default_factory=set)
    stores: set[str] = field(default_factory=set)
    returns: set[str] = field(default_factory=set)
    lost: bool = False

    def direction(self, name: str) -> str:
        """``in``, ``out`` or ``inout``."""
        if name not in self.stores:
            return "in"
        return "inout" if name in self.loads else "out"


def access(kernel: object, pointers: Iterable[str], constants: Mapping[str, object]) -> Access:
    """What a Triton kernel does with its parameters ``pointers``, given values of its constants."""
    function = function_of(kernel)
    assert function is not None
    return _access(function, frozenset(pointers), dict(constants), depth=0)


def _access(
    function: types.FunctionType,
    pointers: frozenset[str],
    constants: Mapping[str, object],
    depth: int,
) -> Access:
    source = _source(function)
    if source is None:
        return Access(lost=True)
    return _Walk(*source, pointers, constants, depth).result()


@functools.lru_cache(maxsize=256)
def _source(
    function: types.FunctionType,
) -> tuple[tuple[ast.stmt, ...], inspect.ClosureVars] | None:
    """The statements of a function and what its free names stand for; None without a source."""
    text = text_of(function)
    if text is None:
        return None
    try:
        tree = ast.parse(textwrap.dedent(text)).body[0]
    except SyntaxError:
        return None
    if not isinstance(tree, ast.FunctionDef):
        return None
    return tuple(tree.body), inspect.getclosurevars(function)


class _Walk:
    """One function, followed until no variable gains another pointer."""

    def __init__(
        self,
        body: Iterable[ast.stmt],
        scope: inspect.ClosureVars,
        pointers: frozenset[str],
        constants: Mapping[str, object],
        depth: int,
    ) -> None:
        self._body = body
        self._scope = scope
        self._folder = Folder(constants, self._resolved)
        self._depth = depth
        self._roots: dict[str, set[str]] = {name: {name} for name in pointers}
        self._found = Access()

    def result(self) -> Access:
        for _ in range(_MAX_PASSES):
            before = {name: set(roots) for name, roots in self._roots.items()}
            self._block(self._body)
            if before == self._roots:
                return self._found
        self._found.lost = True
        return self._found

    def _block(self, statements: Iterable[ast.stmt]) -> None:
        for statement in statements:
            self._statement(statement)

    def _statement(self, statement: ast.stmt) -> None:
        if isinstance(statement, ast.If):
            self._if(statement)
        elif isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            self._assign(statement)
        elif isinstance(statement, (ast.For, ast.While)):
            self._loop(statement)
        elif isinstance(statement, ast.Return) and statement.value is not None:
            self._found.returns |= self._value(statement.value)
        elif isinstance(statement, ast.Expr):
            self._value(statement.value)
        else:
            self._other(statement)

    def _other(self, statement: ast.stmt) -> None:
        for child in ast.iter_child_nodes(statement):
            if isinstance(child, ast.stmt):
                self._statement(child)
            elif isinstance(child, ast.expr):
                self._value(child)
            elif isinstance(child, ast.withitem):
                self._value(child.context_expr)

    def _if(self, statement: ast.If) -> None:
        test = self._folder.value(statement.test)
        self._value(statement.test)
        if test is UNKNOWN or test:
            self._block(statement.body)
        if test is UNKNOWN or not test:
            self._block(statement.orelse)

    def _loop(self, statement: ast.For | ast.While) -> None:
        if isinstance(statement, ast.For):
            self._bind(statement.target, statement.iter)
        else:
            self._value(statement.test)
        self._block(statement.body)
        self._block(statement.orelse)

    def _assign(self, statement: ast.Assign | ast.AnnAssign | ast.AugAssign) -> None:
        if statement.value is None:
            return
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        for target in targets:
            self._bind(target, statement.value)

    def _bind(self, target: ast.expr, value: ast.expr) -> None:
        pairs = isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)
        if pairs and len(target.elts) == len(value.elts):  # type: ignore[attr-defined]
            for one, its in zip(target.elts, value.elts, strict=True):  # type: ignore[attr-defined]
                self._bind(one, its)
            return
        roots = self._value(value)
        for node in ast.walk(target):
            if isinstance(node, ast.Name):
                self._folder.constants.pop(node.id, None)
                self._roots.setdefault(node.id, set()).update(roots)

    def _value(self, node: ast.expr) -> set[str]:
        """Parameters whose pointers the value may hold; loads and stores inside are noted."""
        if isinstance(node, ast.Name):
            return set(self._roots.get(node.id, ()))
        if isinstance(node, ast.Attribute):
            roots = self._value(node.value)
            return set() if node.attr in _FACTS else roots
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, ast.NamedExpr):
            self._bind(node.target, node.value)
            return self._value(node.target)
        if isinstance(node, ast.IfExp):
            return self._if_expression(node)
        roots = self._union(child for child in ast.iter_child_nodes(node))
        return set() if isinstance(node, ast.Compare) else roots

    def _if_expression(self, node: ast.IfExp) -> set[str]:
        test = self._folder.value(node.test)
        self._value(node.test)
        taken = [node.body] if test is UNKNOWN or test else []
        taken += [node.orelse] if test is UNKNOWN or not test else []
        return self._union(taken)

    def _union(self, nodes: Iterable[ast.AST]) -> set[str]:
        found: set[str] = set()
        for node in nodes:
            if isinstance(node, ast.expr):
                found |= self._value(node)
        return found

    def _call(self, node: ast.Call) -> set[str]:
        arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
        function = self._resolved(node.func)
        if function is not None and not is_language(function):
            return self._call_of_function(node, function)
        if isinstance(node.func, ast.Attribute) and function is None:
            # A method: of a pointer, a descriptor, or of numbers.
            return self._operation(node.func.attr, [node.func.value, *arguments])
        name = node.func.attr if isinstance(node.func, ast.Attribute) else _name(node.func)
        pointer = next((k.value for k in node.keywords if k.arg in ("pointer", "desc")), None)
        return self._operation(name, arguments if pointer is None else [pointer, *arguments])

    def _operation(self, name: str, arguments: list[ast.expr]) -> set[str]:
        """One of Triton's own, by its name; the first argument is the pointer, where it has one."""
        roots = self._union(arguments)
        if name in _LOADS | _STORES or name.startswith("atomic_"):
            target = self._value(arguments[0]) if arguments else set()
            if name not in _STORES:
                self._found.loads |= target
            if name not in _LOADS:
                self._found.stores |= target
                self._found.lost |= not target
            return set()
        if name in _OPAQUE and roots:
            self._found.lost = True
        return roots

    def _call_of_function(self, node: ast.Call, function: object) -> set[str]:
        """A call of another Triton function; of anything else no pointer may be handed over."""
        callee = function_of(function)
        is_triton = type(function).__module__.startswith("triton.")
        starred = any(isinstance(a, ast.Starred) for a in node.args)
        if callee is None or not is_triton or starred or self._depth >= _MAX_DEPTH:
            roots = self._union([*node.args, *(k.value for k in node.keywords)])
            self._found.lost |= bool(roots)
            return roots
        names = callee.__code__.co_varnames[: callee.__code__.co_argcount]
        given = dict(zip(names, node.args, strict=False))
        given |= {k.arg: k.value for k in node.keywords if k.arg is not None}
        roots_of = {name: self._value(value) for name, value in given.items()}
        constants = {name: self._folder.value(value) for name, value in given.items()}
        known = {name: value for name, value in constants.items() if value is not UNKNOWN}
        inner = _access(callee, frozenset(names), known, self._depth + 1)
        return self._merged(inner, roots_of)

    def _merged(self, inner: Access, roots_of: Mapping[str, set[str]]) -> set[str]:
        def of(names: Iterable[str]) -> set[str]:
            return set().union(*(roots_of.get(name, set()) for name in names))

        self._found.loads |= of(inner.loads)
        self._found.stores |= of(inner.stores)
        self._found.lost |= inner.lost or any(not roots_of.get(name) for name in inner.stores)
        return of(inner.returns)

    def _resolved(self, node: ast.expr) -> Any:  # noqa: ANN401 - any object that a name stands for
        """The object behind a name or a dotted name; None behind a variable of the function."""
        if isinstance(node, ast.Attribute):
            owner = self._resolved(node.value)
            return None if owner is None else getattr(owner, node.attr, None)
        if not isinstance(node, ast.Name) or node.id in self._roots:
            return None
        for names in (self._scope.nonlocals, self._scope.globals, self._scope.builtins):
            if node.id in names:
                return names[node.id]
        return None


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""
