"""State of the process around a case: seeded before it, put back after it."""

from __future__ import annotations

import random
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import torch

from optest.guards import process
from optest.log import logger

if TYPE_CHECKING:
    from collections.abc import Iterator


def seed_torch(seed: int) -> None:
    """Seed torch's generators.

    Not through ``torch.manual_seed``: where a device runtime has not started, that keeps the call
    with a stack trace for later, for each kind of device, at 0.5 ms and some memory a case.
    """
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_available():
        torch.cuda.manual_seed_all(seed)


def seed_all(seed: int, *, others: int | None = None) -> None:
    """Seed torch with ``seed``; NumPy and Python's random with ``others``, which is the same."""
    seed_torch(seed)
    others = seed if others is None else others
    np.random.seed(others)  # noqa: NPY002 - the op tests' own draws use the global generator
    random.seed(others)


@contextmanager
def contained(what: str) -> Iterator[list[str]]:
    """Put back what ``what`` changes, and say so; the list has the names of it afterwards."""
    before = process.now()
    changed: list[str] = []
    try:
        yield changed
    finally:
        changed += process.put_back(before)
        for name in changed:
            logger.warning("%s changed the %s; it was put back", what, name)
