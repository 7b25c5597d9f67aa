#!/usr/bin/env python3
"""How close csrc comes to the memory's limit and to torch, beyond the last-level cache.

Each operator is timed in rounds with a copy, torch.compile and torch eager beside it; ratios are
taken within a round, so that a slow moment hits both sides, and their median is judged. All write
into memory that exists already, also what torch allocates: fresh pages would cost more than the
kernels. Exits 1 below a bar.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F  # noqa: N812

from optest import native, stats

SHARE_OF_COPY, SHARE_OF_COPY_FP8 = 0.8, 0.6
OF_INDUCTOR = 0.95
OF_EAGER_FP8 = 5.0
GROUP = 128


@dataclass
class Contest:
    """One operator: ours and torch's way, on the same inputs; ``nbytes`` must move at least."""

    name: str
    shape: str
    nbytes: int
    ours: Callable[[], object]
    torch_way: Callable[[], object]
    compiled: Callable[[], object]
    times: dict[str, list[float]] = field(default_factory=dict)

    @property
    def is_fp8(self) -> bool:
        """Whether it must convert to fp8, which has bars of its own."""
        return "fp8" in self.name

    @property
    def bar(self) -> float:
        """Share of the copy bandwidth it must reach; arithmetic, not memory, limits gelu."""
        if "gelu" in self.name:
            return 0.0
        return SHARE_OF_COPY_FP8 if self.is_fp8 else SHARE_OF_COPY

    def ratios(self, other: str) -> list[float]:
        """How many times faster ours was than ``other``, round by round."""
        return [b / a for a, b in zip(self.times["ours"], self.times[other], strict=False)]


def rows_of(mib: int, length: int, fraction: float = 1.0) -> int:
    return int(mib * 2**20 * fraction) // (2 * length)


