"""Small op tests written to a folder, and ``optest mutate`` run on them in this process."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

sys.path.append(str(Path(__file__).parent))


class Mutated:
    """What one run of the command gave."""

    def __init__(self, result, record):
        self.code, self.out, self.err = result.exit_code, result.stdout, result.stderr
        self.record = record

    def fates(self, output=None, mutant=None):
        """Fates of the gross mutants by (output, mutant)."""
        return {
            (t["where"]["output"], t["mutant"]): t["fate"]
            for t in self.record["trials"]
            if output in (None, t["where"]["output"]) and mutant in (None, t["mutant"])
        }

    def survivors(self):
        return [t for t in self.record["trials"] if t["fate"] == "survived"]

    def resolution(self, kind, output=None):
        (found,) = {
            r["seen"]
            for r in self.record["resolutions"]
            if r["kind"] == kind and output in (None, r["where"]["output"])
        }
        return found


@pytest.fixture
def mutate(tmp_path):
    """``mutate(body)``: the op test made of ``body`` (a ``test_op(m)``), mutated."""
    from small_op_tests import HEAD, TAIL

    from optest.cli.main import app

    def go(body, *words, name="test_op.py", tail=TAIL):
        path = tmp_path / name
        path.write_text(HEAD + body + tail)
        record = tmp_path / "report.json"
        words = [str(path), "--json", str(record), *words]
        result = CliRunner().invoke(app, ["mutate", *words])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Mutated(result, json.loads(record.read_text()) if record.exists() else None)

    return go
