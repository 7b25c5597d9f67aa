"""Op tests loaded as modules, and their ``main()`` run in this process."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

FILES = sorted((Path(__file__).parents[2] / "op_tests").glob("test_*.py"))
NAMES = [path.stem for path in FILES]


def load(name):
    return load_file(next(path for path in FILES if path.stem == name))


def load_file(path):
    spec = importlib.util.spec_from_file_location(f"op_test_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Scripts:
    """Runs op tests' ``main()`` in this process, in one session, and shows what came of it."""

    def __init__(self, monkeypatch, capsys, session):
        self.monkeypatch, self.capsys, self.session = monkeypatch, capsys, session

    def main(self, name, *arguments, module=None):
        self.monkeypatch.setattr(sys, "argv", [f"{name}.py", *arguments])
        (module or load(name)).main()
        return self.capsys.readouterr().out

    def usage_error(self, name, *arguments):
        with pytest.raises(SystemExit) as ended:
            self.main(name, *arguments)
        said = self.capsys.readouterr()
        assert (ended.value.code, said.out, self.session.ran) == (2, "", 0)
        (line,) = said.err.splitlines()
        return line
