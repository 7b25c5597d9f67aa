"""The stations of a cluster as the driver sees them: started where there is room, or let go."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from optest.log import logger
from optest.store.records import Place
from optest.sweep.executor import Job
from optest.sweep.ray_cluster import Kind

if TYPE_CHECKING:
    from collections.abc import Hashable

    from optest.sweep.ray_cluster import Cluster
    from optest.sweep.ray_shares import Task

_LOOKS_EVERY_S = 1.0
_CLOSES_WITHIN_S = 10.0


@dataclass(eq=False)
class Post:
    """A station on some node.

    Attributes:
        waits_for: what tells something next: its place at first, then the stream of its share.
        place: where it is; None until it is there.
        share: what it was given and has not done, by key.
        running: what of that runs, with the most others that ran beside it on its machine.
    """

    kind: Kind
    actor: Any
    waits_for: Any
    place: Place | None = None
    share: dict[Hashable, Task[Any]] = field(default_factory=dict)
    running: dict[Hashable, int] = field(default_factory=dict)

    @property
    def idle(self) -> bool:
        """Whether it can be given a share."""
        return self.waits_for is None


class Crew:
    """All stations; ``close`` leaves none."""

    def __init__(self, cluster: Cluster, job: Job, folder: str) -> None:
        self._cluster = cluster
        self._start = (job, folder)
        self._nodes: list[dict[str, float]] = []
        self._looked = float("-inf")
        self.posts: list[Post] = []

    def slots(self, kind: Kind) -> int:
        """How many stations of a kind the nodes that live can hold."""
        if time.monotonic() - self._looked > _LOOKS_EVERY_S:
            self._nodes = self._cluster.nodes()
            self._looked = time.monotonic()
        return kind.slots(self._nodes)

    def of(self, kind: Kind) -> list[Post]:
        """The stations of a kind."""
        return [post for post in self.posts if post.kind == kind]

    def staff(self, kind: Kind, wanted: int) -> None:
        """Start stations until there are as many as wanted, or as there is room for."""
        import ray

        from optest.sweep.ray_station import Station

        made: Any = ray.remote(Station)
        for _ in range(min(wanted, self.slots(kind)) - len(self.of(kind))):
            # One method stops what another runs, so two run at a time.
            options = {**kind.request(), "max_concurrency": 2, "max_restarts": 0}
            actor = made.options(**options).remote(*self._start, kind.beside)
            self.posts.append(Post(kind, actor, actor.place.remote()))

    def ready(self, timeout_s: float) -> list[Post]:
        """The stations that have something to tell, after at most this long."""
        import ray

        by_what = {post.waits_for: post for post in self.posts if post.waits_for is not None}
        if not by_what:
            time.sleep(timeout_s)
            return []
        found, _ = ray.wait(list(by_what), num_returns=1, timeout=timeout_s)
        # The next time another comes first, so that a fast one does not keep the rest waiting.
        for each in found:
            self.posts.remove(by_what[each])
            self.posts.append(by_what[each])
        return [by_what[each] for each in found]

    def neighbours(self, post: Post) -> int:
        """What runs now on the machine of a station."""
        host = post.place.host if post.place else ""
        there = (each for each in self.posts if each.place and each.place.host == host)
        return sum(len(each.running) for each in there)

    def began(self, post: Post, key: Hashable) -> None:
        """Note that something runs there, with and beside what runs on the same machine."""
        post.running[key] = 0
        others = self.neighbours(post) - 1
        host = post.place.host if post.place else ""
        for each in self.posts:
            if each.place and each.place.host == host:
                for other, most in each.running.items():
                    each.running[other] = max(most, others)

    def lose(self, post: Post) -> None:
        """Let go of a station that is lost, or seems so: it must not do anything more."""
        import ray

        self.posts.remove(post)
        with contextlib.suppress(Exception):
            ray.kill(post.actor)

    def stop(self) -> None:
        """Ask every station to end what it runs."""
        for post in self.posts:
            with contextlib.suppress(Exception):
                post.actor.stop.remote()

    def close(self) -> None:
        """End every station and what it started."""
        import ray

        there = [post for post in self.posts if post.place is not None]
        closing = [post.actor.close.remote() for post in there]
        if closing:
            _, late = ray.wait(closing, num_returns=len(closing), timeout=_CLOSES_WITHIN_S)
            if late:
                logger.warning("%d stations did not end by themselves; they were killed", len(late))
        for post in list(self.posts):
            self.lose(post)


def first_line(error: BaseException) -> str:
    """What an error of Ray comes down to: of one that a station raised, that one."""
    cause = getattr(error, "cause", None) or error
    lines = [line.strip() for line in str(cause).splitlines() if line.strip()]
    # Of its own errors Ray says at length what may have been.
    words = "".join(lines[:1]) if cause is not error else "".join(lines[:1]).split(". ")[0]
    return f"{type(cause).__name__}: {words}".rstrip(": ")
