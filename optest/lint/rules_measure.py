"""OT3xx: what is timed, and how."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator

from optest.lint.candidates import candidates
from optest.lint.finding import Hit
from optest.lint.rule import Rule
from optest.lint.script import Script

# Packages whose functions time and check nothing by themselves.
_KNOWN = frozenset(
    {"aiter", "aiter_ref", "einops", "numpy", "optest", "pandas", "pytest", "torch", "triton"}
)
_REFERENCE = re.compile(r"run_torch\w*|(\w+_)?(ref|reference|golden)(_\w+)?")
_COMPILED = re.compile(r"compile|inductor")
_REFERENCE_MODULES = ("aiter_ref.", "aiter.ops.torch_ref.")
_MEASURING = frozenset(
    "num_iters num_warmup testGraph num_rotate_args needTrace use_cuda_event controls".split()
)


def calls_the_unseen(script: Script, nodes: list[ast.AST]) -> bool:
    """Whether something is called that another file of the project, or an unknown package, has."""
    for node in nodes:
        if not isinstance(node, ast.Call):
            continue
        for origin in script.names.origins(node.func):
            root = origin.partition(".")[0]
            if root not in _KNOWN and root not in sys.stdlib_module_names:
                return True
    return False


def _untimed(script: Script) -> Iterator[Hit]:
    for function in script.tests:
        nodes = script.reach(function)
        if not script.timed(nodes) and not calls_the_unseen(script, nodes):
            yield Hit(
                function,
                f"{function.name} times nothing with run_perftest: write out, us = "
                "run_perftest(fn, x, y) for every candidate (it warms up, keeps data cold and "
                "takes the call's own cost out)",
            )


def _reference_timed(script: Script) -> Iterator[Hit]:
    advice = (
        "the torch reference is compared against and never timed: call {name} outside "
        "run_perftest and leave it out of the candidates"
    )
    for name, function in script.functions.items():
        decorated = script.decorator(function, "perftest")
        if decorated is not None and _is_reference_name(name):
            yield Hit(function, advice.format(name=name))
    for call in script.timed(script.source.within()):
        if script.harness(call) == "run_perftest" and call.args:
            name = _reference_in(script, call.args[0])
            if name:
                yield Hit(call, advice.format(name=name))
    for value in candidates(script):
        name = _reference_in(script, value)
        if name:
            yield Hit(value, advice.format(name=name))


def _reference_in(script: Script, candidate: ast.expr) -> str:
    """The reference that a candidate is, or that its lambda calls; empty where it is neither."""
    called: list[ast.expr] = [candidate]
    if isinstance(candidate, ast.Lambda):
        called = [call.func for call in script.source.of(ast.Call, candidate)]
    elif isinstance(candidate, ast.Call):
        partial = "functools.partial" in script.names.origins(candidate.func)
        called = candidate.args[:1] if partial else []
    for node in called:
        origins = script.names.origins(node)
        if any(origin.startswith(_REFERENCE_MODULES) for origin in origins):
            return ast.unparse(node)
        local = isinstance(node, ast.Name) and node.id in script.functions
        if isinstance(node, ast.Name) and local and _is_reference_name(node.id):
            return node.id
    return ""


def _is_reference_name(name: str) -> bool:
    return bool(_REFERENCE.fullmatch(name.lstrip("_"))) and not _COMPILED.search(name)


def _warm_closure(script: Script) -> Iterator[Hit]:
    warm = _asks_for_warm(script)
    for call in script.calls(("run_perftest",), script.source.within()):
        kept_warm = warm or script.names.only_aiter(call.func)
        if kept_warm and _has_no_arguments(call) and _is_closure(script, call.args[0]):
            remedy = "" if warm else ", or take run_perftest from optest.test_common, which flushes"
            yield Hit(
                call,
                "a function without arguments is timed with its data still in the cache: pass "
                f"the tensors, as run_perftest(fn, x, y){remedy}",
            )


def _asks_for_warm(script: Script) -> bool:
    """Whether the file sets ``OPTEST_CACHE`` to ``warm``."""
    for node in script.source.within():
        words: list[ast.expr] = []
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
            words = [node.targets[0].slice, node.value]
        elif isinstance(node, ast.Call):
            words = node.args
        elif isinstance(node, ast.Dict):
            words = [part for pair in zip(node.keys, node.values, strict=True)
                     for part in pair if part is not None]  # fmt: skip
        texts = [word.value for word in words if isinstance(word, ast.Constant)]
        if "OPTEST_CACHE" in texts and "warm" in texts:
            return True
    return False


def _has_no_arguments(call: ast.Call) -> bool:
    plain = len(call.args) == 1 and not isinstance(call.args[0], ast.Starred)
    return plain and all(word.arg in _MEASURING for word in call.keywords)


def _is_closure(script: Script, candidate: ast.expr) -> bool:
    if isinstance(candidate, ast.Lambda):
        taken = candidate.args
        return not (taken.args or taken.posonlyargs or taken.vararg)
    if isinstance(candidate, ast.Call):
        partial = "functools.partial" in script.names.origins(candidate.func)
        return partial and len(candidate.args) + len(candidate.keywords) > 1
    if isinstance(candidate, ast.Name):
        values = [v for v in script.resolved(candidate) if v is not candidate]
        loops = [o for o in script.source.ancestors(candidate) if isinstance(o, ast.For)]
        bound = any(
            isinstance(n, ast.Name) and n.id == candidate.id
            for loop in loops for n in script.source.within(loop.target)
        )  # fmt: skip
        if bound:
            values = [*candidates(script)]
        return any(_is_closure(script, value) for value in values)
    return False


RULES = (
    Rule(
        "OT301",
        "no run_perftest",
        "A time taken by hand holds the cost of the call, warm caches and preempted samples. "
        "Functions whose calls lead into other files of the project are not judged.",
        "start = time.perf_counter()\nout = fn(x)\nus = (time.perf_counter() - start) * 1e6",
        "out, us = run_perftest(fn, x)",
        _untimed,
    ),
    Rule(
        "OT302",
        "torch reference timed",
        "The reference is slow on purpose (fp32 inside, one step at a time); as a column it makes "
        "every candidate look fast. torch.compile of it is a candidate.",
        'candidates = {"ck": scale_ck, "torch": run_torch}',
        'want = run_torch(x, weight)\ncandidates = {"ck": scale_ck}',
        _reference_timed,
    ),
    Rule(
        "OT303",
        "zero-argument closure timed warm",
        "aiter's run_perftest rotates copies of the arguments to keep the cache cold; a function "
        "without arguments has none to rotate, and its time is of a warm cache. optest flushes "
        "for closures too, so there the rule holds only where the file sets OPTEST_CACHE=warm.",
        "from aiter.test_common import run_perftest\n\nout, us = run_perftest(lambda: scale(x))",
        "from aiter.test_common import run_perftest\n\nout, us = run_perftest(scale, x)",
        _warm_closure,
    ),
)
