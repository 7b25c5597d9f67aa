"""Compilers of this machine and the flags torch's headers need."""

from __future__ import annotations

import functools
import os
import platform
import re
import shlex
import shutil
import subprocess
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from optest.errors import BuildError

CXX, NVCC, HIPCC = "c++", "nvcc", "hipcc"
KIND_OF_SUFFIX = {
    ".cpp": CXX,
    ".cc": CXX,
    ".cxx": CXX,
    ".cu": NVCC,
    ".hip": HIPCC,
}
STABLE_ABI = (2, 10)
_DEFAULT_CUDA_HOME = "/usr/local/cuda"
_DEFAULT_ROCM_HOME = "/opt/rocm"


@dataclass(frozen=True)
class Compiler:
    """One compiler: the words that start its command, and what it says of its version."""

    kind: str
    command: tuple[str, ...]
    version: str


def find(kind: str) -> Compiler | None:
    """The compiler of a kind (``CXX``, ``NVCC``, ``HIPCC``), or None where there is none.

    C++: ``$CXX``, else g++, c++ or clang++ on PATH. CUDA: ``$CUDA_HOME/bin/nvcc``, nvcc on PATH, or
    the one of /usr/local/cuda. HIP: ``$ROCM_HOME/bin/hipcc``, hipcc on PATH, or /opt/rocm's.
    """
    environment = tuple(os.environ.get(n) for n in ("CXX", "CUDA_HOME", "ROCM_HOME", "PATH"))
    return _find(kind, environment)


@functools.lru_cache(maxsize=16)
def _find(kind: str, _environment: tuple[str | None, ...]) -> Compiler | None:
    for command in _candidates(kind):
        path = shutil.which(command[0])
        if path is None:
            continue
        version = _version_of((path, *command[1:]))
        if version is not None:
            return Compiler(kind, (path, *command[1:]), version)
    return None


def _candidates(kind: str) -> list[list[str]]:
    if kind == CXX:
        named = os.environ.get("CXX", "").strip()
        return [shlex.split(named)] if named else [["g++"], ["c++"], ["clang++"]]
    home, default = (
        ("CUDA_HOME", _DEFAULT_CUDA_HOME) if kind == NVCC else ("ROCM_HOME", _DEFAULT_ROCM_HOME)
    )
    named = os.environ.get(home, "").strip()
    first = [[str(Path(named) / "bin" / kind)]] if named else []
    return [*first, [kind], [str(Path(default) / "bin" / kind)]]


def _version_of(command: tuple[str, ...]) -> str | None:
    try:
        done = subprocess.run(  # noqa: S603 - the user's own compiler
            [*command, "--version"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


@functools.lru_cache(maxsize=4)
def _cuda_home(nvcc: Compiler) -> Path:
    """Toolkit of an nvcc, as it tells itself: the one on PATH may be a wrapper from elsewhere."""
    done = subprocess.run(  # noqa: S603 - the user's own compiler
        [*nvcc.command, "--dryrun", "-x", "cu", os.devnull],
        capture_output=True,
        text=True,
        check=False,
    )
    here = re.search(r"_HERE_=(.+)", done.stderr)
    return (Path(here[1].strip()) if here else Path(nvcc.command[0]).resolve().parent).parent


@functools.cache
def torch_version() -> str:
    """``torch.__version__``; empty where torch cannot be imported."""
    try:
        import torch
    except ImportError:
        return ""
    return str(torch.__version__)


def torch_too_old() -> bool:
    """Whether this torch lacks the stable ABI, which came with 2.10."""
    numbers = re.match(r"(\d+)\.(\d+)", torch_version())
    return numbers is None or (int(numbers[1]), int(numbers[2])) < STABLE_ABI


def torch_home() -> Path:
    """Folder of the torch package, which holds ``include`` and ``lib``."""
    import torch

    return Path(torch.__file__).parent


def compile_flags(kind: str, name: str) -> list[str]:
    """Flags of every compilation: optimised, position-independent, torch's headers found."""
    include = torch_home() / "include"
    folders = [include, include / "torch/csrc/api/include", Path(sysconfig.get_path("include"))]
    flags = ["-O3", "-std=c++17", "-DNDEBUG", f"-DTORCH_EXTENSION_NAME={name}"]
    for folder in folders:
        flags += ["-isystem", str(folder)]
    if kind == NVCC:
        return [*flags, "-Xcompiler", "-fPIC,-fvisibility=hidden", *_nvcc_targets()]
    flags += ["-fPIC", "-fvisibility=hidden", "-ffp-contract=off"]
    return flags if kind == CXX else [*flags, *_hip_targets()]


def _nvcc_targets() -> list[str]:
    numbers = [n for name in _targets("sm_") if (n := name.removeprefix("sm_"))]
    flags: list[str] = []
    for number in numbers or ["90"]:
        flags += ["-gencode", f"arch=compute_{number},code=[sm_{number},compute_{number}]"]
    return flags


def _hip_targets() -> list[str]:
    return [f"--offload-arch={name}" for name in _targets("gfx") or ["gfx942", "gfx950"]]


def _targets(prefix: str) -> list[str]:
    """Compile targets of one vendor: what ``GPU_ARCHS`` names, else the device that is here."""
    from optest import arch

    names = [*arch.gpu_archs(), str(arch.get_gfx_runtime())]
    return sorted({name for name in names if name.startswith(prefix)})


def link_flags(kinds: set[str]) -> list[str]:
    """Libraries of torch, and CUDA's runtime where .cu files take part (hipcc adds HIP's itself).

    libcudart is linked statically: the library then loads on a machine without a driver.
    """
    lib = torch_home() / "lib"
    names = [n for n in ("torch_cuda", "torch_hip") if (lib / f"lib{n}.so").exists()]
    flags = [f"-L{lib}", "-ltorch", "-ltorch_cpu", "-lc10", *(f"-l{n}" for n in names)]
    if NVCC in kinds:
        home = _cuda_home(require(NVCC))
        folders = [
            home / name for name in ("lib64", "lib", f"targets/{platform.machine()}-linux/lib")
        ]
        flags += [f"-L{folder}" for folder in folders if folder.is_dir()]
        flags += ["-lcudart_static", "-ldl", "-lrt", "-lpthread"]
    return flags


def require(kind: str) -> Compiler:
    """``find``, or a BuildError that says what was looked for."""
    compiler = find(kind)
    if compiler is None:
        looked = " or ".join(" ".join(words) for words in _candidates(kind))
        advice = {
            CXX: "Install g++ or clang++, or name one in CXX.",
            NVCC: "Install the CUDA toolkit, or name its folder in CUDA_HOME.",
            HIPCC: "Install ROCm, or name its folder in ROCM_HOME.",
        }[kind]
        raise BuildError(f"no compiler for {kind} sources: {looked} cannot be run. {advice}")
    return compiler
