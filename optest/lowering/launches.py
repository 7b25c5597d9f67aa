"""The launches of Triton kernels: seen where Triton would start them, and not started."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import JITFunction

from optest.golden.triton_access import access
from optest.lowering.card import Card

_LONGEST_VALUE = 60


@dataclass(frozen=True)
class Launch:
    """One kernel in one specialisation for one card.

    Attributes:
        kernel: ``module.kernel``.
        specialisation: the arguments and options in words: what tells it from others.
        num_warps: waves of a block.
        source: what Triton compiles.
        options: of the compiler.
    """

    kernel: str
    specialisation: str
    num_warps: int
    source: Any
    options: Any

    @property
    def identity(self) -> tuple[str, str]:
        """What tells it from others."""
        return self.kernel, self.specialisation


@dataclass
class Seen:
    """What was launched so far: each specialisation once, with the first case that asked for it."""

    launches: dict[tuple[str, str], Launch] = field(default_factory=dict)
    first: dict[tuple[str, str], str] = field(default_factory=dict)
    case: str = ""
    count: int = 0

    def add(self, launch: Launch) -> None:
        """Take one."""
        self.count += 1
        self.launches.setdefault(launch.identity, launch)
        self.first.setdefault(launch.identity, self.case)


class _Pointer:
    """A tensor as Triton looks at one: a dtype and an address, which says how it is aligned."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.dtype = tensor.dtype
        # Memory starts at a multiple of 256 on every card: what counts is where a view begins.
        self._address = int(tensor.storage_offset()) * tensor.element_size()
        self._reach = int(tensor.untyped_storage().size())

    def data_ptr(self) -> int:
        return self._address

    def ptr_range(self) -> int:
        """Bytes of its memory: AMD's backend has shorter instructions for less than 2 GiB."""
        return self._reach


@contextmanager
def intercepted(card: Card, seen: Seen, wrote: Callable[[torch.Tensor], None]) -> Iterator[None]:
    """Inside, a launch is noted in ``seen``, and ``wrote`` is told of what it writes."""
    written = functools.cache(_written)
    classes: tuple[Any, Any] = (JITFunction, Autotuner)
    function, tuner = classes
    run, do_compile, autotuned = function.run, function._do_compile, tuner.run  # noqa: SLF001

    def noted(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> None:  # noqa: ANN401, ARG001
        for name, value in (*zip(self.arg_names, args, strict=False), *kwargs.items()):
            if name in written(self):
                for tensor in _tensors_of(value):
                    wrote(tensor)
        pointers = [_pointer(value) for value in args]
        named = {name: _pointer(value) for name, value in kwargs.items()}
        run(self, *pointers, grid=grid, warmup=True, **named)

    def kept(
        self: Any,  # noqa: ANN401
        _key: object,
        signature: dict[str, Any],
        _device: int,
        constants: dict[Any, Any],
        options: Any,  # noqa: ANN401
        attrs: dict[Any, Any],
        _warmup: bool,
    ) -> None:
        source = self.ASTSource(self, signature, constants, attrs)
        words = _words(card, source, options)
        kernel = f"{self.module}.{self.fn.__qualname__}"
        seen.add(Launch(_short(kernel, self), words, options.num_warps, source, options))

    function.run, function._do_compile, tuner.run = noted, kept, _every_config  # noqa: SLF001
    try:
        yield
    finally:
        function.run, function._do_compile, tuner.run = run, do_compile, autotuned  # noqa: SLF001


def _written(kernel: Any) -> set[str]:  # noqa: ANN401 - a triton JITFunction
    """Parameters whose memory a kernel writes, from its source; all where it is not clear."""
    names = list(kernel.arg_names)
    found = access(kernel, names, {})
    return set(names) if found.lost else found.stores


def _every_config(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - Triton's signature
    """Each configuration that would be tried is one that has to lower."""
    self.nargs = dict(zip(self.arg_names, args, strict=False))
    configs = self.prune_configs(kwargs) if len(self.configs) > 1 else self.configs
    for config in configs:
        self.fn.run(*args, **kwargs, **config.all_kwargs())
    self.nargs = None


def _short(kernel: str, function: Any) -> str:  # noqa: ANN401 - a triton JITFunction
    """Kernels of an op test are named after its file, not after the module it was loaded as."""
    if not function.module.startswith(("op_test_", "__main__")):
        return kernel
    return f"{Path(function.fn.__code__.co_filename).stem}.{function.fn.__qualname__}"


def _tensors_of(value: object) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (tuple, list)):
        return [tensor for each in value for tensor in _tensors_of(each)]
    base = getattr(value, "base", None)  # a descriptor of a tensor
    return [base] if isinstance(base, torch.Tensor) else []


def _pointer(value: Any) -> Any:  # noqa: ANN401 - any argument of a kernel
    if isinstance(value, torch.Tensor):
        return _Pointer(value)
    if type(value) in (tuple, list):
        return type(value)(_pointer(each) for each in value)
    return value


def _words(card: Card, source: Any, options: Any) -> str:  # noqa: ANN401 - Triton's
    """``x=*bf16:16,2GiB n=i32 BLOCK=1024 num_warps=4 num_stages=2``."""
    names = list(source.signature)
    known = {path[0]: _known(values) for path, values in source.attrs.items() if len(path) == 1}
    constants = {path[0]: value for path, value in source.constants.items() if len(path) == 1}
    parts = []
    for index, (name, kind) in enumerate(source.signature.items()):
        if index in constants:
            parts.append(f"{name}={_constant(constants[index])}")
        else:
            parts.append(f"{name}={kind}{known.get(index, '')}")
    nested = {path: value for path, value in source.constants.items() if len(path) > 1}
    parts += [f"{names[path[0]]}{path[1:]}={_constant(v)}" for path, v in nested.items()]
    return " ".join((*parts, *_options(card, options)))


def _known(attributes: list[list[Any]]) -> str:
    """``:16`` for a multiple of 16, ``:16,2GiB`` for one whose memory is no longer than that."""
    words = {"tt.divisibility": "{}", "tt.pointer_range": "2GiB"}
    shown = [words.get(name, name + "={}").format(value) for name, value in attributes]
    return f":{','.join(shown)}" if shown else ""


def _options(card: Card, options: Any) -> list[str]:  # noqa: ANN401 - Triton's
    """The options that differ from the backend's defaults, and always the first two."""
    from triton.compiler.compiler import make_backend

    given = vars(options)
    defaults = vars(make_backend(card.triton()).parse_options({}))
    shown = [f"{name}={given[name]}" for name in ("num_warps", "num_stages")]
    for name, value in given.items():
        if name not in ("num_warps", "num_stages") and value != defaults.get(name):
            shown.append(f"{name}={_constant(value)}")
    return shown


def _constant(value: object) -> str:
    if isinstance(value, JITFunction):
        return str(value.fn.__qualname__)
    value = getattr(value, "value", value)
    words = value if isinstance(value, str) else json.dumps(value, default=str)
    return words if len(words) <= _LONGEST_VALUE else f"{words[:_LONGEST_VALUE]}…"
