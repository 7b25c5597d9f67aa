"""What a word names; a word that names nothing is said to."""

from __future__ import annotations

import pytest

from optest.ab.repository import Repository
from optest.ab.revision import resolved
from optest.errors import UsageError


@pytest.fixture
def known(repo):
    first = repo.commit(a="1")
    repo.git("tag", "v1")
    repo.git("tag", "-a", "v1a", "-m", "annotated")
    repo.git("branch", "other")
    second = repo.commit(a="2")
    return Repository(repo.top), first, second


@pytest.mark.parametrize(
    ("word", "which", "branch"),
    [
        ("HEAD", 1, "main"),
        ("main", 1, "main"),
        ("other", 0, "other"),
        ("HEAD~1", 0, ""),
        ("v1", 0, ""),
        ("v1a", 0, ""),
        ("{hash}", 0, ""),
        ("{short}", 0, ""),
    ],
)
def test_commits_tags_and_branches(known, word, which, branch):
    repository, *commits = known
    word = word.format(hash=commits[0], short=commits[0][:8])
    found = resolved(repository, word)
    assert (found.commit, found.branch) == (commits[which], branch)
    assert (found.working, found.dirty) == (False, False)


@pytest.mark.parametrize("word", ["WORKTREE", "."])
def test_the_working_tree_stands_on_its_commit_and_says_whether_it_is_changed(known, repo, word):
    repository, _, second = known
    clean = resolved(repository, word)
    assert (clean.commit, clean.branch, clean.working) == (second, "main", True)
    assert not clean.dirty
    repo.write(untracked="1")
    assert not resolved(repository, word).dirty
    repo.write(a="3")
    changed = resolved(repository, word)
    assert changed.dirty
    assert changed.shown == f"working tree ({second[:12]}, changed)"


@pytest.mark.parametrize(
    "word", ["nowhere", "", "--help", "-n", "HEAD~9", "a.py", "HEAD:a.py", "x y"]
)
def test_what_names_no_commit_is_said_with_what_to_do(known, word):
    repository, *_ = known
    with pytest.raises(UsageError) as raised:
        resolved(repository, word)
    text = str(raised.value)
    assert text.startswith(f"revision {word!r}: ")
    assert "WORKTREE" in text
    assert "shallow" not in text


def test_a_shallow_clone_says_how_to_get_the_rest(known, repo, tmp_path):
    repo.git("clone", "-q", "--depth", "1", f"file://{repo.top}", str(tmp_path / "shallow"))
    with pytest.raises(UsageError, match="git fetch --unshallow"):
        resolved(Repository(tmp_path / "shallow"), "HEAD~1")


def test_a_repository_without_a_commit(repo):
    with pytest.raises(UsageError, match="has no commit yet"):
        resolved(Repository(repo.top), "WORKTREE")


def test_a_folder_outside_of_any_repository(tmp_path):
    with pytest.raises(UsageError, match=r"no git repository.*optest compare"):
        Repository.around(tmp_path)


def test_a_bare_repository_has_no_checkout(tmp_path, repo):
    repo.commit(a="1")
    repo.git("clone", "-q", "--bare", str(repo.top), str(tmp_path / "bare"))
    with pytest.raises(UsageError, match="with a checkout"):
        Repository.around(tmp_path / "bare")


def test_the_variables_of_a_hook_name_no_other_repository(repo, tmp_path, monkeypatch):
    repo.commit(a="1")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    assert Repository.around(repo.top).top == repo.top.resolve()
