"""Results that are computed when somebody looks at them, after the clock has stopped."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING

import torch
from subjects.gemm import GEMM
from subjects.quant import QUANT_PAIR
from subjects.rmsnorm import RMSNORM
from subjects.silu import SILU
from torch.utils._pytree import tree_map

from cheats.adversary import RAISED, Adversary, each

if TYPE_CHECKING:
    from subjects.subject import Kernel, Subject


class Deferred(torch.Tensor):
    """A tensor without memory that computes itself for each operation on it."""

    @staticmethod
    def __new__(cls, like, compute):
        made = torch.Tensor._make_wrapper_subclass(cls, like.shape, dtype=like.dtype)
        made.compute = compute
        return made

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        def plain(value):
            return value.compute() if isinstance(value, cls) else value

        return func(*tree_map(plain, args), **tree_map(plain, kwargs or {}))


class Filled(torch.Tensor):
    """Memory that is filled when the first torch function touches it."""

    compute = None

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            for value in args:
                if isinstance(value, cls) and value.compute is not None:
                    compute, value.compute = value.compute, None
                    value.copy_(compute())
            return func(*args, **(kwargs or {}))


class Named(torch.Tensor):
    """A subclass that does nothing at all: nobody can tell it from one that does."""


class Duck:
    """No tensor, but torch's functions take it for one."""

    def __init__(self, compute):
        self._compute = compute

    def __getattr__(self, name):
        return getattr(self._compute(), name)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        def plain(value):
            return value._compute() if isinstance(value, cls) else value

        return func(*tree_map(plain, args), **tree_map(plain, kwargs or {}))


class LateList(list):
    """A list that is made when it is read."""

    def __init__(self, compute):
        super().__init__()
        self._compute = compute

    def __getitem__(self, at):
        return self._compute()[at]

    def __iter__(self):
        return iter(self._compute())


class LateDict(dict):
    """A dict that is made when it is read."""

    def __init__(self, compute):
        super().__init__()
        self._compute = compute

    def __missing__(self, at):
        return self._compute()[at]


class LateTuple(tuple):  # noqa: SLOT001 - it must carry its work
    """A tuple of blank tensors that hands out others."""

    def __getitem__(self, at):
        return self.compute()[at]


class LateSequence:
    """Not even a list."""

    def __init__(self, compute):
        self._compute = compute

    def __getitem__(self, at):
        return self._compute()[at]


class OnDrop:
    """Computes when the last reference to it goes."""

    def __init__(self, compute):
        self._compute = compute

    def __del__(self):
        self._compute()


def deferred(subject: Subject) -> Kernel:
    def kernel(*args):
        return Deferred(args[0], lambda: subject.right(*args))

    return kernel


def filled(subject: Subject) -> Kernel:
    def kernel(*args):
        made = torch.empty_like(args[0]).as_subclass(Filled)
        made.compute = lambda: subject.right(*args)
        return made

    return kernel


def named(subject: Subject) -> Kernel:
    return lambda *args: subject.right(*args).as_subclass(Named)


def wrapped(kind):
    """The work put off into an object of this kind."""

    def make(subject):
        return lambda *args: kind(lambda: subject.right(*args))

    return make


def another_class(subject: Subject) -> Kernel:
    """Turns the caller's buffer into a tensor that computes itself when it is touched."""

    def kernel(x, y):
        fresh = torch.empty_like(y)
        y.__class__ = Filled
        y.compute = lambda: (subject.right(x, fresh), fresh)[1]

    return kernel


def late_tuple(subject: Subject) -> Kernel:
    def kernel(x):
        made = LateTuple((torch.empty(x.shape, dtype=torch.int8), torch.empty(len(x), 1)))
        made.compute = lambda: subject.right(x)
        return made

    return kernel


def future(subject: Subject) -> Kernel:
    """A list of blank tensors that a callback fills: it waits for the first look at the future."""

    def kernel(x):
        class Late(Future):
            def __getitem__(self, at):
                return subject.right(x)[at]

        return Late()

    return kernel


def generator(subject: Subject) -> Kernel:
    def kernel(x):
        class Late:
            def __init__(self):
                self._made = (each_ for each_ in subject.right(x))

            def __getitem__(self, at):
                return next(self._made)

        return Late()

    return kernel


ADVERSARIES = [
    *each("a wrapper subclass", deferred, (RMSNORM, GEMM), "plain tensors"),
    *each("a wrapper subclass", deferred, (RMSNORM,), "plain tensors", mode="run"),
    *each("memory filled at the first look", filled, (RMSNORM, GEMM), "plain tensors"),
    *each("a subclass that does nothing", named, (RMSNORM,), "plain tensors"),
    *each("an object with __torch_function__", wrapped(Duck), (RMSNORM,), "plain tensors"),
    *each("a list made when read", wrapped(LateList), (QUANT_PAIR,), "plain tensors"),
    *each("a dict made when read", wrapped(LateDict), (QUANT_PAIR,), "plain tensors"),
    *each("a sequence made when read", wrapped(LateSequence), (QUANT_PAIR,), "plain tensors"),
    *each("a tuple of other tensors", late_tuple, (QUANT_PAIR,), "plain tensors"),
    *each("the buffer's class replaced", another_class, (SILU,), "plain tensors", RAISED),
    *each("a future", future, (QUANT_PAIR,), "plain tensors"),
    *each("a generator", generator, (QUANT_PAIR,), "plain tensors"),
    Adversary("done when dropped", wrapped(OnDrop), SILU, ("plain tensors", "still running")),
]
