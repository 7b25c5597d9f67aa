"""A sweep on a Ray cluster: every kind of node collects and runs its own cases."""

from __future__ import annotations

import contextlib
import platform
import socket
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from optest.store.records import Place, Planned, Result
from optest.sweep.executor import Begin, Collection, Job, Take, Work
from optest.sweep.ray_cluster import Cluster, Kind, kinds_of
from optest.sweep.ray_code import Code
from optest.sweep.ray_crew import Crew
from optest.sweep.ray_dispatch import Course, Dispatch
from optest.sweep.ray_shares import Shares, Task

if TYPE_CHECKING:
    from typing_extensions import Self


class RayExecutor:
    """An ``Executor``.

    Args:
        address: ``host:port`` or ``auto``; empty for ``RAY_ADDRESS``, else this machine alone.
        kinds: the Ray resources that are kinds of node; empty for all that are named as an arch is,
            else for nodes without kinds.
        patience_s: how long cases wait for a node of their kind once none is left.
    """

    def __init__(
        self, job: Job, address: str = "", *, kinds: Sequence[str] = (), patience_s: float = 60.0
    ) -> None:
        self._job = job
        self._asked = tuple(kinds)
        self._patience_s = patience_s
        self._code = Code.around(job.folder)
        self._cluster = Cluster(address, self._code)
        self._open = contextlib.ExitStack()
        self._stopped = threading.Event()
        self._kinds: list[Kind] = []
        self._crew = Crew(self._cluster, job, self._code.folder_there)

    def __enter__(self) -> Self:
        """Connect.

        Raises:
            UsageError: Ray is missing, no cluster answers, or it has no node of a kind asked for.
        """
        with self._open:
            self._open.enter_context(self._cluster)
            self._kinds = kinds_of(self._cluster.nodes(), self._asked)
            self._open.callback(self._crew.close)
            self._open = self._open.pop_all()
        return self

    def __exit__(self, *exception: object) -> None:
        self._open.close()

    @property
    def width(self) -> int:
        """How many units the cluster runs at a time."""
        return max(1, sum(self._crew.slots(kind) for kind in self._kinds))

    def place(self) -> Place:
        """The cluster as seen from here; each result says its own."""
        import ray

        nodes = len(self._cluster.nodes())
        names = [kind.where for kind in self._kinds]
        return Place(
            host=socket.gethostname(),
            gfx=names[0] if len(names) == 1 else "",
            device=f"Ray cluster of {nodes} node{'s' * (nodes != 1)}",
            versions={"python": platform.python_version(), "ray": ray.__version__},
        )

    def collect(self, files: Sequence[str], tell: Callable[[Collection], None]) -> list[Collection]:
        """Find the cases of each file on each kind of node."""
        names = {self._code.file_there(file): file for file in files}
        found: dict[tuple[str, str], Collection] = {}

        def done(kind: Kind, collection: Collection, _beside: int) -> None:
            file = names[collection.file]
            planned = tuple(replace(p, file=file, where=kind.where) for p in collection.planned)
            named = replace(collection, file=file, where=kind.where, planned=planned)
            found[file, kind.where] = named
            tell(named)

        def given_up(kind: Kind, task: Task[str], why: str) -> None:
            done(kind, Collection(task.item, fault=why), 0)

        left = {kind: Shares(Task(name, name, name) for name in names) for kind in self._kinds}
        course: Course[str] = Course("collect", None, done, given_up)
        self._through(course, left)
        return [
            found[file, kind.where]
            for file in files
            for kind in self._kinds
            if (file, kind.where) in found
        ]

    def run(self, work: Sequence[Work], begin: Begin, take: Take) -> None:
        """Run every unit on a node of its kind."""
        sent = _Sent(self._code, work)

        def done(kind: Kind, result: Result, beside: int) -> None:
            planned = sent.back(result.planned, kind.where)
            neighbours = max(result.neighbours, beside)
            take(replace(result, planned=planned, neighbours=neighbours))

        def given_up(kind: Kind, task: Task[Work], why: str) -> None:
            place = Place(gfx=kind.where)
            planned = task.item.planned
            done(kind, Result(planned, "crashed", why, place=place, started=time.time()), 0)

        course: Course[Work] = Course(
            "run", lambda task: begin(sent.back(task.item.planned, "")), done, given_up
        )
        self._through(course, self._shares(sent.work))

    def stop(self) -> None:
        """End what runs, soon."""
        self._stopped.set()

    def _through(self, course: Course[Any], left: dict[Kind, Shares[Any]]) -> None:
        Dispatch(self._crew, course, self._patience_s, self._stopped.is_set).through(left)

    def _shares(self, work: Sequence[Work]) -> dict[Kind, Shares[Work]]:
        by_kind: dict[str, list[Task[Work]]] = {kind.where: [] for kind in self._kinds}
        guess = _typical_seconds(work)
        for each in work:
            seconds = each.expected.seconds if each.expected else guess
            task = Task(each, each.planned.key, each.planned.file, seconds)
            # A kind that has left the cluster since the run began still owes its cases.
            by_kind.setdefault(each.planned.where, []).append(task)
        known = {kind.where: kind for kind in self._kinds}
        return {
            known.get(where, Kind(where, where or "CPU")): Shares(tasks)
            for where, tasks in by_kind.items()
            if tasks
        }


class _Sent:
    """Units as nodes know them, and what they are called here."""

    def __init__(self, code: Code, work: Sequence[Work]) -> None:
        self._files: dict[str, str] = {}
        self._planned: dict[tuple[str, str, str], Planned] = {}
        self.work = [self._send(code, each) for each in work]

    def _send(self, code: Code, work: Work) -> Work:
        there = code.file_there(work.planned.file)
        self._files[there] = work.planned.file
        sent = replace(work.planned, file=there)
        self._planned[sent.key] = work.planned
        return replace(work, planned=sent)

    def back(self, planned: Planned, where: str) -> Planned:
        """What a node calls so, as it was planned; of a case that nobody planned, made so."""
        known = self._planned.get(planned.key)
        return known or replace(planned, file=self._files[planned.file], where=where)


def _typical_seconds(work: Sequence[Work]) -> float:
    """What a unit is taken to last of which nothing is known."""
    known = [each.expected.seconds for each in work if each.expected]
    return statistics.median(known) if known else 1.0
