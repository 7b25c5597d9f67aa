"""The op tests as they are written: what every file keeps to, whichever operator it is for."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "op_tests"
CARDS = {"cpu", "gfx942", "gfx950", "gfx1250"}


class File:
    """One op test, parsed."""

    def __init__(self, path):
        self.name = path.stem
        self.text = path.read_text()
        self.lines = self.text.splitlines()
        self.tree = ast.parse(self.text)
        self.functions = {n.name: n for n in self.tree.body if isinstance(n, ast.FunctionDef)}
        self.benchmarks = [f for f in self.functions.values() if "benchmark(" in decorators(f)]

    def calls(self, name, within=None):
        """Calls of a function or method of that name, in the order of the file."""
        calls = [n for n in ast.walk(within or self.tree) if isinstance(n, ast.Call)]
        found = [n for n in calls if ast.unparse(n.func).rpartition(".")[2] == name]
        return sorted(found, key=lambda call: call.lineno)

    def options(self):
        """Each ``add_argument`` call: its flags, its keywords as text."""
        for call in self.calls("add_argument"):
            flags = [argument.value for argument in call.args]
            yield flags, {word.arg: ast.unparse(word.value) for word in call.keywords}

    def comment_before(self, line):
        """The comment that ends on the line before ``line`` (counted from 1), as one text."""
        words = []
        for text in reversed(self.lines[: line - 1]):
            if not text.strip().startswith("#"):
                break
            words.insert(0, text.strip("# "))
        return " ".join(words)


def decorators(function):
    return " ".join(ast.unparse(each) for each in function.decorator_list)


FILES = {path.stem: File(path) for path in sorted(FOLDER.glob("test_*.py"))}
each_file = pytest.mark.parametrize("file", FILES.values(), ids=FILES)


def imports(file):
    """What a file imports, as ``module`` or ``module.name``."""
    for node in ast.walk(file.tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@each_file
def test_every_file_has_the_parts_of_test_quant(file):
    """A structure of its own is one more that every reader has to learn."""
    assert set(imports(FILES["test_quant"])) - {"aiter_ref.quant"} <= set(imports(file))
    assert {"run_torch", "main"} <= set(file.functions)
    assert file.benchmarks
    last = file.tree.body[-1]
    assert ast.unparse(last) == "if __name__ == '__main__':\n    main()"
    assert not file.functions["main"].decorator_list


@each_file
def test_nothing_runs_on_import(file):
    """Before the guard stand definitions alone: no parsing, no sweep, no tensors."""
    *before, _guard = file.tree.body
    outside = [node for node in before if not isinstance(node, ast.FunctionDef)]
    assert {type(node) for node in outside} <= {ast.Import, ast.ImportFrom, ast.Assign, ast.Expr}
    assert [ast.unparse(call) for node in outside for call in calls_now(node)] == []


def calls_now(node):
    """Calls that are made when ``node`` is run: not those in the body of a lambda."""
    if isinstance(node, ast.Call):
        yield node
    if not isinstance(node, ast.Lambda):
        for child in ast.iter_child_nodes(node):
            yield from calls_now(child)


@each_file
def test_each_test_function_has_a_summary_of_its_own(file):
    """Rows of two functions in one table scatter empty cells; without any, nothing is shown."""
    main = file.functions["main"]
    assert file.calls("summarize", main)
    shown = [c for c in ast.walk(main) if isinstance(c, ast.Name)]
    assert {f.name for f in file.benchmarks} <= {name.id for name in shown}


@each_file
def test_the_sweep_is_a_product_and_no_nest_of_loops(file):
    main = file.functions["main"]
    assert file.calls("product", main)
    loops = [node for node in ast.walk(main) if isinstance(node, ast.For)]
    inner = [node for loop in loops for node in ast.walk(loop) if node is not loop]
    assert not [node for node in inner if isinstance(node, ast.For)]


@each_file
def test_the_reference_is_the_shared_one(file):
    assert any(name.startswith("aiter_ref.") for name in imports(file))
    assert re.search(r"\bref\.\w+\(", ast.unparse(file.functions["run_torch"]))


@each_file
def test_candidates_are_a_dict_that_a_loop_times_and_checks(file):
    loops = [ast.unparse(node) for node in ast.walk(file.tree) if isinstance(node, ast.For)]
    loops = [loop for loop in loops if "in candidates.items():" in loop.splitlines()[0]]
    assert loops
    for loop in loops:
        assert "run_perftest(fn" in loop
        assert "checkAllclose(" in loop
        assert "us'] = us" in loop


@each_file
def test_options_are_lists_that_the_sweep_iterates(file):
    """A switch would be a second test in the same file, that no table tells apart."""
    main = ast.unparse(file.functions["main"])
    seen = []
    for flags, words in file.options():
        assert "action" not in words
        assert words["nargs"] == "'+'"
        assert re.match(r"\[|[A-Z_]+$", words["default"])
        assert f"args.{flags[-1].lstrip('-')}" in main
        seen += flags
    assert {"-d", "--dtype", "-s"} <= set(seen)
    assert ("--layout" in seen) == any(
        "layout" in [a.arg for a in f.args.args] for f in file.benchmarks
    )


@each_file
def test_default_shapes_name_the_model_that_they_come_from(file):
    (shapes,) = [c for c in file.calls("add_argument") if "-s" in ast.unparse(c)]
    (batch,) = [c for c in file.calls("add_argument") if "'-b'" in ast.unparse(c)] or [shapes]
    said = file.comment_before(min(shapes.lineno, batch.lineno))
    assert re.search(r"Llama-\d|DeepSeek-V\d|Mamba-\d|Qwen3", said)
    assert re.search(r"\b(is|are) (tokens|the heads)|n,k of|[Tt]okens:", said)


def test_batch_sizes_are_those_of_the_parallelism_that_is_named():
    file = FILES["test_batched_gemm_bf16"]
    (batch,) = [words["default"] for flags, words in file.options() if "-b" in flags]
    (call,) = [c for c in file.calls("add_argument") if "'-b'" in ast.unparse(c)]
    said = file.comment_before(call.lineno)
    heads = int(re.search(r"num_attention_heads (\d+)", said)[1])
    ranks = [int(n) for n in re.findall(r"\btp (\d+)", said)]
    assert ast.literal_eval(batch) == [heads // tp for tp in ranks]


@each_file
def test_the_gate_is_in_main_and_lists_what_is_allowed(file):
    """A list of what is forbidden lets a new card run a kernel that was never built for it."""
    gate = file.functions["main"].body[0]
    assert isinstance(gate, ast.If)
    assert ast.unparse(gate.test).startswith("get_gfx() not in SUPPORTED_GFX")
    assert isinstance(gate.body[-1], ast.Return)
    assert file.calls("warning", gate)
    for function in file.benchmarks:
        assert not [n for n in ast.walk(function) if isinstance(n, ast.Return) and n.value is None]
    (supported,) = [
        n.value
        for n in file.tree.body
        if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "SUPPORTED_GFX"
    ]
    assert set(ast.literal_eval(supported)) >= CARDS


def test_one_file_covers_all_cards():
    arch = re.compile(r"gfx\d|sm_?\d")
    assert not [name for name in FILES if arch.search(name)]
    assert not [name for file in FILES.values() for name in imports(file) if arch.search(name)]


@each_file
def test_a_candidate_that_may_be_left_out_has_the_reason_beside_it(file):
    """``inductor.available`` says its own in the log."""
    reasons = {}
    for node in ast.walk(file.tree):
        adds = isinstance(node, ast.If) and "candidates[" in ast.unparse(node.body[0])
        if adds:
            block = "\n".join(file.lines[node.lineno - 1 : node.end_lineno])
            key = ast.unparse(node.test)
            reasons[key] = reasons.get(key, False) or "  # " in block
    reasons.pop("ops.inductor.available()", None)
    assert all(reasons.values()), reasons
