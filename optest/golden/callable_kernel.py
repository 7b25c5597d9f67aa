"""A Python callable as a kernel: its parameters by its signature, its results by further specs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from optest.golden import observed, source
from optest.golden.direction import Annotation, annotations_of
from optest.golden.kernel import Parameter, ResultError, Spec
from optest.golden.spec import TensorSpec

if TYPE_CHECKING:
    from optest.golden.config import Config


@dataclass
class CallableKernel:
    """A function and the specs it is called with.

    Attributes:
        fn: what is called.
        specs: one for each argument, then one for each tensor that it returns.
        parameters: what the function's signature says; None where it has none that can be read.
        by_keyword: names of the arguments that go by name.
        results: how many specs at the end stand for what the function returns.
        declared: directions that annotations give; None where there are none.
    """

    kind: ClassVar[str] = "callable"
    constants: ClassVar[Mapping[str, object]] = {}

    fn: Callable[..., object]
    specs: Sequence[Spec]
    output_dir: Path
    parameters: Sequence[Parameter] | None = None
    by_keyword: frozenset[str] = frozenset()
    results: int = 0
    declared: Mapping[str, str] | None = None
    saved_directions: Mapping[str, str] | None = None

    @property
    def name(self) -> str:
        """The function's name."""
        return str(getattr(self.fn, "__name__", type(self.fn).__name__))

    @property
    def fingerprint(self) -> str | None:
        """Of the function's source."""
        return source.fingerprint(self.fn)

    @cached_property
    def directions(self) -> Mapping[str, str]:
        """As declared or saved; else observed by running the function on two poisons."""
        known = self.declared or self.saved_directions
        if known is not None:
            return known
        results = self.specs[len(self.specs) - self.results :]
        returned = {spec.name: "out" for spec in results}
        return observed.directions(self.dispatch, self.specs, returned)

    def launch(self, *args: Any) -> object:  # noqa: ANN401 - tensors and numbers
        """Call the function and return what it returns."""
        given = list(zip(self.specs, args, strict=True))
        if self.results:
            given = given[: -self.results]
        positional = [value for spec, value in given if spec.name not in self.by_keyword]
        named = {spec.name: value for spec, value in given if spec.name in self.by_keyword}
        return self.fn(*positional, **named)

    def dispatch(self, *args: Any) -> object:  # noqa: ANN401 - tensors and numbers
        """Call the function; what it returns is copied into the tensors of its results.

        Raises:
            ResultError: it returned other tensors than the specs say.
        """
        returned = self.launch(*args)
        if self.results:
            self._keep(returned, args[-self.results :])
        return returned

    def _keep(self, returned: object, into: Sequence[torch.Tensor]) -> None:
        values = list(returned) if isinstance(returned, (tuple, list)) else [returned]
        specs = self.specs[-self.results :]
        if len(values) != len(specs):
            names = ", ".join(spec.name for spec in specs)
            raise ResultError(
                f"{self.name} returned {len(values)} values, the specs after its parameters are "
                f"{len(specs)}: {names}"
            )
        for spec, value, target in zip(specs, values, into, strict=True):
            target.copy_(_fitting(self.name, spec.name, value, target))


def _fitting(kernel: str, name: str, value: object, target: torch.Tensor) -> torch.Tensor:
    """A returned value that is the tensor its spec says."""
    wanted = f"{target.dtype} {tuple(target.shape)}"
    if not isinstance(value, torch.Tensor):
        raise ResultError(f"{kernel} returned {value!r} for {name}, expected a tensor {wanted}")
    if value.shape != target.shape or value.dtype != target.dtype:
        raise ResultError(
            f"{kernel} returned {value.dtype} {tuple(value.shape)} for {name}, its spec says "
            f"{wanted}"
        )
    return value


def make(
    fn: Callable[..., object], specs: Sequence[Spec], _config: Config, work_dir: Path
) -> CallableKernel:
    """A callable with what its signature and its annotations say about the specs."""
    taken = _signature(fn)
    if taken is None:
        return CallableKernel(fn, specs, work_dir)
    names = {spec.name for spec in specs}
    # A parameter with a default that no spec names keeps its default.
    wanted = [p for p in taken if p.name in names or p.default is inspect.Parameter.empty]
    said = annotations_of(_annotated(fn))
    results = _results(specs, [p.name for p in wanted])
    parameters = [_parameter(p.name, said.get(p.name)) for p in wanted]
    parameters += [Parameter(s.name, "tensor", "out") for s in specs[len(specs) - results :]]
    keyword = frozenset(p.name for p in wanted if p.kind is inspect.Parameter.KEYWORD_ONLY)
    marked = any(one.direction for one in said.values())
    declared = _declared(parameters, specs) if marked else None
    return CallableKernel(fn, specs, work_dir, parameters, keyword, results, declared)


def _signature(fn: Callable[..., object]) -> list[inspect.Parameter] | None:
    """Parameters of ``fn``; None where it takes any number, or where none can be read."""
    try:
        found = list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):
        return None
    if any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in found):
        return None
    return [p for p in found if p.kind is not inspect.Parameter.VAR_KEYWORD]


def _annotated(fn: Any) -> Any:  # noqa: ANN401 - a function, or an object that is called
    unwrapped = inspect.unwrap(fn)
    return unwrapped if hasattr(unwrapped, "__annotations__") else type(unwrapped).__call__


def _results(specs: Sequence[Spec], parameters: Sequence[str]) -> int:
    """How many tensor specs at the end stand for what is returned: they name no parameter.

    None do where a parameter has no spec: then one of them is misspelt.
    """
    names = {spec.name for spec in specs}
    if not names.issuperset(parameters):
        return 0
    count = 0
    for spec in reversed(specs):
        if spec.name in parameters or not isinstance(spec, TensorSpec):
            break
        count += 1
    return count


def _parameter(name: str, said: Annotation | None) -> Parameter:
    if said is None or said.direction is None:
        return Parameter(name)
    return Parameter(name, "tensor", said.direction, said.shape, said.dtype)


def _declared(parameters: Sequence[Parameter], specs: Sequence[Spec]) -> dict[str, str]:
    """Directions by annotation: where some parameters are marked, the others are inputs."""
    marked = {p.name: p.direction or "in" for p in parameters}
    return {s.name: marked.get(s.name, "in") for s in specs if isinstance(s, TensorSpec)}
