"""A Triton kernel with its grid, ready for the specs of a golden run."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from optest.errors import UsageError
from optest.golden import observed, source
from optest.golden.direction import Annotation, annotations_of
from optest.golden.kernel import Parameter, Spec
from optest.golden.platform import device_of, targets_of
from optest.golden.scalar import ScalarSpec
from optest.golden.spec import TensorSpec
from optest.golden.triton_access import access
from optest.golden.triton_kernel import TritonKernel, function

if TYPE_CHECKING:
    from optest.golden.config import Config
    from optest.native.triton_aot import Compiled


@dataclass
class CompiledTriton:
    """A Triton kernel and the specs it is launched with.

    Attributes:
        source: the kernel and its grid.
        parameters: those that specs give, in the kernel's order.
        compiled: what the kernel takes on each target it was compiled for ahead of time.
    """

    kind: ClassVar[str] = "triton kernel"

    source: TritonKernel
    specs: Sequence[Spec]
    config: Config
    output_dir: Path
    parameters: Sequence[Parameter]
    compiled: Sequence[Compiled] = ()
    saved_directions: Mapping[str, str] | None = None

    @property
    def name(self) -> str:
        """The kernel's name."""
        return self.source.name

    @property
    def fingerprint(self) -> str | None:
        """Of the kernel's source and of the functions of its file that it calls."""
        return source.fingerprint(self.source.kernel)

    @cached_property
    def constants(self) -> Mapping[str, object]:
        """Values that are compiled in."""
        constants = {**self.source.constexprs, **self.source.options}
        for spec in self.specs:
            if isinstance(spec, ScalarSpec) and spec.name in self.source.constant_names:
                constants[spec.name] = spec.to_python()
        return constants

    @cached_property
    def known(self) -> Mapping[str, str]:
        """Directions by annotation: where some parameters are marked, the others are inputs."""
        said = annotations_of(function(self.source.kernel))
        marked = {name: one.direction for name, one in said.items() if one.direction}
        tensors = [spec for spec in self.specs if isinstance(spec, TensorSpec)]
        return {spec.name: marked.get(spec.name, "in") for spec in tensors} if marked else {}

    @cached_property
    def declared(self) -> Mapping[str, str] | None:
        """Directions by annotation, else by the kernel's stores; None where a store is lost."""
        if self.known:
            return self.known
        tensors = [spec for spec in self.specs if isinstance(spec, TensorSpec)]
        found = access(self.source.kernel, [spec.name for spec in tensors], self.constants)
        if found.lost:
            return None
        read = {spec.name: _direction(found.direction(spec.name), spec) for spec in tensors}
        observed.warn_of_zeros(read, tensors)
        return read

    @cached_property
    def directions(self) -> Mapping[str, str]:
        """As the source says; else observed by running the kernel on two poisons."""
        known = self.declared or self.saved_directions
        return known or observed.directions(self.dispatch, self.specs, self.config, {})

    @cached_property
    def dispatch(self) -> Callable[..., object]:
        """Launches the kernel on one argument for each spec."""
        launcher = self.source.kernel[self.source.grid]
        launch = functools.partial(launcher, **self.source.constexprs, **self.source.options)
        names = [spec.name for spec in self.specs]
        if names == list(self.source.signature)[: len(names)]:
            return launch
        return lambda *args: launch(**dict(zip(names, args, strict=True)))

    def lower(self) -> None:
        """Compile ahead of time for the targets of the config; nothing where it names none.

        Raises:
            UsageError: a target that is no GPU arch; a dtype that Triton does not know; a kernel
                that another process cannot import.
            BuildError: Triton refused the kernel for one or more targets, with its words.
        """
        from optest.golden import triton_lowered

        targets = targets_of(self.config)
        if targets:
            self.compiled = triton_lowered.lower(
                self.source, self.specs, targets, self.output_dir, stages=self.config.dump_passes
            )


def _direction(found: str, spec: TensorSpec) -> str:
    """Stores may leave a part as it was; what the spec put there then belongs to the result."""
    return "inout" if found == "out" and spec.init_value is not None else found


def make(
    kernel: TritonKernel, specs: Sequence[Spec], config: Config, work_dir: Path
) -> CompiledTriton:
    """A kernel with what its signature says about the specs.

    Raises:
        UsageError: a constexpr that is to change at run time, one given twice, or a kernel that
            can run only on a GPU, where there is none.
    """
    for spec in specs:
        _check_constant(kernel, spec)
    if not config.compile_only:
        _check_runs(kernel, config)
    return CompiledTriton(kernel, specs, config, work_dir, _parameters(kernel, specs))


def _parameters(kernel: TritonKernel, specs: Sequence[Spec]) -> list[Parameter]:
    names = {spec.name for spec in specs}
    said = annotations_of(function(kernel.kernel))
    found = []
    for p in kernel.signature.values():
        if p.name in kernel.constexprs:
            continue
        if p.name in names or p.default is inspect.Parameter.empty:
            found.append(_parameter(p.name, said.get(p.name), p.name in kernel.constant_names))
    return found


def _parameter(name: str, said: Annotation | None, constant: bool) -> Parameter:
    if said is None or said.direction is None:
        return Parameter(name, "scalar" if constant else None)
    return Parameter(name, "tensor", said.direction, said.shape, said.dtype)


def _check_constant(kernel: TritonKernel, spec: Spec) -> None:
    if spec.name in kernel.constexprs:
        raise UsageError(f"{kernel.name}: {spec.name} has a spec and a value in constexprs")
    constant = spec.name in kernel.constant_names
    if constant and isinstance(spec, ScalarSpec) and spec.compile_runtime:
        raise UsageError(
            f"{spec.name}: compile_runtime=True, but {kernel.name} takes it as tl.constexpr, which "
            "is compiled in. Drop the mark, or make it a runtime argument of the kernel."
        )


def _check_runs(kernel: TritonKernel, config: Config) -> None:
    interpreted = type(kernel.kernel).__name__ == "InterpretedFunction"
    if not interpreted and device_of(config).type == "cpu":
        raise UsageError(
            f"{kernel.name} is a Triton kernel and this run is on the CPU: set TRITON_INTERPRET=1 "
            "before triton is imported to interpret it, or give compile_only=True to compile it "
            "for a GPU"
        )
