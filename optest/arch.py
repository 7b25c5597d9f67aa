"""Which machine this is: the name that op tests gate on, and the facts behind it."""

from __future__ import annotations

import functools
import os
import platform
import re
from pathlib import Path
from typing import TYPE_CHECKING

from optest import settings
from optest.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import torch
    from typing_extensions import Self

CPU = "cpu"

# Compile targets that GPU_ARCHS may name. A device that is not listed still runs under its own
# name; only a request to build for it is refused, since nobody has tried.
KNOWN_GPUS = frozenset(
    """
    gfx900 gfx906 gfx908 gfx90a gfx940 gfx941 gfx942 gfx950
    gfx1010 gfx1011 gfx1012 gfx1030 gfx1031 gfx1032 gfx1033 gfx1034 gfx1035 gfx1036
    gfx1100 gfx1101 gfx1102 gfx1103 gfx1150 gfx1151 gfx1152 gfx1153 gfx1200 gfx1201 gfx1250
    sm_70 sm_72 sm_75 sm_80 sm_86 sm_87 sm_89 sm_90 sm_100 sm_101 sm_103 sm_110 sm_120 sm_121
    """.split()
)

# The cache behind the L2, which torch does not report (AMD Instinct: Infinity Cache).
_MEMORY_SIDE_CACHE_BYTES = {"gfx942": 256 << 20, "gfx950": 256 << 20}
_SYSFS_CACHE = Path("/sys/devices/system/cpu/cpu0/cache")
_CPUINFO = Path("/proc/cpuinfo")
_reads = 0


class Arch(str):
    """An arch name (``cpu``, ``gfx942``, ``sm_90``) that also knows the machine behind it.

    Attributes:
        vendor: ``amd``, ``nvidia``, or the CPU's vendor as the system gives it (``GenuineIntel``).
        device_name: what the maker calls it; empty where unknown.
        instruction_set: ``avx512``, ``avx2``, ``neon``, ``portable``; on a GPU ``amdgcn``, ``ptx``.
        compute_units: compute units, streaming multiprocessors, or cores this process may use.
        wave_size: threads that run in step: 64 or 32; 1 on a CPU.
        cache_bytes: bytes of each cache level that holds data, as one core or the device sees it.

    A number that the system does not tell is 0, as it is for an arch named by ``OPTEST_GFX`` that
    is not the one of the device.
    """

    __slots__ = (
        "cache_bytes",
        "compute_units",
        "device_name",
        "instruction_set",
        "vendor",
        "wave_size",
    )
    vendor: str
    device_name: str
    instruction_set: str
    compute_units: int
    wave_size: int
    cache_bytes: Mapping[int, int]

    def __new__(  # noqa: D102, PLR0913 - one keyword for each fact
        cls,
        name: str,
        *,
        vendor: str = "",
        device_name: str = "",
        instruction_set: str = "",
        compute_units: int = 0,
        wave_size: int = 0,
        cache_bytes: Mapping[int, int] | None = None,
    ) -> Self:
        self = super().__new__(cls, name)
        self.vendor = vendor or _vendor(name)
        self.device_name = device_name
        self.instruction_set = instruction_set or _instruction_set(name)
        self.compute_units = compute_units
        self.wave_size = wave_size or _wave_size(name)
        self.cache_bytes = dict(cache_bytes or {})
        return self

    @property
    def last_level_cache_bytes(self) -> int:
        """Size of the cache nearest to memory, in bytes; 0 where unknown."""
        return max(self.cache_bytes.values(), default=0)

    @property
    def is_gpu(self) -> bool:
        """Whether this names a GPU."""
        return self != CPU


def get_gfx() -> str:
    """Name of the arch that op tests gate on: ``cpu``, ``gfx942``, ``sm_90``.

    ``OPTEST_GFX`` overrides it, for dry runs of a gate; where tensors live does not change.
    Otherwise it is the device's own name, also for a card newer than this package.

    Raises:
        SettingError: ``OPTEST_GFX`` holds something that is not an arch name.
    """
    return get_arch()


def get_arch() -> Arch:
    """The same name as ``get_gfx``, as a string that also knows vendor, caches and units."""
    global _reads  # noqa: PLW0603 - a gate is recognised by its having asked
    _reads += 1
    return current()


def current() -> Arch:
    """``get_arch`` for the house itself: does not count as a script's question."""
    device = _device_arch()
    named = settings.get("OPTEST_GFX")
    return device if named is None or named == device else _named(str(named))


def gfx_reads() -> int:
    """How often this process has asked ``get_gfx`` or ``get_arch``."""
    return _reads


def gfx_was_read() -> bool:
    """Whether this process has asked ``get_gfx`` or ``get_arch``: a gated script has."""
    return _reads > 0


def get_gfx_runtime() -> Arch:
    """Name of the device that tensors live on, whatever ``OPTEST_GFX`` says."""
    return _device_arch()


def host() -> Arch:
    """The CPU of this machine, whatever ``OPTEST_GFX`` says and whether or not it has a GPU."""
    return _cpu_arch()


def get_cu_num() -> int:
    """Compute units of the device that tensors live on; on a CPU the cores this process may use."""
    return _device_arch().compute_units


