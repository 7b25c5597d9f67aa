"""Compile Triton kernels for GPUs that are not here.

Compiling runs in a child process: it fails where ``TRITON_INTERPRET`` is set, and a triton that has
been imported does not forget the setting. One child takes a whole batch.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from optest.errors import BuildError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TARGETS = ("gfx942", "gfx950", "gfx1250", "sm_90", "sm_100")
Constant = bool | int | float | str | None


@dataclass(frozen=True)
class Request:
    """One kernel for one target.

    Attributes:
        kernel: ``module:kernel``, or ``path/to/file.py:kernel``.
        signature: type of every argument that is no constexpr: ``*bf16``, ``*fp8e4nv``, ``i32``,
            ``fp32``; ``*bf16:16`` says that the pointer or number is a multiple of 16.
        constexprs: value of every ``tl.constexpr`` argument; a text that starts with ``tl.`` means
            that member of triton.language.
        target: an arch name; those of ``TARGETS`` are tried, others are what triton makes of them.
        keep: folder that the binary is written to, named after the kernel.
        keep_stages: write there, too, what the compiler made at each stage (ttir, ttgir, llir, …).
    """

    kernel: str
    signature: Mapping[str, str]
    constexprs: Mapping[str, Constant] = field(default_factory=dict)
    target: str = TARGETS[0]
    num_warps: int = 4
    num_stages: int | None = None
    keep: str | None = None
    keep_stages: bool = False


@dataclass(frozen=True)
class Compiled:
    """What a compiled kernel takes of the machine; None where the target's tools do not tell.

    Attributes:
        registers: vector registers of one thread (AMD: accumulation registers included).
        spills: registers, or on NVIDIA bytes, that did not fit and went to memory.
        shared_bytes: shared memory (LDS) of one program.
        code_bytes: size of the binary.
    """

    kernel: str
    target: str
    registers: int | None
    spills: int | None
    shared_bytes: int
    code_bytes: int


def compile_kernel(
    fn_ref: str,
    signature: Mapping[str, str],
    constexprs: Mapping[str, Constant] | None = None,
    target: str = TARGETS[0],
    num_warps: int = 4,
) -> Compiled:
    """Compile one kernel; see ``Request`` for the arguments.

    Raises:
        UsageError: a target that is no GPU arch, or a reference without its ``:kernel``.
        BuildError: triton refused the kernel, with triton's words.
    """
    (result,) = compile_kernels(
        [Request(fn_ref, signature, constexprs or {}, target, num_warps=num_warps)]
    )
    if isinstance(result, BuildError):
        raise result
    return result


def compile_kernels(requests: Sequence[Request]) -> list[Compiled | BuildError]:
    """Compile a batch in one child process; a refused kernel gives its error in its place.

    Raises:
        UsageError: as ``compile_kernel``.
        BuildError: the child died; the results of the kernels before that are lost with it.
    """
    for request in requests:
        _check(request)
    if not requests:
        return []
    lines = _run_child([dataclasses.asdict(request) for request in requests])
    return [_result(request, answer) for request, answer in zip(requests, lines, strict=True)]


def _check(request: Request) -> None:
    if not re.fullmatch(r"gfx[0-9a-f]{3,4}|sm_\d{2,3}a?", request.target):
        known = ", ".join(TARGETS)
        raise UsageError(f"target {request.target!r}: expected a GPU arch such as {known}")
    module, _, kernel = request.kernel.rpartition(":")
    if not module or not kernel.isidentifier():
        raise UsageError(f"kernel {request.kernel!r}: expected module:kernel or file.py:kernel")


def _result(request: Request, answer: dict[str, object]) -> Compiled | BuildError:
    if "error" in answer:
        return BuildError(f"{request.kernel} for {request.target}: {answer['error']}")
    return Compiled(request.kernel, request.target, **answer)  # type: ignore[arg-type]


def _run_child(requests: list[dict[str, object]]) -> list[dict[str, object]]:
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    environment["PYTHONPATH"] = os.pathsep.join(path or os.getcwd() for path in sys.path)  # noqa: PTH109
    done = subprocess.run(
        [sys.executable, "-m", "optest.native.triton_child"],
        input=json.dumps(requests),
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or len(answers) != len(requests):
        words = done.stderr.strip()[-4000:]
        raise BuildError(f"the process that compiles for GPUs died ({done.returncode}):\n{words}")
    return answers
