"""A Python callable as a kernel: its parameters by its signature, its results by further specs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
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
        config: of the run.
        kind: ``callable``, or ``torch operator``.
        name: the function's.
        fingerprint: of its source, or its schema; None where neither can be read.
        parameters: what its signature says; None where it has none that can be read.
        by_keyword: names of the arguments that go by name.
        results: how many specs at the end stand for what the function returns.
        known: directions that it declares, of some tensors or of all.
        written: tensors that it declares to write, without saying whether it reads them.
        saved_directions: those of an artifact that is run again.
    """

    constants: ClassVar[Mapping[str, object]] = {}

    fn: Callable[..., object]
    specs: Sequence[Spec]
    config: Config
    output_dir: Path
    kind: str
    name: str
    fingerprint: str | None
    parameters: Sequence[Parameter] | None = None
    by_keyword: frozenset[str] = frozenset()
    results: int = 0
    known: Mapping[str, str] = field(default_factory=dict)
    written: frozenset[str] = frozenset()
    saved_directions: Mapping[str, str] | None = None

    @property
    def declared(self) -> Mapping[str, str] | None:
        """Directions of all tensors, where the function says them; else None."""
        names = [spec.name for spec in self.specs if isinstance(spec, TensorSpec)]
        complete = self.known.keys() >= set(names)
        return {name: self.known[name] for name in names} if complete else None

    @cached_property
    def directions(self) -> Mapping[str, str]:
        """As declared or saved; else observed by running the function on two poisons."""
        if self.declared is not None:
            return self.declared
        if self.saved_directions is not None:
            return self.saved_directions
        found = observed.directions(self.dispatch, self.specs, self.config, self.known)
        # One that it declares to write and does not is an output that stays unwritten.
        unwritten = [name for name in self.written if found.get(name) == "in"]
        return found | dict.fromkeys(unwritten, "out")

    @cached_property
    def launch(self) -> Callable[..., object]:
        """Calls the function and returns what it returns; the function itself where it can be."""
        named = any(spec.name in self.by_keyword for spec in self.specs)
        return self._launch if named or self.results else self.fn

    def _launch(self, *args: Any) -> object:  # noqa: ANN401 - tensors and numbers
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
    fn: Callable[..., object], specs: Sequence[Spec], config: Config, work_dir: Path
) -> CallableKernel:
    """A callable with what its signature and its annotations say about the specs."""
    made = CallableKernel(
        fn, specs, config, work_dir, "callable", source.name_of(fn), source.fingerprint(fn)
    )
    taken = _signature(fn)
    if taken is None:
        return made
    said = annotations_of(_annotated(fn))
    required = [p.name for p in taken if p.default is inspect.Parameter.empty]
    made.parameters, made.results = matched(
        [_parameter(p.name, said.get(p.name)) for p in taken], required, specs
    )
    made.by_keyword = frozenset(p.name for p in taken if p.kind is inspect.Parameter.KEYWORD_ONLY)
    if any(one.direction for one in said.values()):
        made.known = _declared(made.parameters, specs)
    else:
        made.known = {p.name: p.direction for p in made.parameters if p.direction}
    return made


def _signature(fn: Callable[..., object]) -> list[inspect.Parameter] | None:
    """Parameters of ``fn``; None where it takes any number, or where none can be read."""
    called = fn.forward if isinstance(fn, torch.nn.Module) else fn
    try:
        found = list(inspect.signature(called).parameters.values())
    except (TypeError, ValueError):
        return None
    if any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in found):
        return None
    return [p for p in found if p.kind is not inspect.Parameter.VAR_KEYWORD]


def _annotated(fn: object) -> Any:  # noqa: ANN401 - whatever carries the annotations
    called = fn.forward if isinstance(fn, torch.nn.Module) else fn
    return source.function_of(called) or called


def matched(
    parameters: Sequence[Parameter], required: Sequence[str], specs: Sequence[Spec]
) -> tuple[list[Parameter], int]:
    """Parameters that the specs are held against, and how many specs stand for results.

    A parameter with a default that no spec names keeps its default. Tensor specs at the end that
    name no parameter stand for what is returned, unless a parameter has no spec: then one of them
    is misspelt.
    """
    names = {spec.name for spec in specs}
    wanted = [p for p in parameters if p.name in names or p.name in required]
    if not names.issuperset(required):
        return wanted, 0
    taken = {p.name for p in wanted}
    results: list[Parameter] = []
    for spec in reversed(specs):
        if spec.name in taken or not isinstance(spec, TensorSpec):
            break
        results.insert(0, Parameter(spec.name, "tensor", "out"))
    return wanted + results, len(results)


def _parameter(name: str, said: Annotation | None) -> Parameter:
    if said is None or said.direction is None:
        return Parameter(name)
    return Parameter(name, "tensor", said.direction, said.shape, said.dtype)


def _declared(parameters: Sequence[Parameter], specs: Sequence[Spec]) -> dict[str, str]:
    """Directions by annotation: where some parameters are marked, the others are inputs."""
    marked = {p.name: p.direction or "in" for p in parameters}
    return {s.name: marked.get(s.name, "in") for s in specs if isinstance(s, TensorSpec)}
