"""Collectives between processes of this machine, over gloo: a world of ranks that wait for calls.

One tensor stands for the ranks' own: its first axis is the rank. A rank that fails or ends is an
error that names it; so is one that does not answer in time.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import tempfile
import time
import traceback
from datetime import timedelta
from multiprocessing import connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

if TYPE_CHECKING:
    from collections.abc import Callable

_WORLDS: dict[int, World] = {}
_START_S = 120.0  # importing torch in every rank
_CALL_S = 60.0
_CLOSING_S = 5.0
_ENDING_S = 0.2  # a process may be seen as alive for a while after it has gone


class RankError(RuntimeError):
    """A rank of a world failed, ended, or did not answer."""


def world_of(ranks: int) -> World:
    """The world of that many ranks: one for a process, which ends with it; anew where it failed."""
    world = _WORLDS.get(ranks)
    if world is None or world.closed:
        world = _WORLDS[ranks] = World(ranks)
        atexit.register(world.close)
    return world


class World:
    """Processes that run collectives together when they are told to.

    Attributes:
        ranks: how many.
        closed: whether they have ended, which they all do when one has failed: the others may
            wait for it within a collective.
    """

    def __init__(self, ranks: int) -> None:
        """Start them, by spawn, and wait until they have found each other.

        Raises:
            RankError: one did not come up.
        """
        self.ranks = ranks
        self.closed = False
        self._folder = tempfile.TemporaryDirectory(prefix="optest-world-")
        self._shared: dict[int, torch.Tensor] = {}
        context = torch.multiprocessing.get_context("spawn")
        self._pipes, self._processes = [], []
        for rank in range(ranks):
            ours, theirs = context.Pipe()
            arguments = (rank, ranks, str(Path(self._folder.name, "store")), theirs)
            process = context.Process(target=_serve, args=arguments, daemon=True)
            process.start()
            theirs.close()
            self._pipes.append(ours)
            self._processes.append(process)
        self._answers(_START_S)

    def tensor(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        """Memory that all ranks see: operands made of it are not copied.

        It lasts until the next ``forget``.
        """
        made = torch.zeros(self.ranks, *shape, dtype=dtype)
        made.share_memory_()  # type: ignore[no-untyped-call]
        if made.numel():
            self._shared[made.data_ptr()] = made
            self._have_done("share", made.data_ptr(), made)
        return made

    def forget(self) -> None:
        """Give back the memory of all of ``tensor``."""
        self._shared.clear()
        self._have_done("forget")

    def all_reduce(self, x: torch.Tensor, out: torch.Tensor, *, how: str = "all_reduce") -> None:
        """Write the sum of all slices of x [ranks, ...] to each of out; back when all have it.

        Args:
            x: the ranks' inputs.
            out: as x.
            how: ``all_reduce``, gloo's own, which adds in the tensors' dtype; or ``two_steps``:
                parts are exchanged, added in fp32, and gathered.

        Raises:
            RankError: a rank failed, ended, or did not answer.
        """
        if not x.numel():
            return
        known = [tensor.data_ptr() in self._shared for tensor in (x, out)]
        if not all(known):  # a copy that a guard has made
            inside = [self.tensor(tuple(x.shape[1:]), x.dtype) for _ in range(2)]
            inside[0].copy_(x)
            self.all_reduce(*inside, how=how)
            out.copy_(inside[1])
            return
        self._have_done(how, x.data_ptr(), out.data_ptr())

    def close(self) -> None:
        """End all ranks."""
        if self.closed:
            return
        self.closed = True
        for pipe in self._pipes:
            with contextlib.suppress(OSError):
                pipe.send(None)
            pipe.close()
        self._end(_CLOSING_S)

    def _end(self, limit_s: float) -> None:
        until = time.monotonic() + limit_s
        for process in self._processes:
            process.join(max(0.0, until - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()
        self._shared.clear()
        self._folder.cleanup()

    def _have_done(self, *message: Any) -> None:  # noqa: ANN401 - what can be pickled
        """Tell all ranks, and wait until each has done it."""
        for pipe in self._pipes:
            # A rank that has gone is found out by its answer, which does not come.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                pipe.send(message)
        self._answers(_CALL_S)

    def _answers(self, limit_s: float) -> None:
        """Wait for one answer of each rank; no good one of some is the end of all."""
        try:
            self._wait(limit_s)
        except RankError:
            self.closed = True
            self._end(0.0)
            raise

    def _wait(self, limit_s: float) -> None:
        waiting = dict(zip(self._pipes, range(self.ranks), strict=True))
        until = time.monotonic() + limit_s
        while waiting:
            ready = connection.wait(list(waiting), max(0.0, until - time.monotonic()))
            if not ready:
                late = ", ".join(map(str, waiting.values()))
                raise RankError(f"no answer of rank {late} of {self.ranks} within {limit_s:.0f} s")
            for pipe in ready:
                rank = waiting.pop(pipe)  # type: ignore[call-overload]
                try:
                    failure = self._pipes[rank].recv()
                except (EOFError, OSError):
                    raise self._ended(rank) from None
                if failure:
                    raise self._failed(rank, failure)

    def _failed(self, rank: int, failure: str) -> RankError:
        """Of a rank that says so; where another has ended, that is why."""
        time.sleep(_ENDING_S)
        gone = [at for at, process in enumerate(self._processes) if not process.is_alive()]
        if gone:
            return self._ended(gone[0])
        return RankError(f"rank {rank} of {self.ranks} failed: {failure}")

    def _ended(self, rank: int) -> RankError:
        self._processes[rank].join(1)
        code = self._processes[rank].exitcode
        return RankError(f"rank {rank} of {self.ranks} has ended (exit code {code})")


def _serve(rank: int, ranks: int, store: str, pipe: connection.Connection) -> None:
    """What a rank does: what it is told, until its world is closed or gone."""
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // ranks))
    try:
        dist.init_process_group(
            "gloo",
            init_method=f"file://{store}",
            rank=rank,
            world_size=ranks,
            timeout=timedelta(seconds=_CALL_S),
        )
    except Exception:  # noqa: BLE001 - whatever it is, the world is to know
        pipe.send(traceback.format_exc())
        return
    pipe.send("")
    shared: dict[int, torch.Tensor] = {}
    with contextlib.suppress(EOFError, OSError):
        while (message := pipe.recv()) is not None:
            pipe.send(_done(message, rank, shared))


def _done(message: tuple[Any, ...], rank: int, shared: dict[int, torch.Tensor]) -> str:
    """Do what the message says; returns what went wrong, or nothing."""
    what, *rest = message
    try:
        if what == "share":
            shared[rest[0]] = rest[1]
        elif what == "forget":
            shared.clear()
        else:
            _REDUCTIONS[what](shared[rest[0]][rank], shared[rest[1]][rank])
    except Exception:  # noqa: BLE001
        return traceback.format_exc()
    return ""


def _all_reduce(x: torch.Tensor, out: torch.Tensor) -> None:
    out.copy_(x)
    dist.all_reduce(out)


def _two_steps(x: torch.Tensor, out: torch.Tensor) -> None:
    ranks = dist.get_world_size()
    each = -(-x.numel() // ranks)
    padded = torch.nn.functional.pad(x.reshape(-1), (0, each * ranks - x.numel()))
    parts = torch.empty_like(padded)
    dist.all_to_all_single(parts, padded)  # part i of every rank to rank i
    total = parts.view(ranks, each).float().sum(0).to(x.dtype)
    dist.all_gather(list(padded.view(ranks, each).unbind()), total)
    out.copy_(padded[: x.numel()].view_as(out))


_REDUCTIONS: dict[str, Callable[[torch.Tensor, torch.Tensor], None]] = {
    "all_reduce": _all_reduce,
    "two_steps": _two_steps,
}
