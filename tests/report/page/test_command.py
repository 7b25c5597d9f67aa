"""``optest report`` as a user has it: what it writes, and how it refuses."""

from __future__ import annotations

import json
import re

import pytest
import report_examples as examples
from typer.testing import CliRunner

from optest.cli.main import app
from optest.store import Store

OK, USAGE = 0, 2


@pytest.fixture
def at(tmp_path, monkeypatch):
    """A working folder with the default store and two runs in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".optest").mkdir()
    with Store.open(f"sqlite:///{tmp_path / '.optest' / 'results.sqlite'}") as store:
        examples.keep(store, examples.sweep(sizes=(16,)), examples.facts("a" * 40))
        examples.keep(store, examples.sweep(sizes=(16,), slower=2.0), examples.facts("b" * 40))
    return tmp_path


def run(*words):
    return CliRunner().invoke(app, ["report", *map(str, words)])


def data_of(path):
    text = path.read_text("utf-8")
    return json.loads(re.search('id="data">(.*?)</script>', text, re.DOTALL)[1])


def test_the_newest_run_is_what_a_page_is_of_where_none_is_named(at):
    made = run("-o", at / "made" / "report.html")
    assert made.exit_code == OK, made.output
    (shown,) = data_of(at / "made" / "report.html")["runs"]
    assert shown["commit"] == "b" * 40
    assert "4 cases" not in made.output
    assert "2 cases in" in made.output


def test_of_a_run_that_has_not_ended_a_page_is_made_and_that_said(at):
    with Store.open(f"sqlite:///{at / '.optest' / 'results.sqlite'}") as store:
        run_id = store.begin(examples.facts())
        (one, *_) = examples.sweep(sizes=(16,))
        store.plan(run_id, [one.planned])
        store.record(run_id, one)
    made = run(run_id, "-o", at / "report.html")
    assert made.exit_code == OK, made.output
    assert f"run {run_id} has not ended: this is what it has so far" in made.output
    assert data_of(at / "report.html")["runs"][0]["state"] == "running"


def test_two_runs_by_commit_are_compared_in_the_order_given(at):
    assert run("aaaa", "bbbb", "-o", at / "two.html").exit_code == OK
    data = data_of(at / "two.html")
    assert [each["commit"][0] for each in data["runs"]] == ["a", "b"]
    assert data["compare"]["base"] == data["runs"][0]["id"]


def test_pictures_alone_write_no_page(at):
    made = run("--png", at / "pictures")
    assert made.exit_code == OK, made.output
    assert sorted(path.suffix for path in (at / "pictures").iterdir()) == [".png"] * 3
    assert not list(at.glob("*.html"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "nothing to write: expected -o FILE.html, --png DIR or both"),
        (("-o", "report.txt"), "expected a name that ends in .html"),
        (("-o", "folder.html"), "it cannot be written"),
        (("nonsense", "-o", "r.html"), "run 'nonsense'"),
        (("latest", "bbbb", "-o", "r.html"), "which was given before it"),
        (("--png", "file"), "this is a file: expected a folder"),
        (("-o", "r.html", "--store", "sqlite:///none.sqlite"), "there is no such store"),
        (("-o", "r.html", "--history", "-1"), "history"),
    ],
)
def test_a_mistake_is_one_message_and_exit_2(at, words, said):
    (at / "folder.html").mkdir()
    (at / "file").touch()
    made = run(*words)
    assert made.exit_code == USAGE, made.output
    assert said in made.output
    assert "Traceback" not in made.output
    assert not (at / "r.html").exists()
