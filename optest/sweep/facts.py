"""What is known when a sweep begins: the state of the code, the machine, the environment."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import optest
from optest import settings
from optest.store.records import Place, RunFacts
from optest.sweep.request import Request

# Of others: what compiles, what is seen, how many threads there are.
_OTHERS = (
    "GPU_ARCHS",
    "CUDA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "ZE_AFFINITY_MASK",
    "OMP_NUM_THREADS",
    "TRITON_INTERPRET",
)
# Where things are written, and how loudly, changes no result.
_INDIFFERENT = {
    "OPTEST_EVENTS",
    "OPTEST_LOG_LEVEL",
    "OPTEST_SAVE_FAILED",
    "OPTEST_BUILD_DIR",
    "GITHUB_STEP_SUMMARY",
}
_GIT_SECONDS = 20


@dataclass(frozen=True)
class Commit:
    """The state of a checkout; all empty outside of one, or where there is no git."""

    commit: str = ""
    branch: str = ""
    dirty: bool = False


def checkout(folder: Path) -> Commit:
    """The commit that ``folder`` stands at, and whether tracked files differ from it."""
    commit = _git(folder, "rev-parse", "HEAD")
    if not commit:
        return Commit()
    branch = _git(folder, "rev-parse", "--abbrev-ref", "HEAD")
    changed = _git(folder, "status", "--porcelain", "--untracked-files=no")
    return Commit(commit, "" if branch == "HEAD" else branch, bool(changed))


def _git(folder: Path, *words: str) -> str:
    command = ["git", "-C", str(folder), *words]
    try:
        done = subprocess.run(  # noqa: S603 - its words are ours
            command, capture_output=True, timeout=_GIT_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace").strip() if done.returncode == 0 else ""


def environment() -> dict[str, str]:
    """The variables that are set and change results, by name."""
    ours = {name: value for name, value in settings.given().items() if name not in _INDIFFERENT}
    others = {name: os.environ[name] for name in _OTHERS if os.environ.get(name, "").strip()}
    return {**ours, **others}


def gather(request: Request, folder: Path, place: Place) -> RunFacts:
    """Everything that a store keeps of a run's beginning."""
    at = checkout(folder)
    return RunFacts(
        commit=at.commit,
        branch=at.branch,
        dirty=at.dirty,
        mode=request.mode or "run",
        optest=optest.__version__,
        place=place,
        environment=environment(),
        arguments={**request.arguments(), "folder": str(folder)},
    )


def differences(before: RunFacts, now: RunFacts) -> list[str]:
    """What is not as it was when the run began, one line each."""
    pairs = [
        ("the commit", before.commit[:12] or "none", now.commit[:12] or "none"),
        ("the checkout", _state(before.dirty), _state(now.dirty)),
        ("the arch", before.place.gfx, now.place.gfx),
        ("the device", before.place.device, now.place.device),
        ("optest", before.optest, now.optest),
    ]
    names = dict.fromkeys([*before.environment, *now.environment])
    pairs += [
        (name, before.environment.get(name, "unset"), now.environment.get(name, "unset"))
        for name in names
    ]
    return [f"{what}: it was {then}, it is {here}" for what, then, here in pairs if then != here]


def _state(dirty: bool) -> str:
    return "changed" if dirty else "as committed"
