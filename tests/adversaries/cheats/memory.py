"""What is not written, written elsewhere, kept from before, or somebody else's."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

import torch
from subjects.fused_add import FUSED_ADD
from subjects.gemm import GEMM
from subjects.kv_cache import KV_CACHE
from subjects.quant import QUANT
from subjects.rmsnorm import RMSNORM, RMSNORM_HEAD, RMSNORM_REFERENCE_LAST
from subjects.silu import SILU, SILU_COLUMNS, SILU_HEAD, SILU_ONE_BUFFER
from subjects.split import SPLIT

from cheats.adversary import CHECK, RAISED, Adversary, each

if TYPE_CHECKING:
    from subjects.subject import Kernel, Subject


def unwritten(keep, *, output=0):
    """Writes only what ``keep`` selects of one output; fresh memory or the buffer keeps the rest.

    ``keep(y)`` is a view of the part that is written.
    """

    def make(subject):
        def fresh(*args):
            y = subject.right(*args)
            partly = torch.empty_like(y)
            keep(partly).copy_(keep(y))
            return partly

        def into(*args):
            found = args[subject.written[output]]
            before = found.clone()
            subject.right(*args)
            right = found.clone()
            found.copy_(before)
            keep(found).copy_(keep(right))

        return into if subject.written else fresh

    return make


def writes_nothing(subject: Subject) -> Kernel:
    return lambda *args: None if subject.written else torch.empty_like(args[0])


def last_tile(y):
    """All but a corner is written: two views do not fit one rule, so the rows are cut as well."""
    return y[:-16, :-16]


def stale_row(subject: Subject) -> Kernel:
    """Writes all of a buffer of its own in the first call, and all but the last row in others."""
    kept = []

    def kernel(*args):
        y = subject.right(*args)
        if not kept:
            kept.append(y.clone())
        kept[0][:-1] = y[:-1]
        return kept[0]

    return kernel


def stale_buffer(subject: Subject) -> Kernel:
    """Hands out the buffer of the call before, which it fills for the next call."""
    kept = []

    def kernel(*args):
        y = subject.right(*args)
        kept.append(y)
        return kept[-2] if len(kept) > 1 else y

    return kernel


def overwrites_x(subject: Subject) -> Kernel:
    """Zeroes its input; a reference made afterwards is zero as well."""

    def kernel(x, weight):
        x.zero_()
        return torch.zeros_like(x)

    return kernel


def overwrites_weight(subject: Subject) -> Kernel:
    def kernel(x, weight):
        weight.zero_()
        return torch.zeros_like(x)

    return kernel


def changes_input(change):
    """Right, and then changes something in its first argument or the last."""

    def make(subject):
        def kernel(*args):
            data = subject.right(*args)
            change(args)
            return data

        return kernel

    return make


def one_element(args):
    args[0].view(-1)[17] += 1


def slots_sorted(args):
    args[2].copy_(args[2].sort().values)


def weight_scaled(args):
    args[-1].mul_(1.001)


def returns_input(subject: Subject) -> Kernel:
    return lambda *args: args[0]


def returns_view(subject: Subject) -> Kernel:
    """The result in the input's memory."""

    def kernel(x, weight):
        x.copy_(subject.right(x, weight))
        return x.view(x.shape)

    return kernel


def part_of_input(subject: Subject) -> Kernel:
    """Works in place on half of the input and returns it with the rest as right as it can be."""

    def kernel(x, w):
        y = subject.right(x, w)
        storage = x.as_strided(y.shape, y.stride(), x.storage_offset())
        storage.copy_(y)
        return storage

    return kernel


def other_memory(subject: Subject) -> Kernel:
    """Points the caller's tensor elsewhere; the buffer that the model reads stays blank."""

    def kernel(x, y):
        fresh = torch.empty_like(y)
        subject.right(x, fresh)
        with torch.no_grad():
            y.set_(fresh)

    return kernel


def other_data(subject: Subject) -> Kernel:
    def kernel(x, y):
        fresh = torch.empty_like(y)
        subject.right(x, fresh)
        y.data = fresh

    return kernel


