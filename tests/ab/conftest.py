from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

IDENTITY = {
    "GIT_AUTHOR_NAME": "n",
    "GIT_AUTHOR_EMAIL": "n@example.org",
    "GIT_COMMITTER_NAME": "n",
    "GIT_COMMITTER_EMAIL": "n@example.org",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_ALLOW_PROTOCOL": "file",
}


class Repo:
    """A repository of a test's own."""

    def __init__(self, top: Path) -> None:
        self.top = top
        top.mkdir(parents=True)
        self.git("init", "-q", "-b", "main")

    def git(self, *words, **options):
        done = subprocess.run(
            ["git", "-C", str(self.top), *words],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, **IDENTITY},
            **options,
        )
        return done.stdout.strip()

    def write(self, **files):
        for name, body in files.items():
            path = self.top / name.replace("__", "/")
            path = path.with_name(f"{path.name}.py")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(body)

    def commit(self, message="a change", **files):
        self.write(**files)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)
        return self.git("rev-parse", "HEAD")

    def state(self):
        """Everything of the user's that must stay as it is."""
        status = self.git("--no-optional-locks", "status", "--porcelain", "--ignored")
        return {
            "status": status,
            "head": (self.top / ".git/HEAD").read_text(),
            "index": (self.top / ".git/index").read_bytes(),
            "refs": self.git("for-each-ref"),
            "stash": self.git("stash", "list"),
            "worktrees": self.git("worktree", "list", "--porcelain"),
            "files": {
                str(path): path.read_bytes()
                for path in sorted(self.top.rglob("*"))
                if path.is_file() and ".git" not in path.parts
            },
        }


@pytest.fixture(autouse=True)
def _identity(monkeypatch):
    for name, value in IDENTITY.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def repo(tmp_path):
    return Repo(tmp_path / "repo")


@pytest.fixture
def scratch(tmp_path, monkeypatch):
    """Where temporary folders are made, so that what is left of them shows."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", None)
    return folder
