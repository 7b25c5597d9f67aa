"""A sweep on a Ray cluster of several nodes on this machine."""

from __future__ import annotations

import collections
import contextlib

import psutil
import pytest

from optest.sweep.executor import Job, Work
from optest.sweep.ray_executor import RayExecutor

pytest.importorskip("ray", reason="scripts/setup test installs it")

# Importing Ray on a test machine warns of what it finds there.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

OP_TEST = """
import os
import time
import psutil
from helper import COUNT, DEADLY, SECONDS
from optest.test_common import benchmark, get_gfx, summarize

@benchmark()
def test_neg(m):
    time.sleep(SECONDS)
    if m == DEADLY and get_gfx() == "cpu":
        station = psutil.Process()
        while not station.name().startswith("ray::"):
            station = station.parent()
        station.kill()
        time.sleep(60)
    return {"gfx": get_gfx(), "cache": os.environ.get("OPTEST_CACHE", "")}

def main():
    if get_gfx() == "sm_90":
        rows = [test_neg(m) for m in range(2)]
    else:
        rows = [test_neg(m) for m in range(COUNT)]
    summarize("neg", rows)

if __name__ == "__main__":
    main()
"""
GATED = """
from optest import logger
from optest.test_common import benchmark, get_gfx

@benchmark()
def test_gated(m):
    return {"gfx": get_gfx()}

def main():
    if get_gfx() != "gfx942":
        logger.warning("no kernel for %s", get_gfx())
        return
    test_gated(1)

if __name__ == "__main__":
    main()
"""


@pytest.fixture
def project(tmp_path):
    """Op tests with a helper beside them, which must travel along."""

    def make(count, seconds, deadly=-1):
        helper = f"COUNT, SECONDS, DEADLY = {count}, {seconds}, {deadly}\n"
        (tmp_path / "helper.py").write_text(helper)
        (tmp_path / "test_neg.py").write_text(OP_TEST)
        (tmp_path / "test_gated.py").write_text(GATED)
        return tmp_path

    return make


@pytest.fixture
def cluster(monkeypatch):
    """``cluster("cpu", "gfx942")`` starts a node of each kind, beside a head that runs nothing."""
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    import ray
    from ray.cluster_utils import Cluster

    before = set(psutil.Process().children(recursive=True))
    with contextlib.ExitStack() as opened:

        def start(*kinds):
            made = Cluster()
            opened.callback(made.shutdown)
            opened.callback(ray.shutdown)
            memory = {"object_store_memory": 80 << 20}
            made.add_node(num_cpus=0, include_dashboard=False, **memory)
            for kind in kinds:
                gfx = {"OPTEST_GFX": kind}
                made.add_node(num_cpus=1, resources={kind: 1}, env_vars=gfx, wait=False, **memory)
            made.wait_for_nodes()
            return made

        yield start
    started = [p for p in psutil.process_iter() if is_ours(p)]
    _, alive = psutil.wait_procs([*started, *children_since(before)], timeout=15)
    assert not alive, "processes were left"


def children_since(before):
    return [p for p in psutil.Process().children(recursive=True) if p not in before]


def is_ours(process):
    """What a station of a cluster of this test started, or the station itself."""
    with contextlib.suppress(psutil.Error):
        words = " ".join(process.cmdline())
        return "optest.sweep.nursery_process" in words and "ray" in process.environ().get(
            "RAY_JOB_ID", ""
        )
    return False


class Taken:
    def __init__(self, at=None, do=None):
        self.results = []
        self.begun = []
        self._at, self._do = at, do

    def take(self, result):
        self.results.append(result)
        if len(self.results) == self._at:
            self._do()

    @property
    def counts(self):
        return collections.Counter(result.planned.key for result in self.results)


def sweep(executor, files, taken):
    found = executor.collect(files, lambda collection: None)
    work = [Work(planned) for collection in found for planned in collection.planned]
    executor.run(work, taken.begun.append, taken.take)
    return found, work


