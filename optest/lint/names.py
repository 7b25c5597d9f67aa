"""What a name in a file stands for: imports and plain aliases, followed to where they come from."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from optest.lint.source import FUNCTIONS, Source

OPTEST, AITER = "optest", "aiter"
# What the rules are about, whichever of the two frameworks a file takes it from.
HARNESS = frozenset(
    {
        "benchmark",
        "run_perftest",
        "perftest",
        "checkAllclose",
        "assertAllclose",
        "get_gfx",
        "get_arch",
        "get_gfx_runtime",
        "summarize",
    }
)
_MARKS = frozenset({"benchmark", "run_perftest", "checkAllclose"})
_PARTIAL = {"functools.partial"}


class Names:
    """The imports of a file. A name may have two origins (``try: … except ImportError: …``)."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._origins: dict[str, set[str]] = {}
        self._stars: set[str] = set()
        self.modules: set[str] = set()
        for node in source.within():
            if isinstance(node, ast.Import):
                self._import(node)
            elif isinstance(node, ast.ImportFrom):
                self._import_from(node)
        self._defined = {node.name for node in source.within() if isinstance(node, FUNCTIONS)}
        self._follow_aliases()

    def origins(self, node: ast.AST) -> set[str]:
        """Dotted origins of a name or attribute: ``{"torch.randn"}``; empty for what is local."""
        if isinstance(node, ast.Name):
            # An import wins over a function of the same name: that stands in where it fails.
            starred = node.id in HARNESS and node.id not in self._defined
            stars = {f"{star}.{node.id}" for star in self._stars if starred}
            return self._origins.get(node.id, stars)
        if isinstance(node, ast.Attribute):
            return {f"{origin}.{node.attr}" for origin in self.origins(node.value)}
        return set()

    def harness(self, node: ast.AST) -> str:
        """The harness's own name for what a name stands for, such as ``run_perftest``; or empty."""
        for origin in self.origins(node):
            root, _, rest = origin.partition(".")
            last = rest.rpartition(".")[2]
            if root in (OPTEST, AITER) and last in HARNESS:
                return last
        return ""

    def only_aiter(self, node: ast.AST) -> bool:
        """Whether a harness name comes from aiter and from nowhere else."""
        roots = {origin.partition(".")[0] for origin in self.origins(node)}
        return roots == {AITER}

    def marks_an_op_test(self) -> bool:
        """Whether the file imports what makes a file an op test."""
        tasks = any(module.startswith((f"{OPTEST}.testing", f"{OPTEST}.golden"))
                    for module in self.modules)  # fmt: skip
        marks = _MARKS - {"checkAllclose"} if tasks else _MARKS
        used = (self.harness(node) for node in self._source.within() if _is_name(node))
        imported = {origin.rpartition(".")[2] for origin in self._harness_imports()}
        return bool(marks & imported) or any(name in marks for name in used)

    def _harness_imports(self) -> Iterator[str]:
        for origins in self._origins.values():
            yield from (o for o in origins if o.partition(".")[0] in (OPTEST, AITER))

    def _import(self, node: ast.Import) -> None:
        for alias in node.names:
            self.modules.add(alias.name)
            bound = alias.asname or alias.name.partition(".")[0]
            self._origins.setdefault(bound, set()).add(alias.name if alias.asname else bound)

    def _import_from(self, node: ast.ImportFrom) -> None:
        module = "." * node.level + (node.module or "")
        self.modules.add(module)
        for alias in node.names:
            if alias.name == "*":
                self._stars.add(module)
                continue
            self.modules.add(f"{module}.{alias.name}")
            bound = alias.asname or alias.name
            self._origins.setdefault(bound, set()).add(f"{module}.{alias.name}")

    def _follow_aliases(self) -> None:
        """``check = checkAllclose`` and ``check = partial(checkAllclose, rtol=0)``."""
        for node in self._source.of(ast.Assign):
            value = node.value
            if isinstance(value, ast.Call) and self.origins(value.func) & _PARTIAL:
                value = value.args[0] if value.args else value
            if not _is_name(value) or not self.harness(value):
                continue
            for target in node.targets:
                if isinstance(target, ast.Name) and target.id not in self._origins:
                    self._origins[target.id] = self.origins(value)


def _is_name(node: ast.AST) -> bool:
    return isinstance(node, (ast.Name, ast.Attribute))
