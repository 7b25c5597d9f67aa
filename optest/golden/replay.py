"""The tensors of a run, one safetensors file each: saved, and taken up again by a later run.

``<folder>/in/<name>.safetensors`` holds what the kernel read (inputs, in-outs, scalars),
``<folder>/out/<name>.safetensors`` the golden outputs. Nothing is ever unpickled.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from optest.cases import dump
from optest.errors import UsageError
from optest.golden import fingerprint, workdir
from optest.golden.scalar import ScalarSpec
from optest.golden.spec import TensorSpec
from optest.log import logger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import torch

    from optest.golden.kernel import Spec

_KEY = "tensor"


def save(folder: Path, part: str, tensors: Mapping[str, torch.Tensor]) -> None:
    """Write each tensor to ``<folder>/<part>/<name>.safetensors``.

    Under another name first: a file that a crash cut short is never taken for a whole one.

    Raises:
        UsageError: (a ValueError) a file cannot be written, naming it.
    """
    for name, tensor in tensors.items():
        path = folder / part / f"{name}.safetensors"
        unfinished = path.with_suffix(f".{os.getpid()}.tmp")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            dump.save({_KEY: tensor}, unfinished)
            unfinished.replace(path)
        except OSError as error:
            unfinished.unlink(missing_ok=True)
            raise UsageError(f"{path} cannot be written: {error}") from None


@dataclass(frozen=True)
class Replay:
    """A folder that ``save`` filled."""

    folder: Path

    def check(self, specs: Sequence[Spec], golden_fn: Callable[..., object] | None) -> None:
        """Refuse a folder that was saved for something else; before anything large is read.

        Raises:
            UsageError: (a ValueError) what is missing, or what differs, and in which file.
        """
        if not fingerprint.check(self.folder, specs, golden_fn):
            logger.warning(
                "%s has no %s: that its files belong together is taken on trust",
                self.folder,
                fingerprint.FILE,
            )
        self._require(path for spec in specs for path in self._files(spec))

    def scalars(self, specs: Sequence[Spec]) -> list[Spec]:
        """The specs, with the saved values in place of those of the scalars.

        Raises:
            UsageError: (a ValueError) a file that is missing or holds something else.
        """
        if not workdir.is_folder(self.folder):
            raise UsageError(f"golden_data does not exist: {self.folder}")
        scalars = [spec for spec in specs if isinstance(spec, ScalarSpec)]
        self._require(self._path("in", spec.name) for spec in scalars)
        return [self._scalar(spec) if isinstance(spec, ScalarSpec) else spec for spec in specs]

    def inputs(self, specs: Sequence[TensorSpec]) -> dict[str, torch.Tensor]:
        """What the kernel reads. The files are mapped, not copied; writes do not reach them.

        Raises:
            UsageError: (a ValueError) a file that does not hold what its spec says.
        """
        return {spec.name: self._tensor("in", spec) for spec in specs if spec.is_input}

    def outputs(self, specs: Sequence[TensorSpec]) -> dict[str, torch.Tensor]:
        """The golden outputs; see ``inputs``."""
        return {spec.name: self._tensor("out", spec) for spec in specs if spec.is_output}

    def _path(self, part: str, name: str) -> Path:
        return self.folder / part / f"{name}.safetensors"

    def _files(self, spec: Spec) -> Iterator[Path]:
        if isinstance(spec, ScalarSpec) or spec.is_input:
            yield self._path("in", spec.name)
        if isinstance(spec, TensorSpec) and spec.is_output:
            yield self._path("out", spec.name)

    def _require(self, paths: Iterator[Path]) -> None:
        missing = [path for path in paths if not path.is_file()]
        if not missing:
            return
        pickled = [path.with_suffix(".pt") for path in missing if path.with_suffix(".pt").exists()]
        if pickled:
            raise UsageError(
                f"golden_data holds pickled files, which are never opened: "
                f"{list(map(str, pickled))}. Where you trust them, save each anew: safetensors."
                "torch.save_file({'tensor': torch.load(p, weights_only=True).contiguous()}, "
                "p.replace('.pt', '.safetensors'))"
            )
        hint = f". Did you mean {self.folder / 'data'}?" if (self.folder / "data").is_dir() else ""
        raise UsageError(f"golden_data is missing files: {list(map(str, missing))}{hint}")

    def _scalar(self, spec: ScalarSpec) -> ScalarSpec:
        path = self._path("in", spec.name)
        value = _read(path)
        if value.dim() != 0:
            raise UsageError(
                f"{path} must contain a 0-dim torch.Tensor, got shape {tuple(value.shape)}"
            )
        if value.dtype != spec.dtype:
            raise UsageError(f"{path} dtype mismatch: spec={spec.dtype} cache={value.dtype}")
        return ScalarSpec(
            spec.name, spec.dtype, value.clone(), spec.compile_runtime, spec.benchmark_step
        )

    def _tensor(self, part: str, spec: TensorSpec) -> torch.Tensor:
        path = self._path(part, spec.name)
        tensor = _read(path)
        if tuple(tensor.shape) != tuple(spec.shape) or tensor.dtype != spec.dtype:
            raise UsageError(
                f"{path} holds {tensor.dtype} {list(tensor.shape)}, its spec says {spec.dtype} "
                f"{list(spec.shape)}. Save the run anew (save_data)."
            )
        return tensor


def _read(path: Path) -> torch.Tensor:
    try:
        tensors = dump.load(path)
    except (RuntimeError, ValueError) as error:  # torn, cut short, or no safetensors at all
        raise UsageError(f"{path} cannot be replayed: {error}. Save the run anew.") from None
    if len(tensors) != 1:
        raise UsageError(f"{path} holds {sorted(tensors)}: expected one tensor")
    return next(iter(tensors.values()))
