"""A Ray cluster: connecting to it with the code that runs there, and the kinds of node it has."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optest import settings
from optest.errors import UsageError
from optest.log import logger

if TYPE_CHECKING:
    from typing_extensions import Self

    from optest.sweep.ray_code import Code

_ARCH = re.compile(r"cpu|gfx[0-9a-f]{3,5}|sm_[0-9]{2,3}[a-z]?")
_LOCAL_STORE_BYTES = 256 << 20  # results are small; Ray would take a third of the machine
# Each node answers for itself, and the rest the job says or is about files of this machine.
_STAYS = {
    *("OPTEST_GFX", "OPTEST_MODE", "OPTEST_GUARDS", "OPTEST_ONLY", "OPTEST_EVENTS"),
    *("OPTEST_BUILD_DIR", "OPTEST_SAVE_FAILED", "OPTEST_STORE"),
}

Resources = Mapping[str, float]


@dataclass(frozen=True)
class Kind:
    """A kind of node, and what of one a station takes.

    Attributes:
        where: what ``Planned.where`` says; empty where nodes have no kinds.
        resource: its name in Ray.
        amount: how much of the resource one station takes.
        gpus: the same of the node's GPUs.
        beside: most stations that one node may hold.
    """

    where: str
    resource: str
    amount: float = 1.0
    gpus: float = 0.0
    beside: int = 1

    def request(self) -> dict[str, Any]:
        """The options of an actor that is to be placed there."""
        if self.resource == "CPU":
            return {"num_cpus": self.amount, "num_gpus": self.gpus}
        if self.resource == "GPU":
            return {"num_cpus": 0, "num_gpus": self.amount}
        asked = {self.resource: self.amount}
        return {"num_cpus": 0, "num_gpus": self.gpus, "resources": asked}

    def slots(self, nodes: Sequence[Resources]) -> int:
        """How many stations nodes with these resources can hold."""
        return sum(int(node.get(self.resource, 0.0) // self.amount) for node in nodes)


def kinds_of(nodes: Sequence[Resources], asked: Sequence[str] = ()) -> list[Kind]:
    """The kinds asked for; else each resource that is named as an arch is; else CPUs alone.

    Raises:
        UsageError: no node has a kind that was asked for; the message lists what there is.
    """
    there = {name for node in nodes for name, amount in node.items() if amount > 0}
    for name in asked:
        if name not in there:
            own = ", ".join(sorted(n for n in there if not n.startswith(("node:", "object_"))))
            raise UsageError(f"kind {name!r}: no node of the cluster has it. Expected of: {own}.")
    names = list(dict.fromkeys(asked)) or sorted(n for n in there if _ARCH.fullmatch(n))
    if names:
        return [_kind(name, nodes) for name in names]
    cores = [node["CPU"] for node in nodes if node.get("CPU", 0.0) > 0]
    if not cores:
        raise UsageError("the cluster has no node that runs tasks (none has a CPU).")
    # A station for each node, with all its cores, as a plain script would have them.
    return [Kind("", "CPU", amount=min(cores))]


def _kind(name: str, nodes: Sequence[Resources]) -> Kind:
    having = [node for node in nodes if node.get(name, 0.0) > 0]
    beside = max(max(1, int(node[name])) for node in having)
    if name == "GPU":
        return Kind(name, name, beside=beside)
    gpus = min(node.get("GPU", 0.0) / max(1.0, node[name]) for node in having)
    # Ray gives out whole GPUs, or a part of one.
    return Kind(name, name, gpus=float(int(gpus)) if gpus >= 1 else gpus, beside=beside)


class Cluster:
    """A connection; a context manager that ends it, and what it started.

    Args:
        address: ``host:port`` or ``auto``; empty for ``RAY_ADDRESS``, else for a cluster of this
            machine alone, which is started and stopped.
    """

    def __init__(self, address: str, code: Code) -> None:
        self._address = address
        self._code = code
        self._open = contextlib.ExitStack()

    def __enter__(self) -> Self:
        """Connect.

        Raises:
            UsageError: Ray is missing, or no cluster answers.
        """
        ray = _imported()
        if self._address.startswith("ray://"):
            raise UsageError(
                f"--address {self._address}: Ray's client protocol cannot stream results. Expected "
                "host:port, on a machine of the cluster or one that reaches its nodes, or auto."
            )
        if ray.is_initialized():
            raise UsageError("this process is connected to a Ray cluster already: ray.shutdown().")
        with self._open, tempfile.TemporaryDirectory(prefix="optest-ray-") as staged:
            self._open.enter_context(_quiet(ray))
            self._open.callback(ray.shutdown)
            self._connect(ray, Path(staged))
            self._open = self._open.pop_all()
        return self

    def __exit__(self, *exception: object) -> None:
        self._open.close()

    def _connect(self, ray: Any, staged: Path) -> None:  # noqa: ANN401 - a module
        project, modules = self._code.stage(staged)
        ours = not (self._address or os.environ.get("RAY_ADDRESS"))
        started = {"object_store_memory": _LOCAL_STORE_BYTES, "include_dashboard": False}
        try:
            with _sigterm_kept():
                ray.init(
                    address=self._address or None,
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                    runtime_env={
                        "working_dir": str(project),
                        "py_modules": [str(each) for each in modules],
                        "env_vars": _environment(),
                    },
                    **(started if ours else {}),
                )
        except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
            where = self._address or os.environ.get("RAY_ADDRESS") or "a cluster of this machine"
            words = str(error).strip().splitlines() or [type(error).__name__]
            raise UsageError(f"Ray at {where}: it cannot be used ({words[0]}).") from None

    def nodes(self) -> list[dict[str, float]]:
        """The resources of each node that is alive."""
        import ray

        return [dict(node["Resources"]) for node in ray.nodes() if node["Alive"]]


def _imported() -> Any:  # noqa: ANN401 - a module
    # Read when it is imported.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError:
        raise UsageError(
            f"Ray is not installed in {sys.prefix}: pip install 'optest[ray]'."
        ) from None
    return ray


def _environment() -> dict[str, str]:
    given = {name: text for name, text in settings.given().items() if name not in _STAYS}
    # A station that asks for no GPU sees those of its node all the same: Ray would hide them.
    return {**given, "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}


@contextlib.contextmanager
def _quiet(ray: Any) -> Iterator[None]:  # noqa: ANN401 - a module
    """Keep what nodes say off standard output, where the tables go: Ray has no option for it."""
    worker = getattr(getattr(ray, "_private", None), "worker", None)
    name = "_worker_logs_enabled"
    if not hasattr(worker, name):
        logger.debug("this version of Ray prints what nodes say on standard output")
        yield
        return
    before = getattr(worker, name)
    setattr(worker, name, False)
    try:
        yield
    finally:
        setattr(worker, name, before)


@contextlib.contextmanager
def _sigterm_kept() -> Iterator[None]:
    """Ray puts a handler of its own in place."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
