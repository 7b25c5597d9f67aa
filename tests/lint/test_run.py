"""Which files are held to the rules, what cannot be read, what noqa covers, how long it takes."""

from __future__ import annotations

import os
import re
import sys
import time
from pathlib import Path

import pytest

from optest.errors import UsageError
from optest.lint import catalogue
from optest.lint.run import lint, violations
from optest.lint.script import Script
from optest.lint.source import parse

ROOT = Path(__file__).parents[2]
GOOD = ROOT / "tests/lint/cases/ot104/good/test_as_written.py"
TEXT = GOOD.read_text()
NO_GFX = TEXT.replace('ret = {"gfx": get_gfx()}', "ret = {}")
UNMARKED = "def test_add():\n    assert 1 + 1 == 2\n"


def codes(text, name="test_x.py"):
    found = violations(Script(parse(Path(name), text)), frozenset(catalogue.RULES))
    return [v.code for v in found]


@pytest.fixture
def folder(tmp_path):
    def write(**files):
        for name, content in files.items():
            path = tmp_path / name.replace("__", "/").replace("_py", ".py")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return tmp_path

    return write


def test_only_op_tests_of_a_folder_are_held_to_the_rules(folder):
    top = folder(
        test_op_py=NO_GFX,
        test_unit_py=UNMARKED,
        helper_py=NO_GFX,
        deep__er__test_deep_py=NO_GFX,
        __hidden=b"",
    )
    (top / ".git").mkdir()
    (top / ".git" / "test_old.py").write_text(NO_GFX)
    (top / "env").mkdir()
    (top / "env" / "pyvenv.cfg").write_text("")
    (top / "env" / "test_theirs.py").write_text(NO_GFX)
    report = lint([top])
    assert [v.path.name for v in report.violations] == ["test_deep.py", "test_op.py"]
    assert report.linted == 2
    assert report.passed_over == []


def test_a_named_file_that_is_no_op_test_is_said_to_be_passed_over(folder):
    top = folder(test_unit_py=UNMARKED, helper_py=NO_GFX)
    named = [top / "test_unit.py", top / "helper.py"]
    report = lint(named)
    assert (report.exit_code, report.linted) == (0, 0)
    assert report.passed_over == named


def test_a_file_that_is_named_twice_is_linted_once(folder):
    top = folder(test_op_py=NO_GFX)
    assert len(lint([top, top / "test_op.py"]).violations) == 1


def test_a_folder_that_is_a_link_to_its_parent_ends(folder):
    top = folder(test_op_py=NO_GFX)
    (top / "again").symlink_to(top)
    assert len(lint([top]).violations) == 1


@pytest.mark.parametrize("name", ["golden", "kernelfoundry"])
def test_tests_of_the_other_kinds_pass(name):
    files = list((ROOT / "op_tests" / name).glob("*.py"))
    assert files
    assert lint(files).linted == 0


@pytest.mark.parametrize("module", ["optest.testing", "optest.golden"])
def test_a_task_that_borrows_the_check_is_no_op_test(module):
    text = f"import {module}\nfrom optest.test_common import checkAllclose\n"
    assert not Script(parse(Path("test_task.py"), text)).names.marks_an_op_test()
    with_benchmark = text + "from optest.test_common import benchmark\n"
    assert Script(parse(Path("test_task.py"), with_benchmark)).names.marks_an_op_test()


@pytest.mark.parametrize(
    ("line", "marked"),
    [
        ("from optest import benchmark", True),
        ("from aiter.test_common import run_perftest as timed", True),
        ("from aiter.test_common import *\nrun_perftest(f)", True),
        ("import optest.test_common as tc\ntc.checkAllclose(a, b)", True),
        ("import optest\noptest.run_perftest(f)", True),
        ("import optest", False),
        ("from pytest_benchmark import benchmark", False),
        ("from mine import checkAllclose", False),
        ("def benchmark(): ...\nbenchmark()", False),
    ],
)
def test_what_makes_a_file_an_op_test(line, marked):
    assert Script(parse(Path("test_x.py"), line)).names.marks_an_op_test() is marked


