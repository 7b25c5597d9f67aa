"""Kernels with a past: what they keep from call to call, and what they do beside their work."""

from __future__ import annotations

import functools
import itertools
import logging
import os
import tempfile
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from cheats import undo

from honest.record import Honest, always, plain


def exp(x):
    return x.double().exp().float()


def workspace_each_call(x):
    scratch = torch.empty(4 * x.numel())
    scratch[: x.numel()] = x.reshape(-1)
    return scratch[: x.numel()].view(x.shape).exp()


def workspace_kept():
    """Allocated at the first call; larger than what is needed, and never all written."""
    kept = []

    def kernel(x):
        if not kept:
            kept.append(torch.empty(4 * x.numel()))
        scratch = kept[0][: x.numel()].view(x.shape)
        torch.exp(x, out=scratch)
        return scratch.clone()

    return kernel


def workspace_by_shape():
    @functools.cache
    def workspace(shape):
        return torch.empty(shape)

    def kernel(x):
        return torch.exp(x, out=workspace(x.shape)) + 0

    return kernel


def own_output():
    """Every call returns the buffer of the first, as a captured graph does."""
    kept = []

    def kernel(x):
        if not kept:
            kept.append(torch.empty_like(x))
        return torch.exp(x, out=kept[0])

    return kernel


def double_buffer():
    buffers, calls = [], itertools.count()

    def kernel(x):
        if not buffers:
            buffers.extend((torch.empty_like(x), torch.empty_like(x)))
        return torch.exp(x, out=buffers[next(calls) % 2])

    return kernel


def table():
    """A lookup table that depends on the shape only, made at the first call."""
    tables = {}

    def kernel(x):
        n = x.shape[-1]
        if n not in tables:
            tables[n] = torch.cos(torch.arange(n) / n)
        return x * tables[n]

    return kernel


def times_cosine(x):
    return x * torch.cos(torch.arange(x.shape[-1]) / x.shape[-1])


def compiled_code():
    """Source made and compiled by Python for each shape, and kept."""
    kept = {}

    def kernel(x):
        if x.shape not in kept:
            names = {}
            exec(f"def made(x):\n    return x.view({x.numel()}).exp().view{tuple(x.shape)}", names)
            kept[x.shape] = names["made"]
        return kept[x.shape](x)

    return kernel


def autotuned():
    """Times its variants on the inputs of the first call, and keeps the faster."""
    variants = (torch.exp, lambda x: x.clone().exp_(), lambda x: torch.exp(x.contiguous()))
    chosen = []

    def kernel(x):
        if not chosen:
            took = []
            for variant in variants:
                started = time.perf_counter()
                variant(x)
                took.append(time.perf_counter() - started)
            chosen.append(variants[took.index(min(took))])
        return chosen[0](x)

    return kernel


def autotuned_in_place():
    """The same for a kernel that writes: it tries its variants on copies."""
    chosen = []

    def kernel(x):
        if not chosen:
            trial = torch.randn_like(x, generator=torch.Generator().manual_seed(1)).exp_()
            chosen.append(torch.exp if trial.numel() else torch.neg)
        return chosen[0](x)

    return kernel


def logs(x):
    logging.getLogger("kernel").warning("slow path for %s", tuple(x.shape))
    return x.exp()


def warns_once():
    told = []

    def kernel(x):
        if not told:
            told.append(1)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                warnings.warn("experimental", stacklevel=2)
        return x.exp()

    return kernel


def through_numpy(x):
    return torch.from_numpy(np.exp(x.numpy()))


def pool_kept():
    """Threads started by the first call, which later calls use; all work is done at return."""
    pools = []

    def kernel(x):
        if not pools:
            pools.append(ThreadPoolExecutor(2))
            undo.later(pools[0].shutdown)
        y = torch.empty_like(x)
        half = len(x) // 2
        list(
            pools[0].map(
                lambda part: torch.exp(x[part], out=y[part]), (slice(0, half), slice(half, None))
            )
        )
        return y

    return kernel


def threads_joined(x):
    """Threads that are started and ended by every call."""
    y = torch.empty_like(x)
    threads = [
        threading.Thread(target=lambda at=at: torch.exp(x[at], out=y[at])) for at in range(4)
    ]
    for thread in threads:
        thread.start()
    torch.exp(x[4:], out=y[4:])
    for thread in threads:
        thread.join()
    return y


