"""``ensure_spawn_method``: a fork after the GPU runtime has started cannot use the GPU."""

from __future__ import annotations

import multiprocessing

from optest.log import logger


def ensure_spawn_method() -> None:
    """Make multiprocessing start its children with ``spawn``; a method already chosen is kept.

    Another method that is already set is warned about: CUDA and HIP do not survive a fork.
    """
    chosen = multiprocessing.get_start_method(allow_none=True)
    if chosen is None:
        multiprocessing.set_start_method("spawn")
    elif chosen != "spawn":
        logger.warning(
            "multiprocessing already starts children with %r; GPU tests need 'spawn': call "
            "ensure_spawn_method() before anything else starts a process",
            chosen,
        )
