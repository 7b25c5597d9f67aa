"""A revision as files, and nothing of it left behind, nor anything of the user's touched."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from optest.ab.clearing import Clearing
from optest.ab.repository import Repository
from optest.ab.revision import resolved
from optest.ab.worktree import check_out
from optest.errors import UsageError

ROOT = Path(__file__).parents[2]


def files_of(repo, word):
    """What a revision is checked out to, by path; symbolic links by what they point to."""
    repository = Repository(repo.top)
    with Clearing() as clearing:
        at = clearing.folder / "side"
        check_out(repository, resolved(repository, word), at, clearing)
        found = {}
        for path in sorted(at.rglob("*")):
            name = str(path.relative_to(at))
            if path.is_symlink():
                found[name] = f"-> {path.readlink()}"
            elif path.is_file() and path.name != ".git":
                found[name] = path.read_text()
    assert not clearing.folder.exists()
    return found


@pytest.fixture
def changed(repo):
    """A commit, and a working tree with every kind of change on top of it."""
    (repo.top / "link").symlink_to("kept.py")
    (repo.top / ".gitignore").write_text("*.log\n")
    repo.commit(kept="1", deleted="1", edited="1", staged="1", deep__inner="1")
    repo.write(edited="2", untracked="new", staged="2")
    repo.git("add", "staged.py")
    repo.write(staged="3")
    (repo.top / "deleted.py").unlink()
    (repo.top / "ignored.log").write_text("x")
    (repo.top / "kept.py").chmod(0o755)
    return repo


COMMITTED = {
    ".gitignore": "*.log\n",
    "deep/inner.py": "1",
    "deleted.py": "1",
    "edited.py": "1",
    "kept.py": "1",
    "link": "-> kept.py",
    "staged.py": "1",
}


def test_a_commit_is_what_was_committed(changed, scratch):
    before = changed.state()
    assert files_of(changed, "HEAD") == COMMITTED
    assert changed.state() == before
    assert list(scratch.iterdir()) == []


def test_the_working_tree_is_as_it_stands_without_what_git_ignores(changed, scratch):
    before = changed.state()
    expected = {**COMMITTED, "edited.py": "2", "staged.py": "3", "untracked.py": "new"}
    del expected["deleted.py"]
    assert files_of(changed, "WORKTREE") == expected
    assert changed.state() == before
    assert list(scratch.iterdir()) == []


def test_a_copied_working_tree_is_a_checkout_with_the_same_changes(changed):
    repository = Repository(changed.top)
    with Clearing() as clearing:
        at = clearing.folder / "side"
        check_out(repository, resolved(repository, "."), at, clearing)
        status = Repository(at).git("status", "--porcelain").splitlines()
        assert os.access(at / "kept.py", os.X_OK)
    lines = {line.strip() for line in status}
    assert lines == {"D deleted.py", "M edited.py", "M kept.py", "M staged.py", "?? untracked.py"}


def test_a_temporary_folder_inside_the_repository_is_no_part_of_it(changed, monkeypatch):
    inside = changed.top / "tmp"
    inside.mkdir()
    monkeypatch.setenv("TMPDIR", str(inside))
    monkeypatch.setattr("tempfile.tempdir", None)
    assert not any(name.startswith("tmp/") for name in files_of(changed, "WORKTREE"))
    with Clearing() as clearing:
        at = clearing.folder / "side"
        repository = Repository(changed.top)
        check_out(repository, resolved(repository, "WORKTREE"), at, clearing)
        assert not (at / "tmp").exists()
    assert list(inside.iterdir()) == []


def test_no_hook_of_the_user_runs(repo, tmp_path):
    repo.commit(a="1")
    hook = repo.top / ".git/hooks/post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    hook.chmod(0o755)
    files_of(repo, "HEAD")
    assert not (tmp_path / "ran").exists()


@pytest.fixture
def with_submodule(repo, tmp_path):
    inner = type(repo)(tmp_path / "inner")
    inner.commit(kernel="old")
    repo.git("submodule", "add", "-q", str(inner.top), "sub")
    repo.commit(a="1")
    inner.commit(kernel="new")
    repo.git("-C", "sub", "pull", "-q")
    repo.commit(a="2")
    return repo


@pytest.mark.parametrize(("word", "kernel"), [("HEAD~1", "old"), ("HEAD", "new")])
def test_a_submodule_stands_at_the_commit_that_belongs_to_the_revision(
    with_submodule, scratch, word, kernel
):
    sub = Repository(with_submodule.top / "sub")
    (sub.top / "kernel.py").write_text("dirty")
    before = with_submodule.state()
    assert files_of(with_submodule, word)["sub/kernel.py"] == kernel
    assert with_submodule.state() == before
    assert sub.git("worktree", "list").count("\n") == 0
    assert (sub.top / "kernel.py").read_text() == "dirty"


def test_a_changed_submodule_of_the_working_tree_is_copied_as_it_stands(with_submodule):
    (with_submodule.top / "sub/kernel.py").write_text("dirty")
    (with_submodule.top / "sub/more.py").write_text("more")
    found = files_of(with_submodule, "WORKTREE")
    assert (found["sub/kernel.py"], found["sub/more.py"]) == ("dirty", "more")


def test_a_submodule_that_does_not_hold_its_commit_is_named(with_submodule):
    missing = "1" * 40
    with_submodule.git("update-index", "--cacheinfo", f"160000,{missing},sub")
    with_submodule.git("commit", "-q", "-m", "ahead")
    with pytest.raises(UsageError, match=r"'HEAD'.*submodule sub is at 1111.*git -C sub fetch"):
        files_of(with_submodule, "HEAD")
    assert with_submodule.git("worktree", "list").count("\n") == 0


HOLDS = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
from pathlib import Path
from optest.ab.clearing import Clearing
from optest.ab.repository import Repository
from optest.ab.revision import resolved
from optest.ab.worktree import check_out
repository = Repository(Path(sys.argv[1]))
with Clearing() as clearing:
    at = clearing.folder / "side"
    check_out(repository, resolved(repository, "HEAD"), at, clearing)
    (at / "closed").mkdir()
    (at / "closed/file").write_text("x")
    (at / "closed").chmod(0o500)
    print("ready", flush=True)
    if sys.argv[2] == "raise":
        raise RuntimeError("a fault")
    time.sleep(60)
"""


@pytest.mark.parametrize("end", ["raise", signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_it_is_gone_however_the_process_ends(repo, scratch, end):
    repo.commit(a="1")
    before = repo.state()
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(repo.top), str(end)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        start_new_session=True,
    )
    assert process.stdout.readline() == b"ready\n"
    if end != "raise":
        os.killpg(process.pid, end)
    process.wait(30)
    process.stdout.close()
    latest = time.monotonic() + 30
    while list(scratch.iterdir()) and time.monotonic() < latest:
        time.sleep(0.02)
    assert list(scratch.iterdir()) == []
    while repo.state() != before and time.monotonic() < latest:
        time.sleep(0.02)
    assert repo.state() == before


def test_a_worktree_of_the_user_that_is_away_is_not_forgotten(repo, tmp_path):
    repo.commit(a="1")
    repo.git("worktree", "add", "-q", str(tmp_path / "away"))
    (tmp_path / "away").rename(tmp_path / "unmounted")
    files_of(repo, "HEAD")
    assert "away" in repo.git("worktree", "list")