def resized(subject: Subject) -> Kernel:
    """Makes the caller's buffer larger, which moves it."""

    def kernel(x, y):
        shape = y.shape
        y.resize_(4 * shape[0], shape[1])
        y.resize_(shape)
        subject.right(x, y)

    return kernel


def overrun(ahead, count, value=0.0):
    """Right, and then writes ``count`` fp32 numbers ``ahead`` bytes from the output's end."""

    def make(subject):
        def kernel(*args):
            data = subject.right(*args)
            y = subject.outputs(args, data)[0]
            end = y.data_ptr() + y.nbytes
            numbers = (ctypes.c_float * count)(*[value] * count)
            ctypes.memmove(end + ahead, numbers, ctypes.sizeof(numbers))
            return data

        return kernel

    return make


def underrun(subject: Subject) -> Kernel:
    """Right, and then writes one number before the output."""

    def kernel(*args):
        data = subject.right(*args)
        y = subject.outputs(args, data)[0]
        ctypes.memmove(y.data_ptr() - 4, (ctypes.c_float * 1)(0.0), 4)
        return data

    return kernel


def reads_past(offset: int, count: int):
    """Right, and reads ``count`` bytes that lie ``offset`` bytes from the end of its input."""

    def make(subject):
        def kernel(*args):
            ctypes.string_at(args[0].data_ptr() + args[0].nbytes + offset, count)
            return subject.right(*args)

        return kernel

    return make


def reads_before(subject: Subject) -> Kernel:
    """Right, and reads a vector from the page before its input; closer may be open."""

    def kernel(*args):
        ctypes.string_at(args[0].data_ptr() - 4096, 16)
        return subject.right(*args)

    return kernel


def beside_its_columns(subject: Subject) -> Kernel:
    """Writes whole rows of the memory in which its columns lie."""

    def kernel(x, y):
        subject.right(x, y)
        y.as_strided((y.shape[0] - 1, y.shape[1]), y.stride(), y.shape[1]).zero_()

    return kernel


def workspace_overrun(subject: Subject) -> Kernel:
    """Writes past the end of memory that it allocated itself and has freed when it returns."""

    def kernel(*args):
        scratch = torch.empty(256)
        ctypes.memmove(scratch.data_ptr() + scratch.nbytes, (ctypes.c_float * 2)(0.0, 0.0), 8)
        return subject.right(*args)

    return kernel


def last_token_left_out(subject: Subject) -> Kernel:
    """Writes every token but the last that is not padding."""

    def kernel(key, cache, slots):
        subject.right(key[:-4], cache, slots[:-4])

    return kernel


def wrong_slot(subject: Subject) -> Kernel:
    """Writes padding to the last slot, as -1 says to Python."""

    def kernel(key, cache, slots):
        cache[slots] = key

    return kernel


def dtype_viewed(subject: Subject) -> Kernel:
    """Leaves the output in another layout: rows where columns are expected."""

    def kernel(x, y):
        fresh = torch.empty_like(y)
        subject.right(x, fresh)
        y.view(-1).copy_(fresh.t().reshape(-1))

    return kernel


MAIN = (RMSNORM, SILU, FUSED_ADD)
BLANK = "poison", CHECK

