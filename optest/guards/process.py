"""State of the process that whatever runs in it may change, and must not leave behind."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch.utils._device import DeviceContext
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack, _pop_mode

from optest.guards.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def _set_deterministic(value: tuple[bool, bool]) -> None:
    torch.use_deterministic_algorithms(value[0], warn_only=value[1])


class _Environment(dict[bytes, bytes]):
    """The variables at one moment, equal where a case's own are.

    torch.compile keeps its cache folders there; they belong to the process, not to a case.
    """

    @classmethod
    def now(cls) -> _Environment:
        # The mapping itself decodes each name and value when asked: 80 µs, twice a case.
        return cls(os.environ._data)  # type: ignore[attr-defined]  # noqa: SLF001

    __hash__ = None

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other) or (
            isinstance(other, _Environment) and self.of_case() == other.of_case()
        )

    def __ne__(self, other: object) -> bool:
        return not self == other

    def of_case(self) -> dict[bytes, bytes]:
        return {k: v for k, v in self.items() if b"TORCHINDUCTOR_" not in k}


def _set_environment(value: _Environment) -> None:
    wanted = value.of_case()
    for name in set(_Environment.now().of_case()) - set(wanted):
        del os.environb[name]
    os.environb.update(wanted)


def _default_device() -> torch.device | None:
    # Not torch.get_default_device(), which takes 8 µs to make a tensor and look where it is.
    context = getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)  # noqa: SLF001
    return None if context is None else context.device


def _set_default_device(value: torch.device | None) -> None:
    # None uninstalls the function mode that a CPU default would leave on every call.
    torch.set_default_device(None if value is None or value.type == "cpu" else value)


def _working_folder() -> str:
    try:
        return os.getcwd()  # noqa: PTH109 - asked twice a case, and four times as fast
    except FileNotFoundError:  # deleted: it is another than before
        return ""


_Modes = tuple[object, ...]


def _function_modes() -> _Modes:
    """The modes that torch's functions pass through, but for that of a default device."""
    count = torch._C._len_torch_function_stack()  # noqa: SLF001 - torch has no public word for it
    stack = (torch._C._get_function_stack_at(at) for at in range(count))  # noqa: SLF001
    return tuple(mode for mode in stack if not isinstance(mode, DeviceContext))


def _leave_function_modes(wanted: _Modes) -> None:
    count = torch._C._len_torch_function_stack()  # noqa: SLF001
    taken = [torch._C._pop_torch_function_stack() for _ in range(count)]  # noqa: SLF001
    for mode in reversed(taken):
        if mode in wanted or isinstance(mode, DeviceContext):
            torch._C._push_on_torch_function_stack(mode)  # noqa: SLF001


def _dispatch_modes() -> _Modes:
    return tuple(_get_current_dispatch_mode_stack())


def _leave_dispatch_modes(wanted: _Modes) -> None:
    for mode in reversed(_dispatch_modes()):
        if mode not in wanted:
            _pop_mode()


def _flushes_denormals() -> bool:
    # No getter tells. The threads of torch's pool follow the one that starts their work.
    return float(np.float32(1e-40) * np.float32(1.0)) == 0.0


_TABLE: dict[str, tuple[Callable[[], object], Callable[..., object]]] = {
    # First: the others are asked through them.
    "function modes of torch": (_function_modes, _leave_function_modes),
    "dispatch modes of torch": (_dispatch_modes, _leave_dispatch_modes),
    "default dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "thread count": (torch.get_num_threads, torch.set_num_threads),
    "gradient mode": (torch.is_grad_enabled, torch._C._set_grad_enabled),  # noqa: SLF001 - no public setter
    "deterministic algorithms": (
        lambda: (
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
        ),
        _set_deterministic,
    ),
    "default device": (_default_device, _set_default_device),
    "profiler hook": (sys.getprofile, sys.setprofile),
    "trace hook": (sys.gettrace, sys.settrace),
    "working folder": (_working_folder, os.chdir),
    "float32 matmul precision": (
        torch.get_float32_matmul_precision,
        torch.set_float32_matmul_precision,
    ),
    "use of oneDNN": (torch._C._get_mkldnn_enabled, torch._C._set_mkldnn_enabled),  # noqa: SLF001
    "flushing of denormal numbers": (_flushes_denormals, torch.set_flush_denormal),
    "environment": (_Environment.now, _set_environment),
}

State = dict[str, object]


def finding(name: str) -> Finding:
    """What it means that a candidate changed the ``name`` of the process."""
    return Finding(
        "process state",
        f"the candidate changed the {name} of the process",
        "the reference, and every candidate after it, ran under other conditions",
    )


def now() -> State:
    """Everything in the table, as it is (40 us)."""
    return {name: read() for name, (read, _) in _TABLE.items()}


def put_back(before: Mapping[str, object]) -> list[str]:
    """Put back what differs from ``before``; returns the names of it."""
    changed = []
    for name, (read, write) in _TABLE.items():
        if read() != before[name]:
            write(before[name])
            changed.append(name)
    return changed
