"""The command line of a task: its options, what their values may be, and how a task reads them."""

from __future__ import annotations

import ast
import base64
import binascii
import contextlib
import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

from optest.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

_SHOWN = 120
_RUNTIME = "--runtime_params"
_TEMPLATE = "--template_params"

# Of the pytest runs in this process, one inside the other, what each was given; a worker of xdist
# has no command line of its own to read it from.
_given: list[dict[str, Any] | None] = []


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options that the pipeline and the document use, under their names."""
    group = parser.getgroup("optest-tasks", "kernel tasks")
    table: tuple[tuple[str, dict[str, Any]], ...] = (
        ("--ref", {"action": "store_true", "help": "run the tests against the reference"}),
        (
            "--performance-out",
            {"metavar": "FILE", "help": "keep {nodeid: [ms, ...]} there, up to date after each"},
        ),
        (
            "--correctness-out",
            {"metavar": "FILE", "help": "keep {nodeid: bool} there, up to date after each test"},
        ),
        (
            _RUNTIME,
            {"metavar": "JSON", "help": "what get_runtime_params_from_argv() gives: a JSON object"},
        ),
        (
            _TEMPLATE,
            {"metavar": "LIST", "help": "arguments that template_args_wrapper appends: a list"},
        ),
        (
            "--is_templated",
            {"action": "store_true", "help": "the kernel takes the arguments of --template_params"},
        ),
        ("--itt", {"action": "store_true", "help": "accepted; there are no ITT marks here"}),
    )
    for name, how in table:
        # An option that another plugin has taken is that plugin's: its value is read all the same.
        with contextlib.suppress(ValueError):
            group.addoption(name, **how)


def pytest_configure(config: pytest.Config) -> None:
    """Refuse a bad value in one line, before anything is collected."""
    config.addinivalue_line(
        "markers",
        "performance: the benchmark of a task; the first of a file is the one that counts",
    )
    config.addinivalue_line(
        "markers",
        "benchmark_shape(holds=size): for optest speedup, this correctness test speaks for the "
        "benchmark: it keeps the dimension of that size and shrinks others",
    )
    config.addinivalue_line(
        "markers", "writes_inputs: the kernel under test is to change its inputs"
    )
    runtime = config.getoption(_RUNTIME, None)
    template = config.getoption(_TEMPLATE, None)
    try:
        _given.append(None if runtime is None else runtime_params(runtime))
        if template is not None:
            template_params(template)
    except UsageError as error:
        raise pytest.UsageError(str(error)) from None
    if template is None and config.getoption("--is_templated", False):
        raise pytest.UsageError(f"--is_templated needs {_TEMPLATE}, a list as '[128, 4]'")
    if config.getoption("--itt", False):
        from optest.log import once

        once("--itt: not applicable, there are no ITT marks here; use profiler_session")


def pytest_unconfigure() -> None:
    """Forget what this run was given."""
    if _given:
        _given.pop()


def get_runtime_params_from_argv() -> dict[str, Any]:
    """What ``--runtime_params`` says, as for a ``pytest.mark.skipif`` at the head of a task.

    Read from pytest where it runs, so that workers and the configuration file's options count too;
    else from ``sys.argv``. Empty where the option was not given.

    Raises:
        UsageError: the value is no JSON object, plain or in base64.
    """
    if _given and _given[-1] is not None:
        return dict(_given[-1])
    text = _argument(sys.argv[1:])
    return {} if text is None else runtime_params(text)


def runtime_params(text: str) -> dict[str, Any]:
    """The object that ``text`` holds as JSON, or as JSON in base64, the form of the pipeline.

    Raises:
        UsageError: it holds none; the message names the value and the form.
    """
    for form in (text, _decoded(text)):
        try:
            found = json.loads(form)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict):
            return found
    raise UsageError(
        f"{_RUNTIME}={_short(text)}: expected a JSON object as '{{\"n\": 4096}}', or that in base64"
    )


def template_params(text: str) -> list[Any]:
    """The list that ``text`` holds, as JSON or as Python's literals; nothing is evaluated.

    Raises:
        UsageError: it holds none; the message names the value and the form.
    """
    for read in (json.loads, ast.literal_eval):
        try:
            found = read(text)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            continue
        if isinstance(found, (list, tuple)):
            return list(found)
    raise UsageError(
        f"{_TEMPLATE}={_short(text)}: expected a list of literals as '[128, \"fast\"]' "
        "(JSON or Python; it is not evaluated)"
    )


def _argument(words: Sequence[str]) -> str | None:
    """The last value of the option among the words of a command line."""
    found = None
    for index, word in enumerate(words):
        if word == _RUNTIME and index + 1 < len(words):
            found = words[index + 1]
        elif word.startswith(f"{_RUNTIME}="):
            found = word.partition("=")[2]
    return found


def _decoded(text: str) -> str:
    try:
        return base64.b64decode(text, validate=True).decode()
    except (binascii.Error, ValueError):
        return ""


def _short(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")
