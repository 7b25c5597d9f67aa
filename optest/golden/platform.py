"""The device that a config's ``platform`` and ``device_id`` name, and the arch to compile for."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

from optest import arch
from optest.errors import UsageError
from optest.log import once
from optest.native import triton_aot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optest.golden.config import Config

_SIMULATORS = ("a2a3sim", "a5sim")
_ARCH = re.compile(r"gfx[0-9a-f]{3,5}|sm_[0-9]{2,3}[a-z]?")
_CARD = re.compile(r"(?:cuda|gpu|hip|rocm)(?::(\d+))?")


def device_of(config: Config) -> torch.device:
    """Where the kernel runs.

    Raises:
        UsageError: (a ValueError) the platform, or the card of that number, is not here.
    """
    name = config.platform
    here = arch.get_gfx_runtime()
    if name in _SIMULATORS:
        once(f"platform {name}: a simulator of a card that optest does not know; using the CPU")
        return torch.device("cpu")
    if name == "cpu" or (name is None and here == arch.CPU):
        return torch.device("cpu")
    card = None if name is None else _CARD.fullmatch(name)
    if name is not None and card is None and name != here:
        raise UsageError(
            f"platform {name!r} is not on this machine, which has {_here()}: give cpu, cuda, "
            "cuda:N or the machine's own arch, or compile_only=True to compile for another"
        )
    return _card(int(card[1]) if card and card[1] else config.device_id)


@contextmanager
def current(device: torch.device | None) -> Iterator[None]:
    """Make a card the current one inside: Triton launches there, wherever the tensors are."""
    if device is None or device.type != "cuda":
        yield
        return
    with torch.cuda.device(device):
        yield


def targets_of(config: Config) -> tuple[str, ...]:
    """Arch names to compile for ahead of time.

    Those asked for; under ``compile_only`` else the arch that the platform is, else all that optest
    tries. A run that dispatches compiles for none, but for its own GPU where it is to dump passes.
    """
    if config.targets:
        return config.targets
    if not config.compile_only:
        here = arch.get_gfx_runtime()
        own = config.dump_passes and here != arch.CPU and device_of(config).type == "cuda"
        return (here,) if own else ()
    name = config.platform
    return (name,) if name is not None and _ARCH.fullmatch(name) else triton_aot.TARGETS


def _card(number: int) -> torch.device:
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if number >= count:
        raise UsageError(f"platform cuda:{number} is not on this machine, which has {_here()}")
    return torch.device("cuda", number)


def _here() -> str:
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return f"cpu and {count} GPU{'s' * (count != 1)} ({arch.get_gfx_runtime()})"
