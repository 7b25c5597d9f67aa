"""``optest run`` and what it uses, killed: nothing that was finished is lost, nothing is twice."""

from __future__ import annotations

import collections
import contextlib
import os
import random
import subprocess
import sys
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from optest.store import Store

pytestmark = pytest.mark.slow

CASES = 200
KILLS = 50
SIDE_BY_SIDE = 2  # sweeps that are killed at the same time: most of each is importing torch
SEED = 20261130
# Notes in a file what it begins and ends, beside what the run tells.
OP_TEST = f"""
import os
import time
from optest.test_common import benchmark, get_gfx, summarize

def note(word, m):
    log = os.open(__file__ + ".log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(log, f"{{word}} {{m}} {{os.getpid()}}\\n".encode())
    os.close(log)

@benchmark()
def test_small(m):
    note("began", m)
    time.sleep(0.005)
    note("ended", m)
    return {{"gfx": get_gfx()}}

def main():
    summarize("small", [test_small(m) for m in range({CASES})])

if __name__ == "__main__":
    main()
"""


class Sweep:
    """One op test in a folder of its own, and the runs of it."""

    def __init__(self, folder, store):
        folder.mkdir()
        (folder / "test_small.py").write_text(OP_TEST)
        self.folder = folder
        self.store = store
        self.mark = uuid.uuid4().hex

    def start(self, *more):
        words = ["run", *more, "--store", self.store, "--quiet", "--no-summary"]
        with (self.folder / "stderr").open("ab") as errors:
            return subprocess.Popen(
                [sys.executable, "-m", "optest.cli.main", *words],
                cwd=self.folder,
                env={**os.environ, "KILLED_MARK": self.mark},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
            )

    def first(self):
        return self.start("test_small.py", "--check", "--guards", "off")

    def resume(self):
        return self.start("--resume", "latest")

    def run(self, process):
        assert process.wait(120) == 0, self.words

    @property
    def words(self):
        return (self.folder / "stderr").read_text()[-3000:]

    def noted(self, word):
        """How often each case was begun, or ended."""
        log = self.folder / "test_small.py.log"
        lines = log.read_text().splitlines() if log.exists() else []
        return collections.Counter(int(line.split()[1]) for line in lines if line.startswith(word))

    def kept(self):
        """The statuses of what the newest run holds of each case."""
        with Store.open(self.store) as store:
            runs = store.runs()
            if not runs:
                return runs, {}
            kept = collections.defaultdict(list)
            for result in store.results(runs[0].id):
                kept[result.planned.arguments["m"]].append(result.status)
            return runs, dict(kept)

    def wait_until_none_is_left(self):
        """Of the processes of a run that was killed."""
        give_up = time.monotonic() + 20
        while left := [each for each in psutil.process_iter() if self._is_of_it(each)]:
            assert time.monotonic() < give_up, f"left: {left}"
            psutil.wait_procs(left, timeout=0.1)

    def _is_of_it(self, process):
        with contextlib.suppress(psutil.Error):
            if process.status() != psutil.STATUS_ZOMBIE:
                return process.environ().get("KILLED_MARK") == self.mark
        return False


def assert_whole(sweep):
    runs, kept = sweep.kept()
    assert runs[0].state == "complete"
    assert sorted(kept) == list(range(CASES))
    assert {tuple(statuses) for statuses in kept.values()} == {("passed",)}, "a case is there twice"


class Killer:
    """Kills runs at moments of chance: half of them while cases run, half at any time."""

    def __init__(self, seed, kills):
        self.left = kills
        self._chance = random.Random(seed)
        self._life_s = 0.0

    def is_killed(self, sweep, process):
        """Whether it was, or came to its end by itself."""
        if not self._life_s:  # the first shows how long one lasts
            begun = time.monotonic()
            sweep.run(process)
            self._life_s = time.monotonic() - begun
        elif self.left:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._wait(sweep, process)
        else:
            sweep.run(process)
        if process.poll() is not None:
            assert process.returncode == 0, sweep.words
            return False
        process.kill()
        process.wait()
        self.left -= 1
        return True

    def _wait(self, sweep, process):
        if self._chance.random() < 0.5:
            process.wait(self._chance.uniform(0.0, self._life_s))
            return
        more = self._chance.randint(1, 40)
        until = min(sweep.noted("began").total() + more, CASES)
        while process.poll() is None and sweep.noted("began").total() < until:
            time.sleep(0.002)
        time.sleep(self._chance.uniform(0.0, 0.01))


