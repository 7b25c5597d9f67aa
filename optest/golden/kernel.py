"""What a golden run asks of a kernel, whatever it was written in, and which kind a function is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

from optest.errors import CheckFailedError, UsageError
from optest.golden.scalar import ScalarSpec
from optest.golden.spec import TensorSpec
from optest.log import once

if TYPE_CHECKING:
    import torch

    from optest.golden.config import Config

Spec: TypeAlias = "TensorSpec | ScalarSpec"


class ResultError(CheckFailedError):
    """What a kernel returned does not fit the specs that stand for its results."""


@dataclass(frozen=True)
class Parameter:
    """One parameter of a compiled kernel, as far as the kernel says.

    Attributes:
        kind: ``tensor``, ``scalar``, or a type that no spec stands for; None where the kernel does
            not say.
        direction: ``in``, ``out``, ``inout``; None where the kernel does not say.
        shape: sizes, -1 for any; None where the kernel does not say.
        dtype: None where the kernel takes any.
    """

    name: str
    kind: str | None = None
    direction: str | None = None
    shape: tuple[int, ...] | None = None
    dtype: torch.dtype | None = None


@runtime_checkable
class Artifact(Protocol):
    """A compiled kernel, ready to be dispatched.

    It may also have ``parameters`` (a sequence of ``Parameter``, None where nothing is known), held
    against the specs, and ``launch``: ``dispatch`` without copying results into their tensors,
    which is what a benchmark times; and ``known``, directions that the kernel declares, where the
    others follow only from what it does.
    """

    @property
    def directions(self) -> Mapping[str, str]:
        """``in``, ``out`` or ``inout`` of every tensor, in the order of the specs."""

    @property
    def output_dir(self) -> Path:
        """Where its compiled files lie."""

    def dispatch(self, *args: Any) -> object:  # noqa: ANN401 - tensors, and numbers for scalars
        """Run the kernel on one argument for each spec, in their order."""


def compile_kernel(
    fn: Any,  # noqa: ANN401 - of many kinds
    specs: Sequence[Spec],
    config: Config,
    work_dir: Path,
) -> Artifact:
    """Make ``fn`` ready for arguments like ``specs``; its files are written below ``work_dir``.

    ``fn`` is, tried in this order: an object with ``compile(specs, config)``; a Triton kernel with
    its grid (``TritonKernel`` or ``kernel[grid]``); a torch operator (``torch.ops.…``, the result
    of ``torch.library.custom_op``, an operator of csrc); a Python callable.

    Raises:
        UsageError: it is none of these, or its parameters do not fit the specs.
        BuildError: the compiler refused it, with the compiler's words.
    """
    if _compiles_itself(fn):
        return _compiled_by_user(fn.compile(specs, config), "compile(specs, config)")
    from optest.golden import abi, artifact

    made = _make(fn, specs, config, work_dir)
    abi.check(made, specs)
    if config.compile_only:
        _lower(made, config)
    directions = made.declared if config.compile_only else made.directions
    artifact.write(made, specs, directions, work_dir)
    return made  # type: ignore[no-any-return]


def _lower(made: Any, config: Config) -> None:  # noqa: ANN401 - an artifact of one of our kinds
    lower = getattr(made, "lower", None)
    if lower is not None:
        lower()
    elif config.targets:
        once(
            f"{made.name} is a {made.kind}: targets concern Triton kernels; C++ is built for this "
            "machine where it is loaded"
        )


def load_artifact(
    runtime_dir: Path,
    fn: Any,  # noqa: ANN401 - of many kinds
    specs: Sequence[Spec],
    config: Config,
) -> Artifact:
    """Take up what an earlier run compiled; the code that runs is that of ``fn``.

    An object with ``compile`` is asked by ``fn.load(runtime_dir, specs, config)``.

    Raises:
        UsageError: the folder holds no artifact, or one that no longer fits the kernel or the
            specs; the message says in what.
    """
    if _compiles_itself(fn):
        if not callable(getattr(fn, "load", None)):
            raise UsageError(
                f"fn is a {type(fn).__name__} with compile but no load(runtime_dir, specs, "
                "config): it cannot take up a saved artifact. Run without runtime_dir."
            )
        return _compiled_by_user(
            fn.load(runtime_dir, specs, config), "load(runtime_dir, specs, config)"
        )
    from optest.golden import abi, artifact

    saved = artifact.Saved(runtime_dir / artifact.FILE)
    made = _make(fn, specs, config, runtime_dir)
    saved.check(made, specs)
    abi.check(made, specs)
    made.saved_directions = saved.directions
    return made  # type: ignore[no-any-return]


def _make(fn: Any, specs: Sequence[Spec], config: Config, work_dir: Path) -> Any:  # noqa: ANN401
    from optest.golden import callable_kernel, torch_operator, triton_compiled, triton_kernel

    launched = triton_kernel.with_grid(fn)
    if launched is not None:
        return triton_compiled.make(launched, specs, config, work_dir)
    if torch_operator.is_operator(fn):
        return torch_operator.make(fn, specs, config, work_dir)
    if callable(fn):
        return callable_kernel.make(fn, specs, config, work_dir)
    raise UsageError(
        f"fn is a {type(fn).__name__}: expected a Python callable, a torch operator, a Triton "
        "kernel with its grid (TritonKernel, or kernel[grid]), or an object with "
        "compile(specs, config)"
    )


def _compiles_itself(fn: object) -> bool:
    return callable(getattr(fn, "compile", None)) and not _is_torch_module(fn)


def _is_torch_module(fn: object) -> bool:
    """torch.nn.Module has a ``compile`` of its own, which means something else."""
    import torch

    return isinstance(fn, torch.nn.Module)


def _compiled_by_user(artifact: object, call: str) -> Artifact:
    missing = [n for n in ("directions", "dispatch", "output_dir") if not hasattr(artifact, n)]
    if missing:
        raise UsageError(
            f"fn.{call} returned a {type(artifact).__name__} without "
            f"{', '.join(missing)}: an artifact has directions, dispatch and output_dir"
        )
    return artifact  # type: ignore[return-value]
