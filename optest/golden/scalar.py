"""ScalarSpec: one number that a kernel takes, held as a 0-dimensional tensor of its dtype."""

from __future__ import annotations

import ctypes
import math
import numbers
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from optest.errors import UsageError
from optest.golden.spec import require_name

Number: TypeAlias = "bool | int | float"

# How a dispatch through a C interface passes it; the halves go as their bits.
_C_TYPES: dict[torch.dtype, Any] = {
    torch.int8: ctypes.c_int8,
    torch.int32: ctypes.c_int32,
    torch.int64: ctypes.c_int64,
    torch.uint8: ctypes.c_uint8,
    torch.bool: ctypes.c_bool,
    torch.float32: ctypes.c_float,
    torch.float16: ctypes.c_uint16,
    torch.bfloat16: ctypes.c_uint16,
}
_HALVES = (torch.float16, torch.bfloat16)


@dataclass(eq=False)
class ScalarSpec:
    """One scalar argument.

    Attributes:
        name: the kernel's name for it.
        dtype: int8, int32, int64, uint8, bool, float32, float16 or bfloat16.
        value: a number of that kind and range, or a 0-dimensional tensor of the dtype; held as
            such a tensor. Infinities and NaN are values of the floating-point dtypes.
        compile_runtime: pass it with every dispatch, so that one artifact serves several values;
            else it may be compiled in.
        benchmark_step: what is added with every dispatch of a benchmark.

    Raises:
        UsageError: each of these that is not so, with what it is.
    """

    name: str
    dtype: torch.dtype
    value: Any
    compile_runtime: bool = False
    benchmark_step: int | float | None = None

    def __post_init__(self) -> None:
        require_name(self.name)
        if self.dtype not in _C_TYPES:
            known = ", ".join(str(dtype).removeprefix("torch.") for dtype in _C_TYPES)
            raise UsageError(f"{self.name}: unsupported dtype {self.dtype!r}, expected {known}")
        if type(self.compile_runtime) is not bool:
            raise UsageError(
                f"{self.name}: compile_runtime must be a bool, got {self.compile_runtime!r}"
            )
        self.value = self._held(self.value)
        self._check_step()

    @property
    def has_benchmark_step(self) -> bool:
        """Whether the value changes from dispatch to dispatch of a benchmark."""
        return self.benchmark_step is not None

    def to_python(self) -> Number:
        """The value as a Python number, rounded to the dtype."""
        return self.value.item()  # type: ignore[no-any-return]

    def to_ctypes(self) -> Any:  # noqa: ANN401 - ctypes has no common public base
        """The value as a ctypes number; float16 and bfloat16 as ``c_uint16`` of their bits."""
        value = self.value
        bits = value.view(torch.uint16).item() if self.dtype in _HALVES else value.item()
        return _C_TYPES[self.dtype](bits)

    def value_for_benchmark_dispatch(self, index: int) -> torch.Tensor:
        """The value of dispatch ``index``, warm-up included: ``value + index * benchmark_step``.

        Raises:
            UsageError: a negative index, or a value out of the dtype's range.
        """
        if index < 0:
            raise UsageError(f"{self.name}: dispatch {index}, expected 0 or more")
        if self.benchmark_step is None or index == 0:
            return self.value  # type: ignore[no-any-return]
        try:
            stepped = self.to_python() + index * self.benchmark_step
        except OverflowError:
            stepped = math.inf
        if not math.isfinite(stepped) and math.isfinite(self.to_python()):
            raise self._out_of_range(f"{self.to_python()} + {index} * {self.benchmark_step}")
        return self._held(stepped)

    def _held(self, value: object) -> torch.Tensor:
        if isinstance(value, torch.Tensor):
            return self._held_tensor(value)
        return self._converted(self._number(value))

    def _held_tensor(self, value: torch.Tensor) -> torch.Tensor:
        if value.dim() != 0:
            raise UsageError(
                f"{self.name}: a tensor given as value must be 0-dim, got shape "
                f"{tuple(value.shape)}"
            )
        if value.dtype != self.dtype:
            raise UsageError(
                f"{self.name}: the value's {value.dtype} does not match dtype {self.dtype}"
            )
        return value

    def _number(self, value: object, what: str = "value") -> Number:
        """``value`` as a Python number of the dtype's kind."""
        if self.dtype is torch.bool:
            if isinstance(value, bool):
                return value
            raise UsageError(f"{self.name}: torch.bool requires bool {what}, got {value!r}")
        whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
        if whole:
            return int(value)  # type: ignore[call-overload, no-any-return]
        if not self.dtype.is_floating_point:
            raise UsageError(f"{self.name}: {self.dtype} requires int {what}, got {value!r}")
        if isinstance(value, numbers.Real) and not isinstance(value, bool):
            return float(value)
        raise UsageError(f"{self.name}: {self.dtype} requires int or float {what}, got {value!r}")

    def _converted(self, number: Number) -> torch.Tensor:
        if not self.dtype.is_floating_point:
            return self._whole(number)
        try:
            made = torch.tensor(float(number), dtype=self.dtype)
        except OverflowError:
            raise self._out_of_range(number) from None
        if math.isfinite(number) and not math.isfinite(made.item()):
            raise self._out_of_range(number)
        return made

    def _whole(self, number: Number) -> torch.Tensor:
        if self.dtype is not torch.bool:
            limits = torch.iinfo(self.dtype)
            if not limits.min <= number <= limits.max:
                raise self._out_of_range(number)
        return torch.tensor(number, dtype=self.dtype)

    def _out_of_range(self, value: object) -> UsageError:
        info = torch.finfo if self.dtype.is_floating_point else torch.iinfo
        limits = info(self.dtype)
        return UsageError(
            f"{self.name}: value {value} is out of range for {self.dtype} "
            f"({limits.min} to {limits.max})"
        )

    def _check_step(self) -> None:
        if self.benchmark_step is None:
            return
        if self.dtype is torch.bool:
            raise UsageError(f"{self.name}: benchmark_step is unsupported for torch.bool")
        self.benchmark_step = self._number(self.benchmark_step, "benchmark_step")
        if not math.isfinite(self.benchmark_step):
            raise UsageError(f"{self.name}: benchmark_step {self.benchmark_step}, expected finite")
