"""OT7xx: the inputs, as the model has them."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator

from optest.lint.finding import Hit
from optest.lint.rule import Rule
from optest.lint.script import Script
from optest.lint.source import Function

# Functions that draw data: what they make is an input. Blank tensors are outputs.
_DRAWING = {"randn", "rand", "randint", "normal", "randn_like", "rand_like", "randint_like"}
_VIEWS = {
    "transpose", "permute", "movedim", "moveaxis", "swapaxes", "swapdims", "t", "T", "mT",
    "as_strided", "rearrange", "view", "reshape", "flatten", "unflatten", "expand", "unbind",
    "chunk", "split", "narrow", "select",
}  # fmt: skip
_VIEW_WORDS = {"transposed", "strided", "view", "col", "column", "noncontiguous"}
_BLANK = {"empty", "zeros", "empty_like", "zeros_like", "new_empty", "new_zeros", "ones"}


def _idealised(script: Script) -> Iterator[Hit]:
    if not _names_views(script):
        return
    for function in script.tests:
        layouts = [a.arg for a in _parameters(function) if _is_layout(a.arg)]
        if layouts and _Layout(script, function, set(layouts)).is_ignored_by_inputs():
            axis = layouts[0]
            yield Hit(
                function,
                f"{function.name} sweeps {axis}, yet its inputs are contiguous whatever it is: "
                f"where the model passes a view build one, as torch.randn(m, b, k).transpose(0, "
                f"1) under if {axis} == ...",
            )


def _parameters(function: Function) -> list[ast.arg]:
    taken = function.args
    return [*taken.posonlyargs, *taken.args, *taken.kwonlyargs]


def _is_layout(name: str) -> bool:
    return name in ("layout", "input_layout", "in_layout")


def _names_views(script: Script) -> bool:
    """Whether the file's layouts are orders of the same axes (bmn, mbn), or say that one is a view.

    Others, such as blocked and plain, are laid out by the kernel or by its shapes.
    """
    words = {word.lower() for word in _layouts(script)}
    orders = ["".join(sorted(word)) for word in words]
    return bool(words & _VIEW_WORDS) or len(set(orders)) < len(orders)


def _layouts(script: Script) -> Iterator[str]:
    """Texts that the file gives to ``--layout``, or compares a layout with."""
    for call in script.source.of(ast.Call):
        texts = [a.value for a in call.args if isinstance(a, ast.Constant)]
        if any(isinstance(t, str) and _is_layout(t.lstrip("-")) for t in texts):
            for word in call.keywords:
                for value in script.resolved(word.value):
                    yield from _texts(script, value)
    for comparison in script.source.of(ast.Compare):
        names = script.source.of(ast.Name, comparison)
        if any(_is_layout(name.id) for name in names):
            yield from _texts(script, comparison)


def _texts(script: Script, node: ast.AST) -> Iterator[str]:
    constants = script.source.of(ast.Constant, node)
    yield from (c.value for c in constants if isinstance(c.value, str))


class _Layout:
    """What depends on the layout in a function, followed into the helpers that are given it."""

    def __init__(
        self,
        script: Script,
        function: Function,
        names: set[str],
        seen: frozenset[str] = frozenset(),
    ) -> None:
        self._script, self._function = script, function
        self._seen = seen | {function.name}
        self._given, self._names = frozenset(names), set(names)
        self._data: set[str] = set()
        self._follow()

    def is_ignored_by_inputs(self) -> bool:
        """Whether inputs are drawn in sight and the layout changes none of them."""
        nodes = self._own()
        return any(self._draws(n) for n in nodes) and not self.shapes_inputs()

    def shapes_inputs(self) -> bool:
        """Whether an input is drawn, or viewed, as the layout says."""
        return any(
            self._depends(node) and (self._draws(node) or self._views(node) or self._makes(node))
            for node in self._own()
        )

    def _own(self) -> list[ast.AST]:
        """Nodes of the function without its lambdas: those are candidates."""
        return [n for s in self._function.body for n in self._script.now(s)
                if n in self._script.source.parents]  # fmt: skip

    def _follow(self) -> None:
        """Names whose value depends on the layout, and names of data, until no more are found."""
        for _ in itertools.repeat(None, 4):
            before = len(self._names) + len(self._data)
            for node in self._own():
                if not isinstance(node, ast.Assign):
                    continue
                bound = {n.id for t in node.targets for n in self._script.source.of(ast.Name, t)
                         if isinstance(n.ctx, ast.Store)}  # fmt: skip
                inside = list(self._script.now(node.value))
                if any(self._draws(n) for n in inside) or self._is_view_of_data(node.value):
                    self._data |= bound
                elif self._depends(node) or any(self._is_layout(n) for n in inside):
                    self._names |= bound
            if len(self._names) + len(self._data) == before:
                return

    def _is_view_of_data(self, value: ast.expr) -> bool:
        inner = value.value if isinstance(value, ast.Subscript) else value
        if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute):
            inner = inner.func.value
        return isinstance(inner, ast.Name) and inner.id in self._data

    def _is_layout(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Name) and node.id in self._names

    def _reads(self, node: ast.AST) -> bool:
        return any(self._is_layout(n) for n in self._script.source.within(node))

    def _depends(self, node: ast.AST) -> bool:
        """Whether a node reads the layout, or stands where the layout decides."""
        if self._reads(node):
            return True
        inner = node
        for outer in self._script.source.ancestors(node):
            if outer is self._function:
                return False
            test = getattr(outer, "test", None) or getattr(outer, "subject", None)
            if isinstance(test, ast.expr) and inner is not test and self._reads(test):
                return True
            inner = outer
        return self._follows_a_return(node)

    def _follows_a_return(self, node: ast.AST) -> bool:
        """Whether an ``if layout …: return …`` stands above, so that this is its ``else``."""
        for statement in self._function.body:
            if self._script.source.contains(statement, node):
                return False
            leaves = isinstance(statement, ast.If) and isinstance(statement.body[-1], ast.Return)
            if isinstance(statement, ast.If) and leaves and self._reads(statement.test):
                return True
        return False

    def _draws(self, node: ast.AST) -> bool:
        if not isinstance(node, ast.Call):
            return False
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if isinstance(node.func, ast.Name):
            name = next(iter(self._script.names.origins(node.func)), "").rpartition(".")[2]
        return name in _DRAWING

    def _views(self, node: ast.AST) -> bool:
        """Whether a node is a view of data that stays one: not of a blank, not made contiguous."""
        if isinstance(node, ast.Subscript):
            viewed: ast.expr = node.value
        elif isinstance(node, ast.Attribute) and node.attr in _VIEWS:
            viewed = node.value
        elif isinstance(node, ast.Call) and self._torch_view(node):
            viewed = node.args[0]
        else:
            return False
        inside = list(self._script.now(viewed))
        blank = any(isinstance(n, ast.Attribute) and n.attr in _BLANK for n in inside)
        data = any(self._draws(n) or (isinstance(n, ast.Name) and n.id in self._data)
                   for n in inside)  # fmt: skip
        return data and not blank and not self._made_contiguous(node)

    def _torch_view(self, node: ast.Call) -> bool:
        origins = {o.rpartition(".")[2] for o in self._script.names.origins(node.func)}
        return bool(origins & _VIEWS) and bool(node.args)

    def _made_contiguous(self, node: ast.AST) -> bool:
        call = self._script.source.parents.get(node)
        outer = self._script.source.parents.get(call) if isinstance(call, ast.Call) else call
        return isinstance(outer, ast.Attribute) and outer.attr == "contiguous"

    def _makes(self, node: ast.AST) -> bool:
        """Whether a helper that is given the layout, and no data, makes inputs by it."""
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            return False
        given = [*node.args, *(word.value for word in node.keywords)]
        names = {n.id for each in given for n in self._script.source.of(ast.Name, each)}
        if not names & self._given or node.func.id in self._seen or self._script.harness(node):
            return False
        helper = self._script.functions.get(node.func.id)
        if helper is None:
            return not names & self._data
        passed = self._passed(node, helper)
        return _Layout(self._script, helper, passed, self._seen).shapes_inputs()

    def _passed(self, call: ast.Call, helper: Function) -> set[str]:
        """The helper's parameters that are given the layout."""
        taken = [a.arg for a in _parameters(helper)]
        pairs = [*zip(taken, call.args, strict=False), *((w.arg, w.value) for w in call.keywords)]
        return {name for name, value in pairs if name and self._reads(value)}


RULES = (
    Rule(
        "OT701",
        "contiguous inputs where a layout axis says otherwise",
        "Where the model passes a transposed view, a contiguous stand-in gives the wrong time and "
        "hides wrong results. The input follows the layout as the output does. Held where the "
        "layouts are orders of the same axes (bmn, mbn), or one is called transposed, strided, "
        "col or view.",
        "def test_bmm(b, m, n, k, layout):\n    x = torch.randn(b, m, k)",
        "def test_bmm(b, m, n, k, layout):\n    x = torch.randn(b, m, k)\n"
        '    if layout == "mbn":\n        x = torch.randn(m, b, k).transpose(0, 1)',
        _idealised,
    ),
)