def random_rows(rows: int, length: int) -> torch.Tensor:
    """Rows [rows, length] bf16: a block repeated, since drawing them all would take longest."""
    block = torch.randn(min(rows, 512), length).bfloat16()
    return block.repeat(-(-rows // len(block)), 1)[:rows].contiguous()


def to_int8(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    scaled, scale = over_largest(x, 127.0)
    return scaled.round().to(torch.int8), scale


def to_fp8(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    scaled, scale = over_largest(x, 448.0)
    return scaled.to(torch.float8_e4m3fn), scale


def over_largest(x: torch.Tensor, largest: float) -> tuple[torch.Tensor, torch.Tensor]:
    wide = x.float()
    scale = wide.abs().amax(-1, keepdim=True) / largest
    scale = torch.where(scale == 0, 1.0, scale)
    return (wide / scale).clamp(-largest, largest), scale


def rmsnorm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return F.rms_norm(x, (x.shape[-1],), weight, 1e-6)


def fused_add(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    total = x + residual
    return rmsnorm(total, weight), total


def silu_and_mul(x: torch.Tensor) -> torch.Tensor:
    gate, up = x.chunk(2, -1)
    return F.silu(gate) * up


def gelu_and_mul(x: torch.Tensor) -> torch.Tensor:
    gate, up = x.chunk(2, -1)
    return F.gelu(gate) * up


def cache_write(
    key: torch.Tensor,
    value: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    slots: torch.Tensor,
) -> None:
    key_cache.flatten(0, 1)[slots] = key
    value_cache.flatten(0, 1)[slots] = value


def contest(
    name: str,
    shape: str,
    nbytes: int,
    ours: Callable[[], object],
    way: Callable[..., object],
    *args: torch.Tensor,
) -> Contest:
    compiled = torch.compile(way, dynamic=False)
    return Contest(name, shape, nbytes, ours, lambda: way(*args), lambda: compiled(*args))


def quant_contests(mib: int) -> list[Callable[[], Contest]]:
    length = 4096
    rows = rows_of(mib, length)

    def make(dtype: torch.dtype, *, grouped: bool) -> Contest:
        ops = native.csrc("quant")
        x, out = random_rows(rows, length), torch.empty(rows, length, dtype=dtype)
        scales = torch.empty(rows, length // GROUP if grouped else 1)
        way, kind = (to_int8, "i8") if dtype == torch.int8 else (to_fp8, "fp8")
        moved, shape = x.nbytes + out.nbytes + scales.nbytes, f"{rows}x{length}"
        if grouped:
            run = lambda: ops.dynamic_per_group_quant(out, x, scales, GROUP)  # noqa: E731
            groups = x.unflatten(-1, (-1, GROUP))
            return contest(f"per-group {kind}", shape, moved, run, way, groups)
        run = lambda: ops.dynamic_per_token_quant(out, x, scales)  # noqa: E731
        return contest(f"per-token {kind}", shape, moved, run, way, x)

    kinds = [(d, g) for d in (torch.int8, torch.float8_e4m3fn) for g in (False, True)]
    return [lambda d=d, g=g: make(d, grouped=g) for d, g in kinds]


def norm_contests(mib: int) -> list[Callable[[], Contest]]:
    length = 8192

    def plain() -> Contest:
        x = random_rows(rows_of(mib, length), length)
        weight, out = torch.randn(length).bfloat16(), torch.empty_like(x)
        run = native.csrc("norm").rmsnorm
        ours = lambda: run(out, x, weight, 1e-6)  # noqa: E731
        return contest("rmsnorm", f"{len(x)}x{length}", 2 * x.nbytes, ours, rmsnorm, x, weight)

    def fused() -> Contest:
        x = random_rows(rows_of(mib, length, 0.5), length)
        weight, residual = torch.randn(length).bfloat16(), torch.zeros_like(x)
        run = native.csrc("norm").fused_add_rmsnorm
        ours = lambda: run(x, residual, weight, 1e-6)  # noqa: E731
        shape = f"{len(x)}x{length}"
        return contest(
            "fused_add_rmsnorm", shape, 4 * x.nbytes, ours, fused_add, x, residual, weight
        )

    return [plain, fused]


def activation_contests(mib: int) -> list[Callable[[], Contest]]:
    d = 14336

    def make(name: str, way: Callable[..., object]) -> Contest:
        x = random_rows(rows_of(mib, 2 * d), 2 * d)
        out = torch.empty(len(x), d, dtype=x.dtype)
        run = getattr(native.csrc("activation"), name)
        ours = lambda: run(out, x)  # noqa: E731
        return contest(name, f"{len(x)}x{2 * d}", x.nbytes + out.nbytes, ours, way, x)

    return [
        lambda: make("silu_and_mul", silu_and_mul),
        lambda: make("gelu_and_mul", gelu_and_mul),
    ]


def cache_contest(mib: int) -> Contest:
    heads, size, block = 8, 128, 16
    tokens = rows_of(mib, heads * size, 0.5) // block * block
    key, value = random_rows(2 * tokens, heads * size).view(2, tokens, heads, size)
    key_cache, value_cache = torch.zeros(2, tokens // block, block, heads, size).bfloat16()
    slots = torch.randperm(tokens // block)[:, None] * block + torch.arange(block)
    slots = slots.flatten()
    run = native.csrc("cache").reshape_and_cache
    args = (key, value, key_cache, value_cache, slots)
    moved = 2 * (key.nbytes + value.nbytes) + slots.nbytes
    return contest(
        "reshape_and_cache",
        f"{tokens}x{heads}x{size}",
        moved,
        lambda: run(*args),
        cache_write,
        *args,
    )


def copies(mib: int) -> tuple[int, list[Callable[[], object]]]:
    """The bytes one copy moves, and the ways of copying; the faster one is the yardstick."""
    source = random_rows(rows_of(mib, 4096), 4096)
    target = torch.empty_like(source)
    pool = ThreadPoolExecutor(torch.get_num_threads())
    part = source.nbytes // torch.get_num_threads()

    def one(index: int) -> None:
        at = index * part
        ctypes.memmove(target.data_ptr() + at, source.data_ptr() + at, part)

    def threads() -> None:
        list(pool.map(one, range(torch.get_num_threads())))

    return 2 * source.nbytes, [lambda: target.copy_(source), threads]


def keep_freed_memory() -> None:
    """Have malloc hand freed memory out again instead of giving it back page by page (glibc)."""
    mmap_max, trim_threshold = -4, -1
    libc = ctypes.CDLL(None)
    libc.mallopt(mmap_max, 0)
    libc.mallopt(trim_threshold, 2**31 - 1)


def seconds(call: Callable[[], object]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def run_contest(item: Contest, copy_calls: list[Callable[[], object]], rounds: int) -> None:
    """Fill ``item.times``; the eager way takes part in the first rounds only, being far slower."""
    sides = {"ours": item.ours, "inductor": item.compiled, "eager": item.torch_way}
    for call in sides.values():
        call()
    copies_timed = [f"copy {at}" for at in range(len(copy_calls))]
    item.times = {name: [] for name in (*sides, *copies_timed)}
    for index in range(rounds):
        for at, call in enumerate(copy_calls):
            item.times[f"copy {at}"].append(seconds(call))
        for name, call in sides.items():
            if name != "eager" or index < max(3, rounds // 3):
                item.times[name].append(seconds(call))
    # The way that is faster on the whole; the faster one of each round would be the luckier one.
    item.times["copy"] = min((item.times[name] for name in copies_timed), key=stats.median)


def judge(item: Contest, copy_bytes: int) -> tuple[list[str], bool]:
    """The row of the table, and whether all bars are cleared."""
    share = [ratio * item.nbytes / copy_bytes for ratio in item.ratios("copy")]
    low, high = stats.quantile(share, 0.25), stats.quantile(share, 0.75)
    inductor, eager = stats.median(item.ratios("inductor")), stats.median(item.ratios("eager"))
    bar = item.bar
    passed = stats.median(share) >= bar and inductor >= OF_INDUCTOR
    passed = passed and (not item.is_fp8 or eager >= OF_EAGER_FP8)
    rate = item.nbytes / stats.median(item.times["ours"]) / 1e9
    cells = [item.name, item.shape, f"{item.nbytes / 2**20:.0f}", f"{rate:.1f}"]
    cells += [f"{stats.median(share):.2f} ({low:.2f}-{high:.2f})", f"{bar}" if bar else ""]
    cells += [f"{inductor:.2f}", f"{eager:.1f}", "pass" if passed else "FAIL"]
    return cells, passed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9, help="rounds an operator (default 9)")
    parser.add_argument("--mib", type=int, default=512, help="MiB of each input (default 512)")
    parser.add_argument("--only", default="", help="operators whose name holds this text")
    args = parser.parse_args()
    keep_freed_memory()
    copy_bytes, copy_calls = copies(args.mib)
    makers = [*quant_contests(args.mib), *norm_contests(args.mib), *activation_contests(args.mib)]
    head = "op shape MiB GB/s share_of_copy bar x_inductor x_eager verdict".split()
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    all_passed = True
    for make in (*makers, lambda: cache_contest(args.mib)):
        item = make()
        if args.only not in item.name:
            continue
        run_contest(item, copy_calls, args.rounds)
        cells, passed = judge(item, copy_bytes)
        all_passed = all_passed and passed
        print("| " + " | ".join(cells) + " |", flush=True)
        torch.compiler.reset()
    return 0 if all_passed else 1


if __name__ == "__main__":
    sys.exit(main())
