"""Tensors without memory, of which the small ones still know their values.

A sweep's shapes are large and nothing has to be computed to see what would be launched. But a block
table, sequence lengths or the rows of an expert decide shapes and loops: what is small is computed
on the CPU beside the tensor that holds nothing, and answers where a value is asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
)
from torch.overrides import TorchFunctionMode
from torch.utils._mode_utils import no_dispatch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map, tree_map_only
from torch.utils.weak import WeakTensorKeyDictionary

_LARGEST = 1 << 22  # elements that are worth computing
_LARGEST_OF_PRODUCTS = 1 << 16
_PRODUCTS = ("mm", "conv", "attention", "linear", "matmul")
_CUDA = torch.device("cuda", 0)


class Values(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Runs below every operation: keeps the values of small tensors, gives them where asked.

    Attributes:
        guessed: operations that asked for a value nobody knows and were answered as if all were 0,
            with what ``asking`` said then.
    """

    def __init__(self, asking: Callable[[], bool] = lambda: False) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.guessed: list[tuple[str, bool]] = []
        self._asking = asking
        self._known: Any = WeakTensorKeyDictionary()
        self._lost: set[int] = set()

    def __torch_dispatch__(
        self,
        func: Any,  # noqa: ANN401 - an OpOverload
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401
        given = {k: v for k, v in (kwargs or {}).items() if k != "generator"}
        args, given = tree_map_only(torch.Tensor, self._without_memory, (args, given))
        tensors = _tensors((args, given))
        try:
            made = func(*args, **given)
        except (DataDependentOutputException, DynamicOutputShapeException):
            return self._from_values(func, args, given, tensors)
        known = all(self.of(tensor) is not None for tensor in tensors)
        if known and _is_worth(func, (*tensors, *_tensors(made))):
            self._compute(func, args, given, made)
        elif func._schema.is_mutable:  # noqa: SLF001 - no other way to ask
            for tensor in _written(func, args, given):
                self.forget(tensor)
        return made

    def of(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """The values of a tensor on the CPU; None where they are not known."""
        if not isinstance(tensor, FakeTensor):
            return tensor
        if _storage(tensor) in self._lost:
            return None
        found: torch.Tensor | None = self._known.get(tensor)
        return found

    def or_zeros(self, tensor: torch.Tensor, asked_by: str) -> torch.Tensor:
        """The values, or zeros, noted in ``guessed``; the zeros take no memory."""
        found = self.of(tensor)
        if found is not None:
            return found
        self.guessed.append((asked_by, self._asking()))
        return torch.zeros((), dtype=torch.uint8).to(tensor.dtype).expand(tensor.shape)

    def forget(self, tensor: torch.Tensor) -> None:
        """Its memory was written with values that are not known."""
        if isinstance(tensor, FakeTensor):
            self._lost.add(_storage(tensor))

    def held(self, values: torch.Tensor, device: torch.device) -> torch.Tensor:
        """A tensor on ``device`` that holds nothing and knows its values."""
        assert not isinstance(values, FakeTensor)
        made = torch.empty_strided(values.shape, values.stride(), dtype=values.dtype, device=device)
        self._lost.discard(_storage(made))
        self._known[made] = values
        return made

    def _without_memory(self, tensor: torch.Tensor) -> torch.Tensor:
        """What a script made before, or outside, in the form of the others."""
        if isinstance(tensor, FakeTensor):
            return tensor
        return self.held(tensor, tensor.device)

    def _compute(
        self,
        func: Any,  # noqa: ANN401 - an OpOverload
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        made: object,
    ) -> None:
        with no_dispatch():
            try:
                real = func(*self._real(args), **self._real(kwargs))
            except (RuntimeError, NotImplementedError):  # not every dtype has every CPU kernel
                for tensor in _tensors(made):
                    self.forget(tensor)
                return
            if func.overloadpacket.__name__.startswith("empty"):
                real.view(torch.uint8).zero_() if real.dim() else real.zero_()
        given = {id(tensor) for tensor in _tensors((args, kwargs))}
        for tensor, value in zip(_tensors(made), _tensors(real), strict=True):
            if id(tensor) in given or not isinstance(tensor, FakeTensor):
                continue
            if not _is_view(func):
                self._lost.discard(_storage(tensor))  # a new memory may have an old one's address
            self._known[tensor] = value

    def _real(self, tree: Any) -> Any:  # noqa: ANN401 - any nest of arguments
        def of(leaf: object) -> object:
            if isinstance(leaf, torch.Tensor):
                return self.of(leaf)
            return torch.device("cpu") if isinstance(leaf, torch.device) else leaf

        return tree_map(of, tree)

    def _from_values(
        self,
        func: Any,  # noqa: ANN401
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        tensors: list[torch.Tensor],
    ) -> Any:  # noqa: ANN401
        """The result of an operation whose shape or number depends on values."""
        name = str(func)
        if func is torch.ops.aten.index.Tensor and self.of(args[0]) is None:
            # What is chosen is not known, how much of it may be.
            return func(args[0], self._places(args[1], args[0].device), **kwargs)
        guessed = len(self.guessed)
        device = next((t.device for t in tensors if t.device.type != "cpu"), torch.device("cpu"))
        with no_dispatch():
            real_args, real_kwargs = tree_map_only(
                torch.Tensor, lambda t: self.or_zeros(t, name), (args, kwargs)
            )
            real = func(*real_args, **real_kwargs)
        known = len(self.guessed) == guessed

        def held(value: torch.Tensor) -> torch.Tensor:
            if known:
                return self.held(value, device)
            return torch.empty(value.shape, dtype=value.dtype, device=device)

        return tree_map_only(torch.Tensor, held, real)

    def _places(
        self, indices: Iterable[torch.Tensor | None], device: torch.device
    ) -> list[torch.Tensor | None]:
        """Indices with the places that a mask chooses instead of the mask."""
        found: list[torch.Tensor | None] = []
        for index in indices:
            if index is None or index.dtype is not torch.bool:
                found.append(index)
                continue
            with no_dispatch():
                places = self.or_zeros(index, "a mask").nonzero(as_tuple=True)
            found += [self.held(place, device) for place in places]
        return found


class Factories(TorchFunctionMode):
    """Where torch would go to the device itself: data given from Python, and back to Python."""

    def __init__(self, values: Values) -> None:
        super().__init__()
        self._values = values
        self._from_python = {torch.tensor, torch.as_tensor, torch.asarray}
        self._to_python = {torch.Tensor.tolist, torch.Tensor.numpy}

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401
        args = tuple(_with_index(value) for value in args)
        given = {name: _with_index(value) for name, value in (kwargs or {}).items()}
        if func in self._from_python and not isinstance(args[0], torch.Tensor):
            return self._made_of_data(func, args, given)
        if func is torch.Tensor.new_tensor:
            given = {"dtype": args[0].dtype, "device": args[0].device, **given}
            return self._made_of_data(torch.tensor, args[1:], given)
        if func is torch.Tensor.cuda:
            return args[0].to(_CUDA)
        if func is torch.Tensor.pin_memory:
            return args[0]
        if func in self._to_python:
            name = func.__name__
            with no_dispatch():
                return func(self._values.or_zeros(args[0], name), *args[1:], **given)
        return func(*args, **given)

    def _made_of_data(
        self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> torch.Tensor:
        device = kwargs.pop("device", None)
        args = tree_map_only(FakeTensor, lambda t: self._values.or_zeros(t, "tensor"), args)
        with no_dispatch():
            real: torch.Tensor = func(*args, **kwargs)
        return self._values.held(real, torch.device(device or "cpu"))


def fakes() -> FakeTensorMode:
    """The mode in which tensors hold nothing; what was made before is let in."""
    return FakeTensorMode(allow_non_fake_inputs=True)


def _with_index(value: Any) -> Any:  # noqa: ANN401 - any argument
    """``cuda`` is device 0: torch would ask the current one of a guard that knows none."""
    if isinstance(value, torch.device) and value.type == "cuda" and value.index is None:
        return _CUDA
    return _CUDA if isinstance(value, str) and value == "cuda" else value


def _tensors(tree: object) -> list[torch.Tensor]:
    return [leaf for leaf in tree_flatten(tree)[0] if isinstance(leaf, torch.Tensor)]


def _storage(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)  # noqa: SLF001 - what views share


def _is_view(func: Any) -> bool:  # noqa: ANN401
    return any(argument.alias_info is not None for argument in func._schema.arguments)  # noqa: SLF001


def _written(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.Tensor]:  # noqa: ANN401
    found: list[torch.Tensor] = []
    for index, argument in enumerate(func._schema.arguments):  # noqa: SLF001
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = args[index] if index < len(args) else kwargs.get(argument.name)
            found += _tensors(value)
    return found


def _is_worth(func: Any, tensors: Iterable[torch.Tensor]) -> bool:  # noqa: ANN401
    name = func.overloadpacket.__name__
    largest = _LARGEST_OF_PRODUCTS if any(part in name for part in _PRODUCTS) else _LARGEST
    return all(math.prod(tensor.shape) <= largest for tensor in tensors)