def test_one_sweep_has_the_results_of_every_kind_of_node(project, cluster, capfd, monkeypatch):
    folder = project(count=3, seconds=0.0)
    address = cluster("gfx942", "sm_90", "cpu").address
    # Set after the nodes were started, so that only what travels reaches them.
    monkeypatch.setenv("OPTEST_CACHE", "warm")
    monkeypatch.setenv("OPTEST_GFX", "sm_100")
    taken = Taken()
    with RayExecutor(Job(folder=folder, mode="check", guards="off"), address) as executor:
        assert executor.width == 3
        found, work = sweep(executor, ["test_neg.py", "test_gated.py"], taken)
        stopped = Taken(at=1, do=executor.stop)
        executor.run(work, stopped.begun.append, stopped.take)
    kinds = ("cpu", "gfx942", "sm_90")
    assert [(c.file, c.where) for c in found] == [
        (file, kind) for file in ("test_neg.py", "test_gated.py") for kind in kinds
    ]
    assert not any(c.fault or c.whole for c in found), found
    assert [len(c.planned) for c in found] == [3, 3, 2, 0, 1, 0], "gates are each node's own"
    assert found[3].gated == "no kernel for cpu"
    assert taken.counts == {each.planned.key: 1 for each in work}
    for result in taken.results:
        assert result.status in {"passed", "empty"}, (result.reason, result.text)
        assert result.row["gfx"] == result.planned.where == result.place.gfx
        assert result.row.get("cache", "warm") == "warm"
    assert {each.key for each in taken.begun} == set(taken.counts)
    assert len(stopped.results) < len(work), "stop() was not heard"
    assert capfd.readouterr().out == "", "standard output is for tables"


def nodes_of(made, kind):
    return [
        node for node in made.worker_nodes if kind in node.get_resource_and_label_spec().resources
    ]


def test_a_lost_nodes_cases_go_to_the_other_of_its_kind(project, cluster, capfd):
    folder = project(count=30, seconds=0.1)
    made = cluster("gfx942", "gfx942", "sm_90", "cpu")
    victim = nodes_of(made, "gfx942")[0]
    taken = Taken(at=20, do=lambda: made.remove_node(victim, allow_graceful=False))
    job = Job(folder=folder, mode="check", guards="off")
    with RayExecutor(job, made.address) as executor:
        assert executor.width == 4
        _, work = sweep(executor, ["test_neg.py"], taken)
    assert len(work) == 30 + 2 + 30
    assert taken.counts == {each.planned.key: 1 for each in work}
    assert {result.status for result in taken.results} == {"passed"}
    # What ran on the lost node began twice, and nothing else did.
    begun = collections.Counter(each.key for each in taken.begun)
    assert len(taken.begun) - len(work) in {0, 1}, begun.most_common(3)
    told = capfd.readouterr()
    assert "(gfx942) was lost" in told.err, "the node was not"
    assert told.out == "", "Ray's own words went among the tables"


def test_what_nobody_can_run_is_recorded_with_the_cause(project, cluster):
    folder = project(count=12, seconds=0.1, deadly=1)
    made = cluster("cpu", "gfx942")
    taken = Taken()
    job = Job(folder=folder, mode="check", guards="off")
    with RayExecutor(job, made.address, patience_s=1.0) as executor:
        found = executor.collect(["test_neg.py"], lambda collection: None)
        (only,) = nodes_of(made, "gfx942")
        made.remove_node(only, allow_graceful=False)
        work = [Work(planned) for collection in found for planned in collection.planned]
        executor.run(work, taken.begun.append, taken.take)
    assert taken.counts == {each.planned.key: 1 for each in work}
    reasons = {(r.planned.where, r.planned.arguments["m"]): r.reason for r in taken.results}
    bad = {key: reason for key, reason in reasons.items() if reason}
    deadly = bad.pop(("cpu", 1), "")
    assert deadly.startswith("its node was lost twice while it ran"), reasons
    assert set(bad) == {("gfx942", m) for m in range(12)}
    assert all("no node with gfx942 is left" in reason for reason in bad.values()), bad
    assert {r.status for r in taken.results if r.reason} == {"crashed"}
