"""Values that a Triton kernel's source has before it runs: what its ``if``s on constants take."""

from __future__ import annotations

import ast
import inspect
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

UNKNOWN: Any = object()  # None is a value
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], object]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}
_BINARY: dict[type[ast.operator], Callable[[Any, Any], object]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.BitAnd: operator.and_,
}
_UNARY: dict[type[ast.unaryop], Callable[[Any], object]] = {
    ast.Not: operator.not_,
    ast.USub: operator.neg,
}
_PLAIN = (bool, int, float, str)


def is_language(function: object) -> bool:
    """Whether it belongs to triton.language (or is a builtin of Python), not to the user.

    What its standard library decorates with ``triton.jit`` belongs to it as well.
    """
    inner = getattr(function, "fn", function)
    module = getattr(inner, "__module__", None) or ""
    return module.startswith("triton.") or inspect.isbuiltin(inner) or module == "builtins"


class Folder:
    """Values of expressions, given those of some names.

    Args:
        constants: values of the function's parameters that are known.
        resolved: the object behind another name or dotted name, None where it is not known.
    """

    def __init__(
        self, constants: Mapping[str, object], resolved: Callable[[ast.expr], object]
    ) -> None:
        self.constants = dict(constants)
        self._resolved = resolved

    def value(self, node: ast.expr) -> Any:  # noqa: ANN401 - whatever the constant is
        """The value of an expression; UNKNOWN where the kernel has to run for it."""
        try:
            return self._value(node)
        except (TypeError, ValueError, ArithmeticError):
            return UNKNOWN

    def _value(self, node: ast.expr) -> Any:  # noqa: ANN401
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, (ast.Name, ast.Attribute)):
            return self._of_name(node)
        if isinstance(node, ast.BoolOp):
            return self._of_bool(node)
        if isinstance(node, ast.Compare):
            return self._of_compare(node)
        return self._of_operands(node)

    def _of_name(self, node: ast.Name | ast.Attribute) -> Any:  # noqa: ANN401
        if isinstance(node, ast.Name) and node.id in self.constants:
            return self.constants[node.id]
        return _plain(self._resolved(node))

    def _of_operands(self, node: ast.expr) -> Any:  # noqa: ANN401
        if isinstance(node, ast.Tuple):
            values = tuple(self._value(child) for child in node.elts)
            return UNKNOWN if _any_unknown(values) else values
        if isinstance(node, ast.UnaryOp) and type(node.op) in _UNARY:
            value = self._value(node.operand)
            return value if value is UNKNOWN else _UNARY[type(node.op)](value)
        if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
            sides = (self._value(node.left), self._value(node.right))
            return UNKNOWN if _any_unknown(sides) else _BINARY[type(node.op)](*sides)
        return UNKNOWN

    def _of_bool(self, node: ast.BoolOp) -> Any:  # noqa: ANN401
        """One operand that decides is enough, whatever the unknown ones are."""
        decides = isinstance(node.op, ast.Or)
        values = [self._value(child) for child in node.values]
        if any(value is not UNKNOWN and bool(value) is decides for value in values):
            return decides
        return UNKNOWN if _any_unknown(values) else not decides

    def _of_compare(self, node: ast.Compare) -> Any:  # noqa: ANN401
        values = [self._value(child) for child in (node.left, *node.comparators)]
        if _any_unknown(values):
            return UNKNOWN
        pairs = zip(node.ops, values[:-1], values[1:], strict=True)
        return all(_COMPARE[type(op)](left, right) for op, left, right in pairs)


def _any_unknown(values: Iterable[object]) -> bool:
    return any(value is UNKNOWN for value in values)


def _plain(value: object) -> Any:  # noqa: ANN401
    """A global of a plain kind, one that is wrapped as ``tl.constexpr``, or a dtype of Triton's."""
    if type(value).__name__ == "constexpr":
        value = getattr(value, "value", None)
    dtype = type(value).__module__.startswith("triton.") and type(value).__name__ == "dtype"
    return value if dtype or isinstance(value, _PLAIN) else UNKNOWN