def killed_and_resumed(folder, seed, kills):
    """Runs that are killed and resumed until ``kills`` are used up."""
    killer = Killer(seed, kills)
    number = 0
    while killer.left:
        number += 1
        file = folder / str(number) / "results.sqlite"
        sweep = Sweep(file.parent, f"sqlite:///{file}")
        lost = 0
        process = sweep.first()
        while killer.is_killed(sweep, process):
            lost += 1
            sweep.wait_until_none_is_left()
            runs, kept = sweep.kept() if file.exists() else ([], {})
            gone = set(sweep.noted("ended")) - set(kept)
            assert len(gone) <= 1, f"{gone} had ended and are lost: one ran at a time"
            process = sweep.resume() if runs else sweep.first()
        assert_whole(sweep)
        assert sweep.noted("began").total() <= CASES + lost, "cases that were kept ran again"
        sweep.wait_until_none_is_left()


def test_a_run_that_is_killed_loses_what_ran_and_nothing_else(tmp_path):
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        jobs = []
        for n in range(SIDE_BY_SIDE):
            folder = tmp_path / str(n)
            folder.mkdir()
            jobs.append(pool.submit(killed_and_resumed, folder, SEED + n, KILLS // SIDE_BY_SIDE))
        for job in jobs:
            job.result()


def test_a_worker_that_is_killed_costs_the_case_it_ran(tmp_path):
    sweep = Sweep(tmp_path / "a", f"sqlite:///{tmp_path}/a/results.sqlite")
    chance = random.Random(SEED)
    at = sorted(chance.sample(range(5, CASES - 5), 10))
    process = sweep.first()
    log = sweep.folder / "test_small.py.log"
    for count in at:
        pid = wait_for_begun(log, count, process)
        time.sleep(chance.uniform(0.0, 0.01))
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, 9)
    assert process.wait(120) == 1, sweep.words
    _, kept = sweep.kept()
    crashed = [m for m, statuses in kept.items() if statuses == ["crashed"]]
    assert 1 <= len(crashed) <= len(at)
    assert len(kept) == CASES
    assert {tuple(s) for m, s in kept.items() if m not in crashed} == {("passed",)}
    before = sweep.noted("began")
    assert set(before.values()) == {1}, "what was finished ran again"
    # A worker may be killed when it has its case and has not yet begun it.
    assert set(range(CASES)) - set(before) <= set(crashed)
    sweep.run(sweep.resume())
    assert_whole(sweep)
    assert sweep.noted("began") - before == collections.Counter(crashed)
    sweep.wait_until_none_is_left()


def wait_for_begun(log, count, process):
    """The process that runs the case begun as the ``count``-th."""
    while process.poll() is None:
        lines = log.read_text().splitlines() if log.exists() else []
        begun = [line for line in lines if line.startswith("began")]
        if len(begun) >= count:
            return int(begun[-1].split()[2])
        time.sleep(0.002)
    raise AssertionError("the run ended before its time")


def test_a_server_that_restarts_in_the_middle_costs_nothing(
    tmp_path, postgres_server, postgres_url
):
    sweep = Sweep(tmp_path / "a", postgres_url)
    process = sweep.first()
    for count in (40, 120):
        wait_for_begun(sweep.folder / "test_small.py.log", count, process)
        postgres_server.restart("immediate")
    sweep.run(process)
    assert_whole(sweep)
    assert set(sweep.noted("began").values()) == {1}


@pytest.fixture(params=["sqlite", "postgresql"])
def shared_store(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/shared.sqlite"
    return request.getfixturevalue("postgres_url")


def test_two_runs_at_once_keep_all_rows_of_both(tmp_path, shared_store):
    sweeps = [Sweep(tmp_path / name, shared_store) for name in "ab"]
    processes = [sweep.first() for sweep in sweeps]
    for sweep, process in zip(sweeps, processes, strict=True):
        sweep.run(process)
    with Store.open(shared_store) as store:
        runs = store.runs()
        assert [run.state for run in runs] == ["complete"] * 2
        for run in runs:
            arguments = [result.planned.arguments["m"] for result in store.results(run.id)]
            assert arguments == list(range(CASES))
