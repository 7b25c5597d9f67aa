"""What is known when a run begins, and what is not as it was when it goes on."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace

import pytest

from optest.store.records import Place, RunFacts
from optest.sweep import facts
from optest.sweep.request import Request


@pytest.fixture
def repository(tmp_path, monkeypatch):
    if shutil.which("git") is None:
        pytest.skip("needs git: apt-get install git")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")

    def git(*words):
        who = ("-c", "user.name=n", "-c", "user.email=e@example.org")
        subprocess.run(["git", "-C", tmp_path, *who, *words], check=True, capture_output=True)

    git("init", "-b", "trunk")
    (tmp_path / "a.py").write_text("1\n")
    git("add", "a.py")
    git("commit", "-m", "one")
    return tmp_path, git


def test_a_checkout_tells_commit_branch_and_whether_tracked_files_differ(repository):
    folder, git = repository
    (folder / "untracked").touch()
    at = facts.checkout(folder)
    assert (len(at.commit), at.branch, at.dirty) == (40, "trunk", False)
    (folder / "a.py").write_text("2\n")
    assert facts.checkout(folder) == replace(at, dirty=True)
    git("checkout", "-q", "--detach")
    assert facts.checkout(folder).branch == ""


def test_outside_a_repository_and_without_git_there_is_nothing_to_tell(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert facts.checkout(tmp_path) == facts.Commit()
    monkeypatch.setenv("PATH", "")
    assert facts.checkout(tmp_path) == facts.Commit()


def test_the_environment_holds_what_changes_results_and_nothing_else(monkeypatch):
    for name in ("TRITON_INTERPRET", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {
        "OPTEST_SEED": "3",
        "GPU_ARCHS": "gfx942",
        "HIP_VISIBLE_DEVICES": "1",
        "OPTEST_LOG_LEVEL": "ERROR",
        "SECRET_TOKEN": "hush",
    }.items():
        monkeypatch.setenv(name, value)
    found = facts.environment()
    found.pop("OPTEST_BUILD_DIR", None)
    assert found == {"OPTEST_SEED": "3", "GPU_ARCHS": "gfx942", "HIP_VISIBLE_DEVICES": "1"}


def test_what_is_kept_asks_for_the_same_run_again(tmp_path):
    asked = Request(paths=("ops",), keep="x").settled()
    kept = facts.gather(asked, tmp_path, Place(gfx="cpu"))
    assert Request.from_arguments(kept.arguments) == asked
    assert (kept.mode, kept.place.gfx, bool(kept.optest)) == ("run", "cpu", True)


def test_what_is_not_as_it_was_is_named():
    before = RunFacts(commit="a" * 40, environment={"OPTEST_SEED": "1"}, place=Place(gfx="cpu"))
    now = replace(before, commit="b" * 40, dirty=True, environment={"OPTEST_ISA": "avx2"})
    assert facts.differences(before, before) == []
    assert facts.differences(before, now) == [
        "the commit: it was aaaaaaaaaaaa, it is bbbbbbbbbbbb",
        "the checkout: it was as committed, it is changed",
        "OPTEST_SEED: it was 1, it is unset",
        "OPTEST_ISA: it was unset, it is avx2",
    ]
