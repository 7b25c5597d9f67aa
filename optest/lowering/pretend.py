"""Make this process believe in a card that is not here: what torch and Triton answer about it.

Nothing is ever undone: a process that pretends lowers for one card and ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import types
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses import fake_tensor

from optest.lowering.card import Card

if TYPE_CHECKING:
    from typing_extensions import Self

_CUDA, _META = 1, 14  # c10::DeviceType
_REGISTRY = "_ZN3c104impl26device_guard_impl_registryE"
_REGISTER = "_ZN3c104impl19registerDeviceGuardENS_10DeviceTypeEPKNS0_24DeviceGuardImplInterfaceE"
_MEMORY_BYTES = 80 << 30


def card(target: Card) -> None:
    """From now on torch, Triton and ``optest.arch`` answer as on a machine with ``target``."""
    _register_guard()
    _answer_for_torch(target)
    _answer_for_triton(target)


def _register_guard() -> None:
    """A torch built without CUDA refuses even tensors that hold nothing: give it a guard.

    Each kind of device has an object that changes between its devices. That of the meta device does
    nothing, which is right for a card that is not here.
    """
    lib = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libc10.so"))
    slots = (ctypes.c_void_p * (_META + 1)).in_dll(lib, _REGISTRY)
    if slots[_CUDA]:
        return
    register = getattr(lib, _REGISTER)
    register.argtypes, register.restype = [ctypes.c_int8, ctypes.c_void_p], None
    register(_CUDA, slots[_META])


def _properties(target: Card) -> types.SimpleNamespace:
    capability = 0 if target.is_amd else int(target.name.removeprefix("sm_"))
    return types.SimpleNamespace(
        name=target.device,
        major=9 if target.is_amd else capability // 10,
        minor=4 if target.is_amd else capability % 10,
        gcnArchName=f"{target.name}:sramecc+:xnack-" if target.is_amd else "",
        multi_processor_count=target.units,
        warp_size=target.wave_size,
        L2_cache_size=target.l2_bytes,
        total_memory=_MEMORY_BYTES,
        shared_memory_per_block=min(target.shared_bytes, 48 << 10),
        shared_memory_per_block_optin=target.shared_bytes,
        shared_memory_per_multiprocessor=target.shared_bytes_unit,
        max_threads_per_multi_processor=target.waves * target.wave_size,
        regs_per_multiprocessor=65536,
    )


def _answer_for_torch(target: Card) -> None:
    properties = _properties(target)
    # Tensors without memory otherwise start the device when the first is made.
    started: Any = fake_tensor
    started.init_gpu_context = lambda _device: None
    answers: dict[str, Callable[..., Any]] = {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "_lazy_init": lambda: None,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "set_device": lambda _device: None,
        "get_device_properties": lambda _device=None: properties,
        "get_device_capability": lambda _device=None: (properties.major, properties.minor),
        "get_device_name": lambda _device=None: properties.name,
        "mem_get_info": lambda _device=None: (_MEMORY_BYTES, _MEMORY_BYTES),
        "memory_allocated": lambda _device=None: 0,
        "max_memory_allocated": lambda _device=None: 0,
        "reset_peak_memory_stats": lambda _device=None: None,
        "empty_cache": lambda: None,
        "synchronize": lambda _device=None: None,
        "manual_seed": lambda _seed: None,
        "manual_seed_all": lambda _seed: None,
        "current_stream": lambda _device=None: types.SimpleNamespace(
            cuda_stream=0, synchronize=lambda: None, wait_stream=lambda _other: None
        ),
        "device": lambda _device: contextlib.nullcontext(),
        "is_bf16_supported": lambda *_args, **_options: True,
    }
    for name, answer in answers.items():
        setattr(torch.cuda, name, answer)
    if target.is_amd:
        torch.version.hip = "7.0"
    torch.Generator = _HostGenerator  # type: ignore[misc]
    # Inductor writes kernels of its own, which are not the op test's: what it would fuse runs as
    # it stands and launches nothing.
    torch.compile = _as_it_stands  # type: ignore[assignment]


class _HostGenerator(torch.Generator):
    """Random numbers for tensors without memory need no generator on their device."""

    def __new__(cls, device: object = None) -> Self:  # noqa: ARG004 - torch's signature
        return super().__new__(cls, device="cpu")  # type: ignore[call-arg]


def _as_it_stands(function: Any = None, **_options: object) -> Any:  # noqa: ANN401 - torch.compile's
    return function if function is not None else lambda made: made


class _Driver:
    """What Triton asks of its driver while it prepares a launch."""

    def __init__(self, target: Card) -> None:
        self._target = target.triton()
        properties = {
            "max_shared_mem": target.shared_bytes,
            "multiprocessor_count": target.units,
            "max_num_regs": target.registers,
            "warpSize": target.wave_size,
            "mem_clock_rate": 0,
            "mem_bus_width": 0,
            "sm_clock_rate": 0,
        }
        self.utils = types.SimpleNamespace(get_device_properties=lambda _device: properties)

    def get_current_target(self) -> Any:  # noqa: ANN401 - a triton GPUTarget
        return self._target

    def get_current_device(self) -> int:
        return 0

    def set_current_device(self, _device: int) -> None: ...

    def get_current_stream(self, _device: int) -> int:
        return 0

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cuda", 0)

    def get_device_interface(self) -> types.ModuleType:
        return torch.cuda

    def get_empty_cache_for_benchmark(self) -> torch.Tensor:
        return torch.empty(0)

    def clear_cache(self, _cache: object) -> None: ...


def _answer_for_triton(target: Card) -> None:
    from triton.runtime.driver import driver

    driver.set_active(_Driver(target))