BROKEN = {
    "bracket": (b"def f(:\n", "line 1: invalid syntax"),
    "null": (b"x = 1\0\n", "null"),
    "encoding": (b"# coding: nonsense\n", "unknown encoding"),
    "latin": (b"x = '\xe9'\n", "missing encoding declaration"),
    "deep": (b"x = " + b"(" * 9999 + b")" * 9999, "is no Python"),
}


@pytest.mark.parametrize("content", BROKEN)
def test_a_file_that_is_no_python_is_one_line_and_the_others_are_linted(content, folder):
    data, reason = BROKEN[content]
    report = lint([folder(test_a_py=data, test_b_py=NO_GFX)])
    (unreadable,) = report.unreadable
    assert unreadable.path.name == "test_a.py"
    assert reason.lower() in unreadable.reason.lower()
    assert "\n" not in unreadable.reason
    assert [v.path.name for v in report.violations] == ["test_b.py"]
    assert report.exit_code == 2


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_one_line(folder):
    top = folder(test_a_py=NO_GFX)
    (top / "test_a.py").chmod(0)
    assert lint([top]).unreadable[0].reason == "cannot be read: Permission denied"


def test_a_dangling_link_is_one_line(tmp_path):
    (tmp_path / "test_a.py").symlink_to(tmp_path / "gone.py")
    assert "cannot be read" in lint([tmp_path]).unreadable[0].reason


def test_a_path_that_is_not_there_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match=r"gone.*no such file or folder"):
        lint([tmp_path / "gone"])


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "test_a.py")
    assert lint([tmp_path]).unreadable[0].reason == "cannot be read: it is no regular file"