def gpu_archs() -> tuple[str, ...]:
    """Compile targets: ``GPU_ARCHS`` (``gfx942;gfx950``), read now; unset, the device's own arch.

    Blanks, case and a trailing separator are forgiven, and ``native`` stands for the device.
    Without the variable and without a GPU there is nothing to compile for: an empty tuple.

    Raises:
        SettingError: an entry is empty or unknown, or ``native`` is asked for without a GPU.
    """
    text = os.environ.get("GPU_ARCHS")
    if text is None:
        return (str(_device_arch()),) if _device_arch().is_gpu else ()
    entries = [entry.strip().lower() for entry in text.split(";")]
    if len(entries) > 1 and not entries[-1]:
        entries.pop()
    return tuple(dict.fromkeys(_target(entry, text) for entry in entries))


def _target(entry: str, text: str) -> str:
    if entry == "native" and _device_arch().is_gpu:
        return str(_device_arch())
    if entry in KNOWN_GPUS:
        return entry
    if entry == "native":
        problem = "'native' needs a GPU and there is none"
    elif not entry:
        problem = "an entry is empty"
    else:
        problem = f"unknown arch {entry!r}"
    message = (
        f"GPU_ARCHS={text!r}: {problem}. Expected arch names separated by ';', such as "
        f"'gfx942;gfx950', each one of {', '.join(sorted(KNOWN_GPUS))}; or unset it."
    )
    raise SettingError(message)


def _device_arch() -> Arch:
    import torch

    if not torch.cuda.is_available():
        return _cpu_arch()
    return _gpu_arch(torch.cuda.current_device())


@functools.cache
def _gpu_arch(index: int) -> Arch:
    import torch

    properties = torch.cuda.get_device_properties(index)
    name = _gpu_name(properties, hip=torch.version.hip is not None)
    caches = {2: int(getattr(properties, "L2_cache_size", 0))}
    if name in _MEMORY_SIDE_CACHE_BYTES:
        caches[3] = _MEMORY_SIDE_CACHE_BYTES[name]
    return Arch(
        name,
        device_name=properties.name,
        compute_units=properties.multi_processor_count,
        wave_size=int(getattr(properties, "warp_size", 0)),
        cache_bytes={level: size for level, size in caches.items() if size},
    )


def _gpu_name(properties: torch._C._CudaDeviceProperties, *, hip: bool) -> str:
    """``gfx942`` from ``gfx942:sramecc+:xnack-``; ``sm_90`` from compute capability 9.0."""
    if hip:
        return str(properties.gcnArchName).split(":", 1)[0].strip().lower()
    return f"sm_{properties.major}{properties.minor}"


@functools.cache
def _cpu_arch() -> Arch:
    info = _cpuinfo(_CPUINFO)
    return Arch(
        CPU,
        vendor=info.get("vendor_id", platform.processor() or platform.machine()),
        device_name=info.get("model name", platform.processor() or platform.machine()),
        instruction_set=_cpu_instruction_set(
            info.get("flags", "").split(), platform.machine().lower()
        ),
        compute_units=_usable_cores(),
        cache_bytes=_cpu_caches(_SYSFS_CACHE),
    )


@functools.cache
def _named(name: str) -> Arch:
    """An arch that is only a name: nothing is known of a device."""
    return Arch(name)


def _vendor(name: str) -> str:
    if name.startswith("gfx"):
        return "amd"
    return "nvidia" if name.startswith("sm_") else ""


def _instruction_set(name: str) -> str:
    return {"amd": "amdgcn", "nvidia": "ptx"}.get(_vendor(name), "portable")


def _wave_size(name: str) -> int:
    """64 on GCN and CDNA (``gfx9..``), 32 on RDNA and later and on NVIDIA, 1 on a CPU."""
    if name == CPU:
        return 1
    return 64 if re.fullmatch(r"gfx9[0-9a-f]{2}", name) else 32


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _cpuinfo(path: Path) -> dict[str, str]:
    """Fields of the first processor; empty where the system has no such file."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    pairs = (line.partition(":") for line in text.split("\n\n", 1)[0].splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}


def _cpu_instruction_set(flags: Iterable[str], machine: str) -> str:
    have = set(flags)
    if have.issuperset({"avx512f", "avx512bw", "avx512dq", "avx512vl"}):
        return "avx512"
    if have.issuperset({"avx2", "fma", "f16c"}):
        return "avx2"
    return "neon" if machine in ("aarch64", "arm64") else "portable"


def _cpu_caches(root: Path) -> dict[int, int]:
    """Bytes of each data or unified cache of one core, by level, as Linux tells in sysfs."""
    found: dict[int, int] = {}
    for index in sorted(root.glob("index*")):
        try:
            kind, level, size = (
                (index / field).read_text(encoding="ascii").strip()
                for field in ("type", "level", "size")
            )
        except OSError:
            continue
        if kind in ("Data", "Unified"):
            found[int(level)] = _parse_size(size)
    return {level: size for level, size in found.items() if size}


def _parse_size(text: str) -> int:
    """``307200K`` -> 314572800."""
    matched = re.fullmatch(r"(\d+)([KMG]?)", text)
    if matched is None:
        return 0
    return int(matched[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[matched[2]]
