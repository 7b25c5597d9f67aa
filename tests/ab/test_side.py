"""What a side's processes are started from: its own files first, its own builds."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import optest
from optest.ab.revision import Revision
from optest.ab.side import Side

OURS = Path(optest.__file__).parent.parent


def made(tmp_path, name="head"):
    root = tmp_path / name / "checkout"
    root.mkdir(parents=True)
    return Side(name, Revision("HEAD", "0" * 40), root, root, tmp_path / name / "builds")


def import_path(side, top):
    return side.home(top).environment["PYTHONPATH"].split(os.pathsep)


def test_its_checkout_comes_first_and_takes_the_place_of_the_users(tmp_path, monkeypatch):
    side, top = made(tmp_path), tmp_path / "user"
    for folder in (top / "lib", side.root / "lib", side.root / "src", tmp_path / "other"):
        folder.mkdir(parents=True)
    named = [top / "lib", tmp_path / "other", top, top / "not_in_it"]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, named)))
    monkeypatch.setattr("sys.path", ["", str(top / "lib"), "/usr/lib/python"])
    assert import_path(side, top) == [
        *map(str, (side.root, side.root / "src", side.root / "lib", tmp_path / "other")),
    ]


def test_nothing_that_it_compiles_is_the_others(tmp_path):
    homes = [made(tmp_path, name).home(tmp_path / "user") for name in ("base", "head")]
    shared = set(homes[0].environment.items()) & set(homes[1].environment.items())
    assert {name for name, _ in shared} == {"OPTEST_BUDGET_S"}


def test_a_budget_that_was_asked_for_is_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("OPTEST_BUDGET_S", "3")
    assert "OPTEST_BUDGET_S" not in made(tmp_path).home(tmp_path / "user").environment


def test_what_this_optest_has_compiled_of_its_own_is_lent_and_users_kernels_are_not(
    tmp_path, monkeypatch
):
    cache = tmp_path / "cache"
    for name in ("optest_harness-1", "mine-2"):
        (cache / name).mkdir(parents=True)
    monkeypatch.setenv("OPTEST_BUILD_DIR", str(cache))
    builds = Path(made(tmp_path).home(tmp_path / "user").environment["OPTEST_BUILD_DIR"])
    assert [path.name for path in builds.iterdir()] == ["optest_harness-1"]


@pytest.mark.parametrize("inside", [True, False])
def test_a_repository_that_holds_optest_is_measured_by_its_own(tmp_path, inside, monkeypatch):
    monkeypatch.setenv("OPTEST_BUILD_DIR", str(tmp_path / "cache"))
    (tmp_path / "cache/optest_harness-1").mkdir(parents=True)
    side = made(tmp_path)
    top = OURS if inside else tmp_path / "user"
    assert side.home(top).folder == OURS
    (side.root / "optest").mkdir()
    (side.root / "optest/__init__.py").touch()
    other = made(tmp_path, "base")
    (other.root / "optest").mkdir()
    (other.root / "optest/__init__.py").touch()
    home = other.home(top)
    assert home.folder == other.root
    # Its csrc is another: nothing of ours may serve it.
    assert list(Path(home.environment["OPTEST_BUILD_DIR"]).iterdir()) == []
