"""In a child: what this machine is. Asking starts a GPU runtime, which the parent must not have."""

from __future__ import annotations

import platform
import socket
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optest.store.records import Place
from optest.sweep import wire

if TYPE_CHECKING:
    from collections.abc import Mapping


def tell_place(_task: Mapping[str, Any], fds: Mapping[str, int]) -> None:
    """Tell where the cases of this child's surroundings would run."""
    wire.send(fds["wire"], {"event": "place", "place": asdict(here())})


def here() -> Place:
    """This machine, with the first device that is visible."""
    from optest import arch

    name = arch.current()
    device = arch.get_gfx_runtime()
    return Place(
        host=socket.gethostname(),
        gfx=str(name),
        device=device.device_name,
        driver=_driver() if device.is_gpu else "",
        versions=_versions(),
    )


def _versions() -> dict[str, str]:
    import torch

    found = {
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "triton": _version_of("triton"),
        "compiler": _compiler(),
        "cuda": str(torch.version.cuda or ""),
        "rocm": str(getattr(torch.version, "hip", None) or ""),
    }
    return {name: version for name, version in found.items() if version}


def _version_of(distribution: str) -> str:
    from importlib import metadata

    names = (distribution, f"pytorch-{distribution}-rocm", f"pytorch-{distribution}")
    for name in names:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return ""


def _compiler() -> str:
    from optest.native import compiler

    found = compiler.find(compiler.CXX)
    return found.version.splitlines()[0] if found and found.version else ""


def _driver() -> str:
    for path in ("/sys/module/nvidia/version", "/sys/module/amdgpu/version"):
        try:
            return Path(path).read_text(encoding="utf-8").strip()
        except OSError:
            continue
    return ""


def tell_devices(_task: Mapping[str, Any], fds: Mapping[str, int]) -> None:
    """Tell the visible GPUs: how many, of which kind, how much memory each has."""
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    memory = [int(torch.cuda.get_device_properties(index).total_memory) for index in range(count)]
    message = {"event": "devices", "hip": torch.version.hip is not None, "memory": memory}
    wire.send(fds["wire"], message)
