"""The table of docs/ops.md, read from the op tests themselves: prints the page.

python scripts/ops_page.py > docs/ops.md
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
HEAD = """# Operators

One op test an operator, each with its reference, its kernels and their fair rivals. The table is
read from the files (`python scripts/ops_page.py > docs/ops.md`).

- **Candidates** are the columns of its table. `cpp` is the kernel in `csrc`, on a CPU; `triton` the
  one in `optest/ops/triton`, on a card, and in Triton's interpreter under the tests. The others are
  torch's own (oneDNN on a CPU), its compiler (`inductor`), or a way that people take without a
  kernel of their own.
- **Options** are those that choose dtypes, layouts or variants; each op test's `-h` has them all.
- **Runs on**: what the op test's `main()` lets in. Every Triton kernel is lowered for gfx942,
  gfx950, gfx1250, sm_90 and sm_100 by [`optest compile`](compile.md). No operator of this table has
  been measured on a card yet.
- **Reference**: the function of `aiter_ref` that says what is right. Formulas and their sources
  stand in its docstring, FLOP and byte counts beside it.
"""
COLUMNS = ("op test", "operator", "candidates", "options", "runs on", "reference")


class OpTest:
    """One file of op_tests, as its syntax tree says it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tree = ast.parse(path.read_text("utf-8"))

    def cells(self) -> tuple[str, ...]:
        """The line of the table."""
        name = self.path.name
        return (
            f"[`{name.removeprefix('test_').removesuffix('.py')}`](../op_tests/{name})",
            self.operator(),
            ", ".join(self.candidates()),
            "; ".join(self.options()),
            ", ".join(self.archs()),
            ", ".join(f"`{name}`" for name in self.references()),
        )

    def operator(self) -> str:
        """What the docstring calls it."""
        words = (ast.get_docstring(self.tree) or "").splitlines()[0]
        return words.split(":")[0].split(";")[0].rstrip(".")

    def candidates(self) -> list[str]:
        """Names of the columns, in the order of the file."""
        found: list[str] = []
        for function in _functions(self.tree):
            for node in ast.walk(function):
                found += self._named(node)
        return list(dict.fromkeys(found))

    def _named(self, node: ast.AST) -> Iterator[str]:
        if not isinstance(node, ast.Assign):
            return
        target = node.targets[0]
        if isinstance(target, ast.Subscript) and _is(target.value, "candidates"):
            yield from self._names(target.slice)
        if not _is(target, "candidates"):
            return
        if isinstance(node.value, ast.Dict):
            for key in node.value.keys:
                yield from self._names(key)

    def _names(self, key: ast.expr | None) -> Iterator[str]:
        if isinstance(key, ast.Constant):
            yield str(key.value)
        else:  # ops.own_kernel(), at once or through a variable
            yield from ("cpp", "triton")

    def options(self) -> list[str]:
        """Options with the values they let in, where those are words."""
        found = []
        for call in _calls(self.tree, "add_argument"):
            names = [str(ast.literal_eval(arg)) for arg in call.args]
            values = self._values({word.arg: word.value for word in call.keywords})
            if values:
                found.append(f"`{names[0]}` {' '.join(values)}")
        return found

    def _values(self, words: dict[str | None, ast.expr]) -> list[str]:
        kind, choices = words.get("type"), words.get("choices")
        if isinstance(kind, ast.Call) and _name(kind.func) == "one_of":
            return [str(ast.literal_eval(arg)) for arg in kind.args]
        if isinstance(choices, ast.Name):
            choices = _constants(self.tree)[choices.id]
        return [str(value) for value in ast.literal_eval(choices)] if choices is not None else []

    def archs(self) -> list[str]:
        """What its gate lets in."""
        return list(ast.literal_eval(_constants(self.tree)["SUPPORTED_GFX"]))

    def references(self) -> list[str]:
        """Functions of ``aiter_ref`` that its ``run_torch`` functions call."""
        modules = {
            alias.asname or alias.name: alias.name
            for node in self.tree.body
            if isinstance(node, ast.ImportFrom) and node.module == "aiter_ref"
            for alias in node.names
        }
        found = [
            f"{modules[node.value.id]}.{node.attr}"
            for function in self.tree.body
            if isinstance(function, ast.FunctionDef) and function.name.startswith("run_torch")
            for node in ast.walk(function)
            if isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id in modules
        ]
        return list(dict.fromkeys(found))


def _functions(tree: ast.Module) -> list[ast.FunctionDef]:
    """Those that hold candidates: decorated with ``benchmark``, or that gather them for it."""
    return [node for node in tree.body if isinstance(node, ast.FunctionDef)]


def _constants(tree: ast.Module) -> dict[str, ast.expr]:
    return {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _calls(tree: ast.Module, name: str) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _name(node.func) == name:
            yield node


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _is(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def page() -> str:
    """The whole page."""
    rows = [OpTest(path).cells() for path in sorted((ROOT / "op_tests").glob("test_*.py"))]
    lines = [COLUMNS, ("---",) * len(COLUMNS), *rows]
    return HEAD + "\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


if __name__ == "__main__":
    print(page(), end="")
