"""The sets of arguments that a benchmark calls its kernel with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

from optest import arch
from optest.errors import UsageError
from optest.tensors import span_bytes, tensors_in

if TYPE_CHECKING:
    from optest.timing.clock import Arguments

_MOST_SETS = 100  # as many as timing makes


def argument_sets(args: object = None, kwargs: object = None) -> list[Arguments]:
    """One set from ``args`` and a mapping ``kwargs``; as many as there are in two lists of them.

    As upstream has it, it is ``kwargs`` that tells: a list of mappings, with as many ``args``.

    Raises:
        UsageError: neither of the two; the message says what was given and what is expected.
    """
    if kwargs is None or isinstance(kwargs, Mapping):
        return [(_positional(args, "args"), dict(kwargs or {}))]
    if not isinstance(kwargs, (list, tuple)):
        raise UsageError(
            f"kwargs={_kind(kwargs)}: expected a dict, or a list of dicts, one for each set of args"
        )
    if not isinstance(args, (list, tuple)) or len(args) != len(kwargs) or not args:
        count = f"{len(args)} sets" if isinstance(args, (list, tuple)) else _kind(args)
        raise UsageError(
            f"args={count} with a list of {len(kwargs)} kwargs: expected as many of either and at "
            "least one; kwargs=len(args) * [{}] where there are none to pass"
        )
    sets: list[Arguments] = []
    for index, (own, named) in enumerate(zip(args, kwargs, strict=True)):
        if not isinstance(named, Mapping):
            raise UsageError(f"kwargs[{index}]={_kind(named)}: expected a dict")
        sets.append((_positional(own, f"args[{index}]"), dict(named)))
    return sets


def _positional(args: object, name: str) -> tuple[Any, ...]:
    if args is None:
        return ()
    if not isinstance(args, (list, tuple)):
        # A tensor would be taken apart into its rows.
        raise UsageError(f"{name}={_kind(args)}: expected a tuple of arguments, as args=(x,)")
    return tuple(args)


def _kind(value: object) -> str:
    return f"a {type(value).__name__}"


def sets_to_rotate(arguments: Arguments, nbytes: int) -> int:
    """How many sets, the caller's own included, outgrow both ``nbytes`` and the cache.

    1 where that would take more than 100: a few copies that stay in the cache make no call cold,
    emptying it before each call does, and that is done in any case.
    """
    tensors = tensors_in(*arguments)
    own = span_bytes(tensors)
    if not nbytes or not own or own >= nbytes:
        return 1
    # Where the tensors are, whatever OPTEST_GFX names.
    where = arch.get_gfx_runtime() if any(t.is_cuda for t in tensors) else arch.host()
    wanted = -(-max(nbytes, where.last_level_cache_bytes) // own) + 1
    return wanted if wanted <= _MOST_SETS else 1


def device_named(device: object) -> torch.device:
    """The device that a benchmark runs on.

    Raises:
        UsageError: it is none that can be timed here, or the machine has no such device.
    """
    try:
        found = torch.device(device)  # type: ignore[call-overload]
    except (RuntimeError, TypeError):
        found = None
    if found is None or found.type not in ("cpu", "cuda"):
        raise UsageError(
            f"device={str(device)!r}: expected cpu, cuda or cuda:<n> (a ROCm device is cuda too)"
        )
    count = torch.cuda.device_count() if found.type == "cuda" else 1
    if count == 0 or (found.type == "cuda" and (found.index or 0) >= count):
        have = f"{count} CUDA or ROCm devices" if count else "no CUDA or ROCm device"
        raise UsageError(f"device={str(device)!r}: this machine has {have}")
    assert isinstance(found, torch.device)
    return found


def on_device(value: Any, device: torch.device) -> Any:  # noqa: ANN401 - any argument of a kernel
    """The same with its tensors there; lists, tuples and dicts are rebuilt, the rest is kept."""
    if isinstance(value, torch.Tensor):
        return value.to(device)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(on_device(item, device) for item in value))
    if type(value) in (list, tuple):
        return type(value)(on_device(item, device) for item in value)
    if type(value) is dict:
        return {key: on_device(item, device) for key, item in value.items()}
    return value
