"""``TestBase``: what pytest makes of it, and what ``python task.py`` does."""

from __future__ import annotations

import pytest

import optest.testing
from optest.errors import BuildError
from optest.testing import CustomTest, TestBase

pytest_plugins = ["pytester"]

TASK = """
import pytest
from optest.testing import CustomTest, TestBase

class Middle(TestBase):
    pass

class TestOne(Middle):
    def test_it(self): ...

class TestTwo(CustomTest):
    def test_it(self): ...

class TestLater(TestBase):
    __test__ = False
    def test_it(self): ...
"""


def test_pytest_collects_what_derives_from_it_and_not_the_base(pytester):
    pytester.makepyfile(test_task=TASK)
    result = pytester.runpytest_inprocess("-v", "-p", "no:cacheprovider", "-W", "error")
    result.assert_outcomes(passed=2)
    result.stdout.no_fnmatch_line("*TestBase::*")
    assert CustomTest is TestBase


def test_nothing_is_built_unless_the_task_says_how():
    task = type("TestNothing", (TestBase,), {})()
    assert task.build("cpu", vector_width=4) == []
    assert task.build_reference("cpu") == []
    task.validate()


def test_the_machines_arch_is_named_on_a_cpu_too(monkeypatch):
    assert TestBase.get_machine_gpu_arch() == optest.arch.get_gfx_runtime()
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert TestBase.get_machine_gpu_arch() == "cpu"


def test_main_builds_for_this_machine_and_prints_what_is_made(capsys):
    class TestMade(TestBase):
        def build(self, gpu_arch):
            return [f"kernel-{gpu_arch}.so"]

    TestMade.main()
    assert capsys.readouterr().out == f"kernel-{TestBase.get_machine_gpu_arch()}.so\n"


@pytest.mark.parametrize("where", ["validate", "build"])
def test_main_tells_what_was_refused_without_a_traceback(capsys, where):
    def refuse(*_args):
        raise BuildError("g++ said no")

    kind = type("TestRefused", (TestBase,), {where: refuse})
    with pytest.raises(SystemExit) as stop:
        kind.main()
    assert stop.value.code == 1
    assert capsys.readouterr().err == "g++ said no\n"


def test_every_name_of_the_face_is_there():
    for name in optest.testing.__all__:
        assert getattr(optest.testing, name) is not None
        assert name in dir(optest.testing)
    with pytest.raises(AttributeError, match="no attribute 'gone'"):
        _ = optest.testing.gone
