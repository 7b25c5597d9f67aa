"""A Triton kernel with its grid, as a golden run takes it."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

from optest.errors import UsageError
from optest.golden import source

Grid: TypeAlias = "tuple[int, ...] | Callable[[Mapping[str, Any]], tuple[int, ...]]"
_LAUNCHER = "KernelInterface.__getitem__.<locals>.<lambda>"
_MAX_AXES = 3


@dataclass(frozen=True)
class TritonKernel:
    """A Triton kernel ready to launch: ``TritonKernel(kernel, (m,), constexprs={"BLOCK": 128})``.

    Attributes:
        kernel: a function decorated with ``triton.jit``.
        grid: numbers of programs along up to three axes, or a function of the arguments' dict.
        constexprs: values of ``tl.constexpr`` parameters that no spec gives.
        num_warps: as Triton takes it; None is Triton's default.
        num_stages: the same.

    Raises:
        UsageError: something that is no Triton kernel, no grid, or names no constexpr parameter.
    """

    kernel: Any
    grid: Grid
    constexprs: Mapping[str, Any] = field(default_factory=dict)
    num_warps: int | None = None
    num_stages: int | None = None

    def __post_init__(self) -> None:
        _refuse_tuned(self.kernel)
        if not is_kernel(self.kernel):
            raise UsageError(
                f"TritonKernel: {self.kernel!r} is no Triton kernel, expected a function decorated "
                "with triton.jit"
            )
        if isinstance(self.grid, list):
            object.__setattr__(self, "grid", tuple(self.grid))
        _check_grid(self.name, self.grid)
        constants = self.constant_names
        unknown = [name for name in self.constexprs if name not in constants]
        if unknown:
            raise UsageError(
                f"{self.name}: constexprs {', '.join(unknown)}: its tl.constexpr parameters are "
                f"{', '.join(constants) or 'none'}"
            )

    @property
    def name(self) -> str:
        """The kernel's name."""
        return function(self.kernel).__name__

    @cached_property
    def signature(self) -> Mapping[str, inspect.Parameter]:
        """Parameters of the kernel, in order."""
        return inspect.signature(function(self.kernel)).parameters

    @cached_property
    def constant_names(self) -> tuple[str, ...]:
        """Parameters that are ``tl.constexpr``."""
        named = self.signature.values()
        return tuple(p.name for p in named if "constexpr" in _annotation(p))

    @property
    def options(self) -> dict[str, int]:
        """What Triton is told about the launch."""
        given = {"num_warps": self.num_warps, "num_stages": self.num_stages}
        return {name: value for name, value in given.items() if value is not None}


def _annotation(parameter: inspect.Parameter) -> str:
    annotation = parameter.annotation
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")


def _check_grid(name: str, grid: object) -> None:
    sizes = isinstance(grid, tuple) and 1 <= len(grid) <= _MAX_AXES
    if callable(grid) or (sizes and all(type(n) is int and n > 0 for n in grid)):  # type: ignore[attr-defined]
        return
    raise UsageError(
        f"{name}: grid {grid!r}, expected one to three positive numbers of programs such as "
        "(128,), or a function of the arguments that returns them"
    )


def is_kernel(value: object) -> bool:
    """Whether ``value`` was decorated with ``triton.jit``, to be compiled or to be interpreted."""
    kinds = ("JITFunction", "InterpretedFunction")
    return type(value).__name__ in kinds and type(value).__module__.startswith("triton.")


def _refuse_tuned(value: object) -> None:
    """A kernel that chooses its own constants is several kernels; a check is of one.

    Raises:
        UsageError: it is wrapped by ``triton.autotune`` or ``triton.heuristics``.
    """
    wrapper = type(value).__name__
    if wrapper in ("Autotuner", "Heuristics") and type(value).__module__.startswith("triton."):
        raise UsageError(
            f"{source.name_of(value)} chooses its constants itself (triton.{wrapper}): test one "
            "choice, TritonKernel(kernel.fn, grid, constexprs={...})"
        )


def function(kernel: Any) -> types.FunctionType:  # noqa: ANN401 - a Triton kernel
    """The Python function that was decorated."""
    found = kernel.fn
    assert isinstance(found, types.FunctionType)
    return found


def with_grid(fn: object) -> TritonKernel | None:
    """``fn`` as a Triton kernel with its grid; None where it is something else.

    What ``kernel[grid]`` gives is a closure over both.

    Raises:
        UsageError: a Triton kernel without a grid.
    """
    if isinstance(fn, TritonKernel):
        return fn
    _refuse_tuned(fn)
    if is_kernel(fn):
        raise UsageError(
            f"{function(fn).__name__} is a Triton kernel without a grid: pass kernel[grid], or "
            'TritonKernel(kernel, grid, constexprs={"BLOCK": 128})'
        )
    if not isinstance(fn, types.FunctionType) or fn.__qualname__ != _LAUNCHER:
        return None
    held = inspect.getclosurevars(fn).nonlocals
    _refuse_tuned(held.get("self"))
    if not is_kernel(held.get("self")):
        return None
    return TritonKernel(held["self"], held["grid"])
