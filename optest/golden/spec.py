"""TensorSpec: what one tensor argument of a kernel is, and what it holds before the call."""

from __future__ import annotations

import keyword
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from optest.errors import UsageError

DIRECTIONS = ("in", "out", "inout")
_FACTORIES = (torch.randn, torch.rand, torch.zeros, torch.ones)
_NOISE = (torch.randn, torch.rand)
_BYTE_FLOAT = 1


class InitError(UsageError, TypeError):
    """An ``init_value`` that is none of the documented kinds; a TypeError too, as upstream's is."""


def require_name(name: object) -> str:
    """The name of a spec: it is held against the kernel's parameters and becomes a file's name.

    Raises:
        UsageError: it is no Python identifier.
    """
    if isinstance(name, str) and name.isidentifier() and not keyword.iskeyword(name):
        return name
    raise UsageError(f"spec name {name!r}: expected the name of the kernel's parameter")


@dataclass(eq=False)
class TensorSpec:
    """One tensor argument.

    Attributes:
        name: the kernel's name for it.
        shape: sizes of the axes.
        dtype: of the elements.
        init_value: None for zeros; a number to fill with; a tensor, copied and converted;
            ``torch.randn``, ``rand``, ``zeros`` or ``ones``, called with shape and dtype; or a
            function without arguments, whose result is copied and converted.
        resident: keep the tensor on the device between rounds of a benchmark: None or False (no),
            the number of a card, or ``"stacked"``.
        direction: ``in``, ``out`` or ``inout``, read from the kernel; None before that.
        declared: whether the kernel's text says the direction, and not only what the kernel does.

    Raises:
        UsageError: a name that is no identifier, a shape that is none, something that is no dtype,
            a ``resident`` of another kind.
    """

    name: str
    shape: Sequence[int]
    dtype: torch.dtype
    init_value: Any = None
    resident: int | str | None = None
    direction: str | None = field(default=None, init=False)
    declared: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
        require_name(self.name)
        self.shape = _shape(self.name, self.shape)
        if not isinstance(self.dtype, torch.dtype):
            raise UsageError(f"{self.name}: unsupported dtype {self.dtype!r}, expected torch.dtype")
        _check_resident(self.name, self.resident)

    @property
    def is_input(self) -> bool:
        """Whether the kernel reads what the tensor holds before the call.

        Raises:
            RuntimeError: the direction has not been read from a kernel yet.
        """
        return self._stamped() in ("in", "inout")

    @property
    def is_output(self) -> bool:
        """Whether the kernel writes the tensor.

        Raises:
            RuntimeError: the direction has not been read from a kernel yet.
        """
        return self._stamped() in ("out", "inout")

    def _stamped(self) -> str:
        if self.direction is None:
            raise RuntimeError(
                f"{self.name}: direction not stamped; it is read from the compiled kernel by run()"
            )
        return self.direction

    def create_tensor(self) -> torch.Tensor:
        """A new contiguous tensor [shape] of the dtype; it shares memory with nothing.

        Raises:
            InitError: ``init_value`` is none of the documented kinds ("Unsupported init_value
                type").
            UsageError: its result has another shape, or does not fit the dtype.
        """
        try:
            made = self._made()
        except (RuntimeError, NotImplementedError, OverflowError) as error:
            if callable(self.init_value) and not _is_factory(self.init_value):
                raise  # a fault of the user's own function, with its traceback
            raise UsageError(
                f"{self.name}: init_value {_shown(self.init_value)} makes no {self.dtype} tensor: "
                f"{error}. Pass a function that returns what the kernel should get."
            ) from error
        if list(made.shape) != list(self.shape):
            raise UsageError(
                f"{self.name}: init_value has shape {tuple(made.shape)}, the spec says "
                f"{tuple(self.shape)}. Make them equal; nothing is broadcast or reshaped."
            )
        return made

    def _made(self) -> torch.Tensor:
        init = self.init_value
        if init is None:
            return torch.zeros(list(self.shape), dtype=self.dtype)
        if isinstance(init, (int, float)):
            return self._filled(init)
        if isinstance(init, torch.Tensor):
            return self._copied(init)
        if _is_factory(init):
            return self._from_factory(init)
        if callable(init):
            return self._copied(_as_tensor(self.name, init()))
        raise InitError(
            f"{self.name}: Unsupported init_value type {type(init).__name__}; expected None, a "
            "number, a tensor, torch.randn, rand, zeros or ones, or a function without arguments"
        )

    def _filled(self, number: float) -> torch.Tensor:
        one = torch.full((), number, dtype=self.dtype)
        whole = not (self.dtype.is_floating_point or self.dtype.is_complex)
        # torch wraps -1 to 255 and cuts 1.5 to 1, and no kernel's author means that.
        if whole and self.dtype is not torch.bool and one.item() != number:
            raise OverflowError(f"it would become {one.item()}")
        return torch.full(self.shape, number, dtype=self.dtype)

    def _copied(self, tensor: torch.Tensor) -> torch.Tensor:
        copy = tensor.detach().to(self.dtype, copy=True)
        return copy.contiguous()

    def _from_factory(self, factory: Callable[..., torch.Tensor]) -> torch.Tensor:
        eight_bits = self.dtype.is_floating_point and self.dtype.itemsize == _BYTE_FLOAT
        if factory in _NOISE and eight_bits:
            # torch draws no 8-bit floats; rounding fp32 noise is what a user would write.
            return factory(self.shape, dtype=torch.float32).to(self.dtype)
        return factory(self.shape, dtype=self.dtype)


def _is_factory(init: object) -> bool:
    return any(init is factory for factory in _FACTORIES)


def _as_tensor(name: str, value: object) -> torch.Tensor:
    try:
        return torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InitError(
            f"{name}: Unsupported init_value type: the function returned "
            f"{type(value).__name__}, which is no tensor ({error})"
        ) from error


def _shown(init: object) -> str:
    return str(getattr(init, "__name__", init))


def _shape(name: str, shape: object) -> list[int]:
    whole = isinstance(shape, Sequence) and not isinstance(shape, str)
    if whole and all(type(size) is int and size >= 0 for size in shape):  # type: ignore[attr-defined]
        return list(shape)  # type: ignore[call-overload, no-any-return]
    raise UsageError(f"{name}: shape {shape!r}, expected a list of sizes such as [16, 128]")


def _check_resident(name: str, resident: object) -> None:
    if resident is True:
        raise UsageError(
            f"{name}: resident=True is ambiguous: give the number of a card, or 'stacked'"
        )
    card = type(resident) is int and resident >= 0
    if not (resident is None or resident is False or card or resident == "stacked"):
        raise UsageError(
            f"{name}: resident={resident!r}, expected None, the number of a card (0 or more), or "
            "'stacked'"
        )
