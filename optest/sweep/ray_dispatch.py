"""What is left, handed out to the stations of a cluster until nothing is, whatever is lost."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from optest.log import logger
from optest.sweep.ray_crew import first_line
from optest.sweep.ray_station import BEGIN, DONE, EXTRA

if TYPE_CHECKING:
    from collections.abc import Hashable

    from optest.sweep.ray_cluster import Kind
    from optest.sweep.ray_crew import Crew, Post
    from optest.sweep.ray_shares import Shares, Task

T = TypeVar("T")

_WAITS_S = 0.2
_STOPS_WITHIN_S = 20.0
_FAILURES = 3  # stations of one kind that may end in a row without having done anything


@dataclass(frozen=True)
class Course(Generic[T]):
    """What is done with tasks of one sort.

    Attributes:
        method: of the station that does a share of them.
        begun: called when a task begins to run; None where stations do not tell that.
        done: called with what a station tells of a task, and how many others ran beside it.
        given_up: called with a task that cannot be done, and why.
    """

    method: str
    begun: Callable[[Task[T]], None] | None
    done: Callable[[Kind, Any, int], None]
    given_up: Callable[[Kind, Task[T], str], None]


class Dispatch(Generic[T]):
    """One pass over tasks, by kind of node.

    Args:
        patience_s: how long tasks wait where no node of their kind is left.
        stopped: whether to end.
    """

    def __init__(
        self, crew: Crew, course: Course[T], patience_s: float, stopped: Callable[[], bool]
    ) -> None:
        self._crew = crew
        self._course = course
        self._patience_s = patience_s
        self._stopped = stopped
        self._alone_since: dict[Kind, float] = {}
        self._failures: Counter[Kind] = Counter()
        self._last_failure: dict[Kind, str] = {}

    def through(self, left: Mapping[Kind, Shares[T]]) -> None:
        """Return when nothing is left, or what runs was ended after ``stopped``."""
        while not self._stopped() and self._is_open(left):
            for kind, shares in left.items():
                self._hand_out(kind, shares)
                self._look_after(kind, shares)
            for post in self._crew.ready(_WAITS_S):
                self._serve(post, left[post.kind])
        if self._stopped():
            self._end()

    def _is_open(self, left: Mapping[Kind, Shares[T]]) -> bool:
        return any(left.values()) or any(post.share for post in self._crew.posts)

    def _hand_out(self, kind: Kind, shares: Shares[T]) -> None:
        if not shares:
            return
        there = self._crew.of(kind)
        busy = sum(not post.idle and post.place is not None for post in there)
        self._crew.staff(kind, busy + len(shares))
        for post in there:
            if post.idle and (share := shares.take(len(there))):
                post.share = {task.key: task for task in share}
                method = getattr(post.actor, self._course.method)
                # One unread message at most: a station does not run ahead of what is kept here.
                streaming = method.options(
                    num_returns="streaming", _generator_backpressure_num_objects=1
                )
                post.waits_for = streaming.remote([task.item for task in share])

    def _serve(self, post: Post, shares: Shares[T]) -> None:
        import ray

        try:
            if post.place is None:
                post.place = ray.get(post.waits_for)
                post.waits_for = None
                return
            message = ray.get(next(post.waits_for))
        except StopIteration:
            self._share_ended(post, shares)
        except (ray.exceptions.RayError, OSError) as error:
            # A node can be lost at any time; what a station raises it would raise again.
            if post.place is None or isinstance(error, ray.exceptions.RayTaskError):
                self._failures[post.kind] += 1
            self._lost(post, shares, first_line(error))
        else:
            self._receive(post, message)

    def _receive(self, post: Post, message: tuple[str, Hashable, Any]) -> None:
        name, key, payload = message
        if name == BEGIN and key in post.share and self._course.begun:
            self._crew.began(post, key)
            self._course.begun(post.share[key])
        elif name == DONE:
            self._failures[post.kind] = 0
            beside = post.running.pop(key, 0)
            post.share.pop(key, None)
            self._course.done(post.kind, payload, beside)
        elif name == EXTRA:
            self._course.done(post.kind, payload, max(post.running.values(), default=0))

    def _share_ended(self, post: Post, shares: Shares[T]) -> None:
        post.waits_for = None
        if post.share:  # a station's executor that returned before its time
            self._failures[post.kind] += 1
            self._lost(post, shares, "a station ended its share before all of it was done")

    def _lost(self, post: Post, shares: Shares[T], why: str) -> None:
        host = post.place.host if post.place else "a node"
        logger.warning("%s (%s) was lost: %s", host, post.kind.where or post.kind.resource, why)
        self._last_failure[post.kind] = why
        self._crew.lose(post)
        # Where no beginning is told, any of them may have been what took the station along.
        running = post.running if self._course.begun else post.share
        for task in shares.lost(list(post.share.values()), running):
            self._course.given_up(post.kind, task, f"its node was lost twice while it ran ({why})")

    def _look_after(self, kind: Kind, shares: Shares[T]) -> None:
        """Give up what nobody is left to do, after a while."""
        if not shares:
            return
        if self._failures[kind] >= _FAILURES:
            self._give_up(kind, shares, f"no station can work there: {self._last_failure[kind]}")
        elif self._crew.slots(kind) or any(post.place for post in self._crew.of(kind)):
            self._alone_since.pop(kind, None)
        elif kind not in self._alone_since:
            self._alone_since[kind] = time.monotonic()
            name = kind.where or kind.resource
            logger.warning("no node with %s is left; waiting %g s", name, self._patience_s)
        elif time.monotonic() - self._alone_since[kind] > self._patience_s:
            last = self._last_failure.get(kind)
            why = f"no node with {kind.where or kind.resource} is left"
            self._give_up(kind, shares, f"{why} ({last})" if last else why)

    def _give_up(self, kind: Kind, shares: Shares[T], why: str) -> None:
        for post in self._crew.of(kind):
            if not post.share:
                self._crew.lose(post)
        for task in shares.take_all():
            self._course.given_up(kind, task, why)

    def _end(self) -> None:
        """See what runs to its end, and keep none of it."""
        import ray

        self._crew.stop()
        give_up = time.monotonic() + _STOPS_WITHIN_S
        while (busy := [p for p in self._crew.posts if p.share]) and time.monotonic() < give_up:
            for post in self._crew.ready(_WAITS_S):
                try:
                    ray.get(next(post.waits_for) if post.place else post.waits_for)
                except StopIteration:
                    post.share, post.running, post.waits_for = {}, {}, None
                except ray.exceptions.RayError:
                    self._crew.lose(post)
        for post in busy:
            if post in self._crew.posts:
                self._crew.lose(post)
