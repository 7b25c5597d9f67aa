"""The command line of a task: what is read, what is refused, and in how many words."""

from __future__ import annotations

import base64
import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

import optest.log
import optest.testing.items
import optest.testing.measuring
from optest.errors import UsageError
from optest.testing import options

pytest_plugins = ["pytester"]


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


OBJECTS = [
    ('{"n": 4096}', {"n": 4096}),
    (_base64('{"n": 4096}'), {"n": 4096}),
    ("{}", {}),
    (_base64("{}"), {}),
    ('{"dims": [1, 2], "name": "ü"}', {"dims": [1, 2], "name": "ü"}),
    (_base64('{"name": "ü"}'), {"name": "ü"}),
]


@pytest.mark.parametrize(("text", "value"), OBJECTS)
def test_runtime_parameters_are_read_as_json_and_as_the_pipeline_passes_them(text, value):
    assert options.runtime_params(text) == value


@pytest.mark.parametrize(
    "text", ["", "n=4", "[1]", "1", "null", "{'n': 1}", _base64("[1]"), _base64("n"), "[" * 9000]
)
def test_what_is_no_object_is_named_with_the_form(text):
    with pytest.raises(UsageError, match="expected a JSON object") as caught:
        options.runtime_params(text)
    assert len(str(caught.value)) < 300
    assert str(caught.value).startswith("--runtime_params=")
    assert text[:4] in str(caught.value)


_PLAIN = st.none() | st.booleans() | st.integers() | st.text()
_NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
_JSON = st.recursive(
    _PLAIN | _NUMBERS,
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), _JSON, max_size=4), st.booleans())
def test_any_object_comes_back_in_either_form(value, ascii_only):
    text = json.dumps(value, ensure_ascii=ascii_only)
    if not ascii_only:
        text = text.encode("utf-8", "replace").decode()  # lone surrogates are no text
        value = json.loads(text)
    assert options.runtime_params(text) == value
    assert options.runtime_params(_base64(text)) == value


@given(st.lists(_PLAIN | _NUMBERS, max_size=4))
def test_any_list_of_literals_comes_back(value):
    assert options.template_params(repr(value)) == value
    assert options.template_params(repr(tuple(value))) == value
    assert options.template_params(json.dumps(value)) == value


LISTS = [
    ("[128, 4]", [128, 4]),
    ("(128, 4)", [128, 4]),
    ("128, 4", [128, 4]),
    ('["fast", true, null]', ["fast", True, None]),
    ("['fast', True, None]", ["fast", True, None]),
    ("[]", []),
]


@pytest.mark.parametrize(("text", "value"), LISTS)
def test_template_parameters_are_json_or_literals(text, value):
    assert options.template_params(text) == value


@pytest.mark.parametrize(
    "text",
    ["", "5", "'abc'", "{1: 2}", "[open('x')]", "__import__('os').abort()", "[1" * 4000, "[x]"],
)
def test_template_parameters_are_never_evaluated(text):
    # Upstream evaluates them: the sixth would end this process.
    with pytest.raises(UsageError, match="expected a list of literals"):
        options.template_params(text)


WORDS = [
    (["--runtime_params={}"], {}),
    (['--runtime_params={"a": 1}'], {"a": 1}),
    (["--runtime_params", '{"a": 1}'], {"a": 1}),
    (["--runtime_params=" + _base64('{"a": 1}'), "-x"], {"a": 1}),
    (['--runtime_params={"a": 1}', '--runtime_params={"a": 2}'], {"a": 2}),
    (["--runtime_params"], {}),
    ([], {}),
]


@pytest.mark.parametrize(("words", "value"), WORDS)
def test_a_script_reads_its_own_command_line(monkeypatch, words, value):
    monkeypatch.setattr(sys, "argv", ["task.py", *words])
    monkeypatch.setattr(options, "_given", [])
    assert options.get_runtime_params_from_argv() == value


def test_a_script_s_bad_value_is_an_error_not_an_empty_dict(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["task.py", "--runtime_params=oops"])
    monkeypatch.setattr(options, "_given", [])
    with pytest.raises(UsageError, match="--runtime_params='oops'"):
        options.get_runtime_params_from_argv()


TASK = """
import pytest
from optest.testing import get_runtime_params_from_argv
N = get_runtime_params_from_argv().get("n", 1)

@pytest.mark.skipif(N < 8, reason="n too small")
def test_n(use_reference):
    assert N == 8

def test_reference(use_reference, request):
    assert use_reference is request.config.getoption("--ref")

def test_wrapped(template_args_wrapper):
    assert template_args_wrapper(lambda *a, **k: (a, k))(1, x=2) in (
        ((1,), {"x": 2}), ((1, 128, "fast"), {"x": 2}))
"""


@pytest.fixture
def run(pytester):
    def go(*args, source=TASK, process=False):
        pytester.makepyfile(test_task=source)
        start = pytester.runpytest_subprocess if process else pytester.runpytest_inprocess
        return start("-p", "no:cacheprovider", *args)

    return go


def test_without_options_a_task_runs_its_kernel_at_its_own_sizes(run):
    run("-p", "no:xdist", "-rs").assert_outcomes(passed=2, skipped=1)