def one_thread_joined(x):
    """All of its work on a thread, which has just ended when it returns."""
    held = []
    thread = threading.Thread(target=lambda: held.append(x.exp()))
    thread.start()
    thread.join()
    return held[0]


def threads_set_and_restored(x):
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return x.exp()
    finally:
        torch.set_num_threads(before)


def dtype_set_and_restored(x):
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        return torch.exp(x)
    finally:
        torch.set_default_dtype(before)


@torch.inference_mode()
def in_inference_mode(x):
    return x.exp()


def under_no_grad(x):
    with torch.no_grad():
        return x.exp()


def forked_generator(x):
    """Draws numbers of its own and puts the generator back."""
    with torch.random.fork_rng(devices=[]):
        noise = torch.rand(x.shape)
    return x.exp() + 0 * noise


def counts_calls():
    """Statistics of its own: a number that grows, in no memory to speak of."""
    calls = {"calls": 0, "elements": 0}

    def kernel(x):
        calls["calls"] += 1
        calls["elements"] += x.numel()
        return x.exp()

    return kernel


def bounded_log():
    """The last four calls are kept for debugging: it grows at first, and then no more."""
    history = []

    def kernel(x):
        y = x.exp()
        history.append(tuple(y.shape))
        del history[:-4]
        return y

    return kernel


def through_a_file(x):
    """Reads and writes a temporary file, as kernels with a cache on disk do."""
    with tempfile.TemporaryFile() as file:
        file.write(x.numpy().tobytes())
        file.seek(0)
        return torch.frombuffer(bytearray(file.read()), dtype=x.dtype).view(x.shape).exp()


def reads_the_environment(x):
    return x.exp() if os.environ.get("KERNEL_VARIANT", "exp") == "exp" else x


def by_chunks(x):
    return torch.cat([part.exp() for part in x.split(5)])


def branches_on_data(x):
    """Takes another path where the data ask for it; both are right."""
    return x.exp() if float(x.max()) < 80 else x.double().exp().float()


def clamps_in_a_copy(x):
    y = x.clone()
    y.clamp_(-1, 1)
    return y


class Module(torch.nn.Module):
    """A buffer of its own that is made lazily."""

    def __init__(self):
        super().__init__()
        self.scale = None

    def forward(self, x):
        if self.scale is None:
            self.scale = torch.full((x.shape[-1],), 2.0)
        return x * self.scale


HONEST = [
    Honest("a workspace a call", plain(always(workspace_each_call), exp)),
    Honest("a workspace kept", plain(workspace_kept, exp)),
    Honest("a workspace for each shape", plain(workspace_by_shape, exp)),
    Honest("one output for all calls", plain(own_output, exp)),
    Honest("two outputs in turn", plain(double_buffer, exp)),
    Honest("a lookup table", plain(table, times_cosine)),
    Honest("compiled code kept", plain(compiled_code, exp)),
    Honest("autotuned on the inputs", plain(autotuned, exp)),
    Honest("autotuned on data of its own", plain(autotuned_in_place, exp)),
    Honest("a warning in the log", plain(always(logs), exp)),
    Honest("a warning at first", plain(warns_once, exp)),
    Honest("NumPy inside", plain(always(through_numpy), exp)),
    Honest("a pool of threads kept", plain(pool_kept, exp)),
    Honest("threads that it joins", plain(always(threads_joined), exp)),
    Honest("a thread that it joins", plain(always(one_thread_joined), exp)),
    Honest("threads set and restored", plain(always(threads_set_and_restored), exp)),
    Honest("dtype set and restored", plain(always(dtype_set_and_restored), exp)),
    Honest("inference mode", plain(always(in_inference_mode), exp)),
    Honest("no gradients", plain(always(under_no_grad), exp)),
    Honest("a forked generator", plain(always(forked_generator), exp)),
    Honest("a count of its calls", plain(counts_calls, exp)),
    Honest("a bounded history", plain(bounded_log, exp)),
    Honest("a file", plain(always(through_a_file), exp)),
    Honest("a variable of the environment", plain(always(reads_the_environment), exp)),
    Honest("chunks", plain(always(by_chunks), exp)),
    Honest("another path for other data", plain(always(branches_on_data), exp)),
    Honest("a clamp that changes little", plain(
        always(clamps_in_a_copy), lambda x: x.clamp(-1, 1))),
    Honest("a lazily made buffer", plain(Module, lambda x: 2 * x)),
]  # fmt: skip
