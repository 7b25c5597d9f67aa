"""Triton kernels compiled for GPUs that are not here, and a table of what each takes of one."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from optest import dtypes
from optest.errors import BuildError, UsageError
from optest.golden.scalar import ScalarSpec
from optest.golden.spec import TensorSpec
from optest.golden.triton_kernel import TritonKernel, function
from optest.log import logger
from optest.native.triton_aot import Compiled, Request, compile_kernels

if TYPE_CHECKING:
    import types

    from optest.golden.kernel import Spec

FOLDER = "compiled"
_TYPES = {
    torch.float32: "fp32",
    torch.float64: "fp64",
    torch.float16: "fp16",
    torch.bfloat16: "bf16",
    torch.float8_e4m3fn: "fp8e4nv",
    torch.float8_e4m3fnuz: "fp8e4b8",
    torch.float8_e5m2: "fp8e5",
    torch.float8_e5m2fnuz: "fp8e5b16",
    torch.bool: "i1",
    torch.int8: "i8",
    torch.int16: "i16",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.uint8: "u8",
    torch.uint16: "u16",
    torch.uint32: "u32",
    torch.uint64: "u64",
}
_FLAVOURS = (torch.float8_e4m3fn, torch.float8_e4m3fnuz)
# Torch's allocator gives memory at multiples of this, and Triton makes use of it.
_ALIGNMENT = 16


def lower(
    kernel: TritonKernel,
    specs: Sequence[Spec],
    targets: Sequence[str],
    work_dir: Path,
    *,
    stages: bool = False,
) -> list[Compiled]:
    """Compile ``kernel`` for each target; binaries and a table go to ``work_dir/compiled``.

    Args:
        kernel: what to compile.
        specs: give the types of its arguments and the values of its constants.
        targets: arch names such as ``gfx942`` and ``sm_90``.
        work_dir: of the run.
        stages: keep what the compiler made at each stage as well.

    Raises:
        UsageError: a target that is no GPU arch; a dtype that Triton does not know; a kernel that
            another process cannot import.
        BuildError: Triton refused the kernel for one or more targets, with its words.
    """
    folder = work_dir.absolute() / FOLDER
    one = _request(kernel, specs)
    results = compile_kernels(
        [
            dataclasses.replace(one, target=t, keep=str(folder / t), keep_stages=stages)
            for t in targets
        ]
    )
    pairs = list(zip(targets, results, strict=True))
    refused = [(target, r) for target, r in pairs if isinstance(r, BuildError)]
    if refused:
        raise BuildError("\n".join(f"{error}{_hint(specs, target)}" for target, error in refused))
    compiled = [result for result in results if isinstance(result, Compiled)]
    for target in targets:
        if hint := _hint(specs, target):
            logger.warning("%s compiles for %s, but%s", kernel.name, target, hint)
    _write(folder, compiled)
    return compiled


def _request(kernel: TritonKernel, specs: Sequence[Spec]) -> Request:
    """What is compiled, for no target yet."""
    constant = set(kernel.constant_names)
    signature = {spec.name: _type_of(spec) for spec in specs if spec.name not in constant}
    constants = {name: _constexpr(name, value) for name, value in kernel.constexprs.items()}
    for spec in specs:
        if isinstance(spec, ScalarSpec) and spec.name in constant:
            constants[spec.name] = spec.to_python()
    return Request(
        _reference(kernel),
        signature,
        constants | _defaults(kernel, {*signature, *constants}),
        num_warps=kernel.num_warps or Request.num_warps,
        num_stages=kernel.num_stages,
    )


def _type_of(spec: Spec) -> str:
    """Triton's name of an argument's type, with what a launch would know of its value."""
    if isinstance(spec, TensorSpec):
        if spec.dtype not in _TYPES:
            raise UsageError(f"{spec.name}: Triton has no type for {spec.dtype}")
        return f"*{_TYPES[spec.dtype]}:{_ALIGNMENT}"
    # A launch gets Python numbers, whatever narrower dtype they were rounded to.
    if spec.dtype is torch.bool:
        return "i1"
    if spec.dtype.is_floating_point:
        return "fp32"
    name = "i64" if spec.dtype is torch.int64 else "i32"
    aligned = not spec.compile_runtime and int(spec.to_python()) % _ALIGNMENT == 0
    return f"{name}:{_ALIGNMENT}" if aligned else name


def _constexpr(name: str, value: object) -> bool | int | float | str | None:
    """A constant as it goes to another process: members of triton.language by their names."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    import triton.language as tl

    member = repr(value).removeprefix("triton.language.")
    if isinstance(value, tl.dtype) and getattr(tl, member, None) == value:
        return f"tl.{member}"
    raise UsageError(
        f"constexpr {name}={value!r}: only numbers, texts, None and dtypes of triton.language can "
        "be compiled in ahead of time"
    )


def _defaults(kernel: TritonKernel, given: set[str]) -> dict[str, bool | int | float | str | None]:
    """Values of the parameters that neither a spec nor ``constexprs`` gives."""
    left = {n: p.default for n, p in kernel.signature.items() if n not in given}
    return {name: _constexpr(name, value) for name, value in left.items()}


def _reference(kernel: TritonKernel) -> str:
    """Where another process finds the kernel: ``module:name``, or ``file.py:name`` of a script."""
    python = function(kernel.kernel)
    if python.__qualname__ != python.__name__:
        raise UsageError(
            f"{python.__qualname__} is defined inside a function, where the process that compiles "
            "for GPUs cannot find it: define the kernel at the top of a module"
        )
    module = sys.modules.get(python.__module__)
    if module is not None and _importable(module):
        return f"{python.__module__}:{python.__name__}"
    return f"{Path(python.__code__.co_filename).absolute()}:{python.__name__}"


def _importable(module: types.ModuleType) -> bool:
    """Whether importing by this name would load this file: not so for a script, nor for a test."""
    if module.__name__ == "__main__":
        return False
    try:
        spec = importlib.util.find_spec(module.__name__)
    except (ImportError, ValueError):
        return False
    return spec is not None and spec.origin == getattr(module, "__file__", None)


def _hint(specs: Sequence[Spec], target: str) -> str:
    """Which tensors hold an 8-bit float that is not the target's own."""
    try:
        own = dtypes.fp8_flavour(target)
    except UsageError:
        own = "none"
    foreign = [s for s in specs if s.dtype in _FLAVOURS and str(s.dtype) != f"torch.{own}"]
    if not foreign:
        return ""
    named = ", ".join(f"{spec.name} is {spec.dtype}" for spec in foreign)
    return f" {named}; the 8-bit float of {target} is {own}"


def _write(folder: Path, compiled: Sequence[Compiled]) -> None:
    """``table.md`` for people and ``table.json`` for programs."""
    from tabulate import tabulate

    rows = [dataclasses.asdict(one) for one in compiled]
    (folder / "table.json").write_text(json.dumps(rows, indent=2) + "\n")
    columns = ("target", "registers", "spills", "shared_bytes", "code_bytes")
    shown: list[Mapping[str, object]] = [{c: row[c] for c in columns} for row in rows]
    table = tabulate(shown, headers="keys", tablefmt="github", missingval="unknown")
    (folder / "table.md").write_text(table + "\n")
    logger.info("compiled to %s\n%s", folder, table)