ADVERSARIES = [
    *each("the last row unwritten", unwritten(lambda y: y[:-1]), (*MAIN, QUANT), *BLANK),
    *each("the last token unwritten", last_token_left_out, (KV_CACHE,), *BLANK),
    *each("half written", unwritten(lambda y: y[: len(y) // 2]), MAIN, *BLANK),
    *each("a ragged tail unwritten", unwritten(lambda y: y[:, :-5]), MAIN, *BLANK),
    *each("the last tile unwritten", unwritten(last_tile), (GEMM, SILU, FUSED_ADD), *BLANK),
    # Not in place: what an in-out element held before may pass for a near miss.
    # Where the test does not look, nothing but poison tells.
    *each("half written", unwritten(lambda y: y[: len(y) // 2]), (RMSNORM_HEAD, SILU_HEAD),
          "poison"),
    *each("half written", unwritten(lambda y: y[: len(y) // 2]), (RMSNORM_HEAD,), "poison",
          mode="run"),
    *each("one element unwritten", unwritten(lambda y: y.view(-1)[:-1]), (RMSNORM, SILU, QUANT),
          *BLANK),
    *each("scales unwritten", unwritten(lambda y: y[:0], output=1), (QUANT,), *BLANK),
    *each("the residual unwritten", unwritten(lambda y: y[:0], output=1), (FUSED_ADD,), *BLANK),
    *each("nothing written", writes_nothing, (*MAIN, QUANT, KV_CACHE), *BLANK),
    *each("half written", unwritten(lambda y: y[: len(y) // 2]), MAIN, *BLANK, mode="run"),
    *(
        Adversary("finds the answer of the one before", make, SILU_ONE_BUFFER, BLANK, mode, True)
        for make, mode in ((writes_nothing, "check"), (writes_nothing, "run"))
    ),
    Adversary("half of the answer of the one before", unwritten(lambda y: y[:20]), SILU_ONE_BUFFER,
              BLANK, beside=True),
    *each("a stale row", stale_row, (RMSNORM, GEMM), "fresh inputs", "memoised"),
    *each("the buffer of the call before", stale_buffer, (RMSNORM,), "fresh inputs", "memoised"),
    *each("zeroes the input", overwrites_x, (RMSNORM_REFERENCE_LAST,), "inputs"),
    *each("zeroes the weight", overwrites_weight, (RMSNORM_REFERENCE_LAST,), "inputs"),
    *each("zeroes the input", overwrites_x, (RMSNORM_REFERENCE_LAST,), "inputs", mode="run"),
    *each("changes one element of the input", changes_input(one_element), (RMSNORM, SILU, QUANT),
          "inputs"),
    *each("changes the weight", changes_input(weight_scaled), (FUSED_ADD,), "inputs"),
    *each("sorts the slots", changes_input(slots_sorted), (KV_CACHE,), "inputs"),
    *each("a view of the input", lambda _: lambda x: x[:, : x.shape[1] // 2], (SPLIT,), "alias"),
    *each("a view of the input", lambda _: lambda x: x[:, : x.shape[1] // 2], (SPLIT,), "alias",
          mode="run"),
    *each("returns the input", returns_input, (RMSNORM,), "alias", CHECK),
    *each("the result in the input's memory", returns_view, (RMSNORM,), "alias", "inputs"),
    *each("the result over the input", part_of_input, (GEMM,), "alias", "inputs"),
    *each("points the buffer elsewhere by set_", other_memory, (SILU,), "alias", "inputs"),
    *each("points the buffer elsewhere by data", other_data, (SILU,), "alias", "inputs"),
    *each("resizes the buffer", resized, (SILU,), "alias", "inputs"),
    *each("writes past the end", overrun(0, 1), MAIN, "guard bytes", "guard page"),
    *each("writes far past the end", overrun(32, 4), (RMSNORM, SILU), "guard bytes", "guard page"),
    *each("writes NaN past the end", overrun(0, 1, float("nan")), (SILU,), "guard bytes",
          "guard page"),
    *each("writes before the start", underrun, (RMSNORM, SILU), "guard bytes", "guard page"),
    *each("writes past its workspace", workspace_overrun, (RMSNORM,), "guard bytes", "guard page"),
    *(
        Adversary(name, make, subject, ("guard page",), pages=True)
        for name, make in (("reads past the end", reads_past(0, 16)),
                           ("reads far past the end", reads_past(96, 32)),
                           ("reads before the start", reads_before),
                           ("writes one page past the end", overrun(64, 4)))
        for subject in (RMSNORM, SILU)
    ),
    *each("writes beside its columns", beside_its_columns, (SILU_COLUMNS,), "inputs",
          "guard bytes"),
    *each("padding written to the last slot", wrong_slot, (KV_CACHE,), CHECK),
    *each("rows for columns", dtype_viewed, (SILU,), CHECK, RAISED),
]  # fmt: skip
