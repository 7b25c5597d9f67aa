"""The names of a task's tests, read from its source: to import it may take a GPU."""

from __future__ import annotations

import ast
from pathlib import Path

from optest.errors import UsageError

PERFORMANCE = "performance"

_Function = (ast.FunctionDef, ast.AsyncFunctionDef)


def get_test_names(task: str | Path) -> dict[str, list[str]]:
    """Names of the tests that a task defines, without importing it.

    Args:
        task: the task's file, or the folder that holds its ``task.py``.

    Returns:
        ``all_tests``, ``correctness_tests`` and ``profile_tests`` (those marked ``performance``, on
        the test, its class or the module), each a list of ``TestClass::test_name`` in the order of
        the file. Tests that a class inherits are not in its source and not listed.

    Raises:
        ValueError: there is no such file, or it is no Python; the message names the line.
    """
    module = parse(task)
    found: dict[str, list[str]] = {"all_tests": [], "correctness_tests": [], "profile_tests": []}
    for kind in module.body:
        if not (isinstance(kind, ast.ClassDef) and kind.name.startswith("Test")):
            continue
        outer = _assigned_marks(module.body) | _marks(kind.decorator_list)
        outer |= _assigned_marks(kind.body)
        for item in kind.body:
            if isinstance(item, _Function) and item.name.startswith("test"):
                timed = PERFORMANCE in outer | _marks(item.decorator_list)
                name = f"{kind.name}::{item.name}"
                found["all_tests"].append(name)
                found["profile_tests" if timed else "correctness_tests"].append(name)
    return found


def parse(task: str | Path) -> ast.Module:
    """The syntax tree of a task.

    Raises:
        ValueError: as ``get_test_names``.
    """
    path = Path(task)
    path = path / "task.py" if path.is_dir() else path
    try:
        return ast.parse(path.read_bytes(), str(path))
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror})") from None
    except (SyntaxError, ValueError) as error:
        line = f":{error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        words = error.msg if isinstance(error, SyntaxError) else error
        raise UsageError(f"{path}{line}: no Python: {words}") from None


def _marks(decorators: list[ast.expr]) -> set[str]:
    """Names of the ``pytest.mark.<name>`` or ``mark.<name>``, called or not."""
    names = set()
    for decorator in decorators:
        node = decorator.func if isinstance(decorator, ast.Call) else decorator
        if isinstance(node, ast.Attribute):
            owner = node.value
            if getattr(owner, "attr", getattr(owner, "id", "")) == "mark":
                names.add(node.attr)
    return names


def _assigned_marks(body: list[ast.stmt]) -> set[str]:
    """Names in ``pytestmark = …`` of a module or class: one mark, or a list of them."""
    names: set[str] = set()
    for statement in body:
        targets: list[ast.expr] = []
        if isinstance(statement, ast.Assign):
            targets = statement.targets
        elif isinstance(statement, ast.AnnAssign):
            targets = [statement.target]
        if any(isinstance(target, ast.Name) and target.id == "pytestmark" for target in targets):
            value = statement.value  # type: ignore[attr-defined]
            names |= _marks(value.elts if isinstance(value, (ast.List, ast.Tuple)) else [value])
    return names