@pytest.mark.parametrize("form", [str, _base64])
def test_runtime_parameters_decide_at_import(run, form):
    value = form(json.dumps({"n": 8}))
    run("-p", "no:xdist", "--ref", f"--runtime_params={value}").assert_outcomes(passed=3)
    # They are this run's alone, not of the process that holds it.
    assert not options.get_runtime_params_from_argv()


def test_workers_of_xdist_get_them_too(run):
    # A worker has no command line: upstream's tasks see no parameters there.
    run("-n", "1", '--runtime_params={"n": 8}', process=True).assert_outcomes(passed=3)


def test_options_may_stand_in_the_configuration(run, pytester):
    # sys.argv does not hold these; upstream reads nothing else.
    pytester.makeini("[pytest]\naddopts = '--runtime_params={\"n\": 8}'\n")
    run("-p", "no:xdist").assert_outcomes(passed=3)


TEMPLATED = """
def test_wrapped(template_args_wrapper):
    assert template_args_wrapper(lambda *a, **k: (a, k))(1, x=2) == ((1, 128, "fast"), {"x": 2})
"""


@pytest.mark.parametrize("text", ['[128, "fast"]', "(128, 'fast')"])
def test_template_parameters_are_appended_to_each_call(run, text):
    run("--is_templated", f"--template_params={text}", source=TEMPLATED).assert_outcomes(passed=1)


def test_template_parameters_alone_change_nothing(run):
    run("--template_params=[128]", source=TEMPLATED).assert_outcomes(failed=1)


BAD = [
    (["--runtime_params=oops"], "*ERROR: --runtime_params='oops': expected a JSON object as '{*"),
    (["--template_params=f()"], "*ERROR: --template_params='f()': expected a list of literals*"),
    (["--is_templated"], "*ERROR: --is_templated needs --template_params*"),
    (["--performance-out="], "*ERROR: --performance-out='': expected a file*"),
    (["--performance-out=/dev/null/x"], "*ERROR: --performance-out='/dev/null/x': expected*"),
    (["--correctness-out=/dev/null"], "*ERROR: --correctness-out='/dev/null'*no regular file*"),
    (["--correctness-out=."], "*ERROR: --correctness-out=*no regular file*"),
    (["--correctness-out=a", "--performance-out=a"], "*ERROR: *are both *expected two files*"),
]


@pytest.mark.parametrize(("words", "message"), BAD)
def test_a_bad_value_is_one_line_and_a_usage_error(run, words, message):
    result = run(*words)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])
    assert len(result.stderr.str().strip().splitlines()) == 1
    assert "Traceback" not in result.stderr.str()


def test_itt_is_accepted_and_said_not_to_apply(run, monkeypatch):
    monkeypatch.setattr(optest.log, "_said", set())
    result = run("--itt", source="def test_x(use_reference): pass")
    result.assert_outcomes(passed=1)
    result.stderr.fnmatch_lines(["*--itt: not applicable*"])


OTHER = """
def pytest_addoption(parser):
    parser.addoption("--ref", default="theirs")
"""


def test_an_option_that_another_plugin_took_first_stays_its_own(pytester):
    # Two plugins with one option: pytest would end in a traceback before any test.
    pytester.makepyfile(theirs=OTHER, test_x="def test_x(request): pass")
    pytester.syspathinsert()
    result = pytester.runpytest_inprocess("-p", "theirs", "-p", "no:cacheprovider", "--ref", "x")
    result.assert_outcomes(passed=1)


STAR = "from optest.testing.conftest import *\n"
USES = "def test_x(use_reference, profile_store): assert use_reference is True\n"
LOADED = {
    "star": ([], {}),
    "star_without_entry_points": ([], {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}),
    "by_name": (["-p", "optest.testing.conftest"], {}),
    "by_name_without_entry_points": (
        ["-p", "optest.testing.conftest"],
        {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    ),
}


@pytest.mark.parametrize("case", LOADED)
def test_upstream_s_conftest_line_loads_the_plugin_and_never_twice(pytester, monkeypatch, case):
    words, environ = LOADED[case]
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    if case.startswith("star"):
        pytester.makeconftest(STAR)
    pytester.makepyfile(test_task=USES)
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", "--ref", *words)
    result.assert_outcomes(passed=1)


def test_a_conftest_line_deep_in_the_tree_does_no_harm(pytester):
    folder = pytester.mkdir("tasks")
    (folder / "conftest.py").write_text(STAR)
    (folder / "test_task.py").write_text(USES)
    pytester.runpytest_inprocess("-p", "no:cacheprovider", "--ref").assert_outcomes(passed=1)


def test_marks_are_registered_for_strict_projects(pytester):
    pytester.makeini("[pytest]\naddopts = --strict-markers\n")
    pytester.makepyfile(
        "import pytest\n@pytest.mark.performance\n@pytest.mark.writes_inputs\ndef test_x(): pass"
    )
    pytester.runpytest_inprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)


def test_pytest_starts_without_torch(pytester):
    pytester.makepyfile(test_x="import sys\ndef test_x(): assert 'torch' not in sys.modules")
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "--performance-out=p.json")
    result.assert_outcomes(passed=1)
