"""Matrix rates: a large square product in each dtype, as torch computes it here."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from optest import arch, dtypes
from optest.errors import OptestError
from optest.peaks.effort import Effort, fastest_us
from optest.peaks.found import Found
from optest.store.records import Ceiling
from optest.timing.event import cuda_event_clock
from optest.timing.threads import threads
from optest.timing.wall import WallClock

_SMALLEST, _LARGEST = 64, 16_384
_PROBE = {"cpu": 512, "cuda": 2048}  # large enough to work at nearly full rate
# A product of 64 x 64 takes microseconds; one that takes so long is emulated, element by element.
_EMULATED_S = 0.005
_TRIES = 3  # of which the fastest counts
_Call = tuple[Callable[..., Any], tuple[Any, ...]]


@dataclass(frozen=True)
class Product:
    """A dtype's product.

    Attributes:
        make: given n and a device, the function to time and its arguments.
        operand_bytes: of an element of an operand.
        result_bytes: of an element of the result.
    """

    name: str
    make: Callable[[int, str], _Call]
    operand_bytes: int
    result_bytes: int

    def nbytes(self, n: int) -> int:
        """Bytes of both operands and the result."""
        return n * n * (2 * self.operand_bytes + self.result_bytes)


def _real(dtype: torch.dtype) -> Callable[[int, str], _Call]:
    def make(n: int, device: str) -> _Call:
        a, b = (torch.randn(n, n, device=device).to(dtype) for _ in range(2))
        return torch.mm, (a, b)

    return make


def _int8(n: int, device: str) -> _Call:
    a, b = (torch.randint(-128, 128, (n, n), dtype=torch.int8, device=device) for _ in range(2))
    return torch._int_mm, (a, b)  # noqa: SLF001 - torch has no other name for it


def _fp8(n: int, device: str) -> _Call:
    dtype = getattr(torch, dtypes.fp8_flavour(arch.get_gfx_runtime()))
    a, b = (torch.randn(n, n, device=device).to(dtype) for _ in range(2))
    one = torch.ones((), device=device)

    def scaled(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch._scaled_mm(a, b, one, one, out_dtype=torch.bfloat16)  # noqa: SLF001 - the same

    return scaled, (a, b.t())  # its second operand is column by column


PRODUCTS = (
    Product("fp32", _real(torch.float32), 4, 4),
    Product("bf16", _real(torch.bfloat16), 2, 2),
    Product("fp16", _real(torch.float16), 2, 2),
    Product("int8", _int8, 1, 4),
    Product("fp8", _fp8, 1, 2),
)


def measured(
    effort: Effort,
    tell: Callable[[str], None],
    device: str,
    products: tuple[Product, ...] = PRODUCTS,
) -> Found:
    """The rate of each product; those that torch has no kernel for are named.

    On a CPU with one thread, and with all.

    Args:
        effort: how much it may take.
        tell: is called with what comes next.
        device: ``cpu`` or ``cuda``.
        products: what to measure.
    """
    found = Found()
    for each in products:
        tell(f"matrix product, {each.name}")
        try:
            found.ceilings += _rates(each, device, effort)
        except (RuntimeError, NotImplementedError, AttributeError, OptestError) as error:
            words = str(error).strip().splitlines() or [type(error).__name__]
            found.missing.append(f"matrix product, {each.name}: {words[0]}")
    return found


def _rates(product: Product, device: str, effort: Effort) -> list[Ceiling]:
    largest = _size(product, device, effort)
    if device != "cpu":
        return [_rate(product, largest, device, effort.budget_s, 0)]
    sizes = {1: _PROBE[device], torch.get_num_threads(): largest}
    found = []
    for count, n in sizes.items():
        with threads(count):
            found.append(_rate(product, n, device, effort.budget_s, count))
    return found


def _rate(product: Product, n: int, device: str, budget_s: float, count: int) -> Ceiling:
    clock = WallClock() if device == "cpu" else cuda_event_clock()
    us = fastest_us(*product.make(n, device), budget_s, clock)
    return Ceiling("matrix", product.name, count, 2 * n**3 / us * 1e6, product.nbytes(n))


def _size(product: Product, device: str, effort: Effort) -> int:
    """The n, a power of two, of a product that takes at most ``effort.longest_s``.

    Found with one thread: where others want the cores, threads wait for one another.

    Raises:
        RuntimeError: torch has no kernel for it, only an emulation; or too little memory is given.
    """
    room = math.inf if effort.memory_bytes is None else effort.memory_bytes
    least = product.nbytes(_PROBE[device])
    if least > room:
        raise RuntimeError(f"{least:,} bytes are needed, and {room:,} may be taken")
    at_once = torch.get_num_threads() if device == "cpu" else 1
    with threads(1):
        took = _fastest_s(product.make(_SMALLEST, device), device)
        if took > _EMULATED_S:
            size = f"{_SMALLEST} x {_SMALLEST}"
            raise RuntimeError(f"no kernel of torch's: {size} takes {took * 1e3:.0f} ms")
        n = _PROBE[device]
        took = _fastest_s(product.make(n, device), device) / at_once
    while took * 8 <= effort.longest_s and 2 * n <= _LARGEST and product.nbytes(2 * n) <= room:
        n, took = 2 * n, took * 8  # twice the n is eight times the operations
    return n


def _fastest_s(call: _Call, device: str) -> float:
    _once_s(call, device)  # the first one of a size may choose or compile a kernel
    return min(_once_s(call, device) for _ in range(_TRIES))


def _once_s(call: _Call, device: str) -> float:
    func, args = call
    if device != "cpu":
        torch.cuda.synchronize()
    start = time.perf_counter()
    func(*args)
    if device != "cpu":
        torch.cuda.synchronize()
    return time.perf_counter() - start