@pytest.fixture
def usual_depth():
    """Python's own limit, which torch.compile raises for the whole process."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)
    yield
    sys.setrecursionlimit(before)


@pytest.mark.usefixtures("usual_depth")
def test_what_is_nested_too_deeply_to_judge_is_one_line(folder):
    deep = TEXT.replace('ret = {"gfx": get_gfx()}', f"ret = {{{' + '.join(['str(m)'] * 600)}: 1}}")
    report = lint([folder(test_a_py=deep, test_b_py=NO_GFX)])
    assert [u.path.name for u in report.unreadable] == ["test_a.py"]
    assert "nested too deeply" in report.unreadable[0].reason
    assert (report.exit_code, len(report.violations)) == (2, 1)


ODD = {
    "names that go round": "A = 'gfx942'\nB = A\nA = B\nprint(A)\n",
    "numbers that go round": "X = Y\nY = X\ncheckAllclose(a, b, atol=X)\n",
    "a number too large for a float": f"checkAllclose(a, b, max_abs_delta=1, atol=1{'0' * 400})\n",
    "a power too large to compute": "checkAllclose(a, b, atol=2**10**10, max_abs_delta=1)\n",
    "a division by zero": "checkAllclose(a, b, atol=1/0)\n",
    "no arguments": "checkAllclose()\nrun_perftest\nsummarize()\nbenchmark\n",
    "starred arguments": "checkAllclose(*pair)\nsummarize(*rows)\n",
    "calls that go round": "def f():\n    return g()\n\n\ndef g():\n    return f()\n",
    "a class": "class Op:\n    def test_it(self):\n        return checkAllclose(a, b)\n",
}


@pytest.mark.parametrize("kind", ODD)
def test_odd_code_is_judged_and_does_not_stop_the_linter(kind, folder):
    report = lint([folder(test_a_py=TEXT.replace("def main():", f"{ODD[kind]}\n\ndef main():"))])
    assert (report.linted, report.unreadable) == (1, [])


def test_a_stand_in_for_a_failed_import_is_no_other_framework():
    """``except ImportError: def run_perftest…`` is found in scripts that run without aiter too."""
    imported = "from optest.test_common import benchmark, checkAllclose, get_gfx, run_perftest"
    assert imported in TEXT
    stand_in = "try:\n    from optest.test_common import run_perftest\nexcept ImportError:\n"
    stand_in += "    def run_perftest(fn, *args):\n        return fn(*args), 0.0\n"
    text = TEXT.replace(f"{imported}, summarize\n", f"{imported[:-14]}, summarize\n{stand_in}")
    assert codes(text) == []


def test_noqa_of_the_whole_file_stands_behind_its_first_statement():
    text = NO_GFX.replace(TEXT.splitlines()[0], '"""Rows times\na weight."""')
    start, end = text.index("@benchmark"), text.index("def main")
    text = (text[:start] + text[end:]).replace("test_scale(*mn, dtype)", "{}")
    assert codes(text) == ["OT101"]
    assert codes(text.replace('weight."""', 'weight."""  # noqa: OT101 a sketch')) == []


def test_escapes_that_python_warns_about_are_not_our_matter():
    assert codes(TEXT + 'PATTERN = "\\d"\n') == []


def test_columns_are_counted_in_characters():
    text = TEXT.replace('ret[f"{name} us"] = us', 'é = 1; ret["é speedup"] = us')
    text = text.replace('        ret[f"{name} err"] = err\n', '        ret["err"] = err\n')
    (found,) = violations(Script(parse(Path("test_x.py"), text)), frozenset(["OT203"]))
    assert found.column == 16


DEF = "def test_scale(m, n, dtype):"
NOQAS = {
    "# noqa: OT204 one card": [],
    "# noqa: OT204": ["OT001"],
    "#noqa:ot204 - one card": [],
    "# noqa: OT204, OT102 one card": ["OT002"],
    "# noqa: D103, OT204 one card": [],
    "# noqa": ["OT204"],
    "# noqa: D103": ["OT204"],
    "# noqa: OT201 another": ["OT204", "OT002"],
    "# says noqa OT204 in passing": ["OT204"],
}


@pytest.mark.parametrize("comment", NOQAS)
def test_noqa(comment):
    assert codes(NO_GFX.replace(DEF, f"{DEF}  {comment}")) == NOQAS[comment]


def test_noqa_on_another_line_covers_nothing():
    text = NO_GFX.replace("    want = run", "    # noqa: OT204 one card\n    want = run")
    assert codes(text) == ["OT204", "OT002"]


def test_noqa_in_a_text_is_no_comment():
    assert codes(TEXT + 'WORDS = "# noqa: OT204"\n') == []


def test_noqa_of_a_rule_that_is_not_looked_for_is_not_called_useless():
    script = Script(parse(Path("test_x.py"), NO_GFX.replace(DEF, f"{DEF}  # noqa: OT204 one card")))
    assert violations(script, frozenset(catalogue.RULES) - {"OT204"}) == []


def test_codes_and_groups_are_chosen():
    assert catalogue.chosen([], []) == frozenset(catalogue.RULES)
    assert catalogue.chosen(["OT101,ot203"], []) == {"OT101", "OT203"}
    chosen = catalogue.chosen(["OT1", "OT203"], ["OT102"])
    assert chosen == {"OT101", "OT103", "OT104", "OT203"}


@pytest.mark.parametrize("word", ["OT9", "E501", "", "OT101 OT102"])
def test_a_code_that_is_none_is_a_usage_error(word):
    with pytest.raises(UsageError, match=re.escape(repr(word))):
        catalogue.chosen([word], [])


def long_file(lines):
    start, end = TEXT.index("@benchmark"), TEXT.index("def main")
    test, table = TEXT[start:end], TEXT[TEXT.index("    summarize(") : TEXT.index("\n\nif __name")]
    count = -(-lines // test.count("\n"))
    names = [f"test_scale{i}" for i in range(count)]
    tests = "".join(test.replace("test_scale", name) for name in names)
    tables = "".join(table.replace("test_scale", name) for name in names)
    return TEXT.replace(test, tests).replace(table, tables)


def test_3000_lines_take_less_than_a_second():
    """Of processor time, the best of three: others may be using this machine."""
    text = long_file(3000)
    assert text.count("\n") >= 3000
    took = []
    for _ in range(3):
        started = time.process_time()
        assert codes(text) == []
        took.append(time.process_time() - started)
    assert min(took) < 1
