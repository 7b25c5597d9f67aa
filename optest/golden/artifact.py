"""What is kept of a compiled kernel (``artifact.json``), and how a later run takes it up again.

Code is not kept and nothing is unpickled: the kernel that runs is the one given, and it must be
the one that the artifact was made of. A kernel whose source was edited is compiled anew by a run
without ``runtime_dir``; operators of C++ sources are rebuilt where they are loaded, and only their
schema is held against the artifact.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from optest.errors import UsageError
from optest.golden import abi
from optest.golden.kernel import Parameter, Spec
from optest.golden.scalar import ScalarSpec
from optest.golden.spec import DIRECTIONS

FILE = "artifact.json"
_FORMAT = 1


def write(
    made: Any,  # noqa: ANN401 - an artifact of one of our kinds
    specs: Sequence[Spec],
    directions: Mapping[str, str] | None,
    folder: Path,
) -> Path:
    """Write ``artifact.json``: the kernel, its source's fingerprint, what it was compiled for."""
    said = {parameter.name: parameter for parameter in made.parameters or ()}
    record = {
        "format": _FORMAT,
        "kind": made.kind,
        "kernel": made.name,
        "fingerprint": made.fingerprint,
        "constants": {name: str(value) for name, value in made.constants.items()},
        "directions": None if directions is None else dict(directions),
        "parameters": [_described(spec, said.get(spec.name)) for spec in specs],
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / FILE
    path.write_text(json.dumps(record, indent=2) + "\n")
    return path


def _described(spec: Spec, parameter: Parameter | None) -> dict[str, object]:
    """What a parameter was compiled for: the spec's, but any size where the kernel takes any."""
    dtype = str(spec.dtype).removeprefix("torch.")
    if isinstance(spec, ScalarSpec):
        return {"name": spec.name, "kind": "scalar", "dtype": dtype}
    shape = list(spec.shape)
    if parameter is not None and parameter.shape is not None:
        shape = list(parameter.shape)
    return {"name": spec.name, "kind": "tensor", "dtype": dtype, "shape": shape}


class Saved:
    """An ``artifact.json`` that was read and checked."""

    def __init__(self, path: Path) -> None:
        """Read it.

        Raises:
            UsageError: there is none, or it is not one that this version wrote.
        """
        self.path = path
        record = _read(path)
        try:
            self.kind = str(record["kind"])
            self.kernel = str(record["kernel"])
            self.fingerprint = record["fingerprint"]
            self.constants = dict(record["constants"])
            self.parameters = [_parameter(entry) for entry in record["parameters"]]
            self.directions = _directions(record["directions"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise UsageError(f"{path}: no artifact that optest wrote ({error!r})") from error

    def check(self, made: Any, specs: Sequence[Spec]) -> None:  # noqa: ANN401 - one of our kinds
        """Hold a kernel and its specs against what was saved.

        Raises:
            UsageError: another kernel, an edited one, other constants, or other specs.
        """
        if (made.kind, made.name) != (self.kind, self.kernel):
            raise UsageError(
                f"{self.path} holds {self.kernel} (a {self.kind}), fn is {made.name} (a "
                f"{made.kind}). Give the folder of its own run, or run without runtime_dir."
            )
        found = abi.differences(self.parameters, specs)
        if found:
            raise UsageError(abi.mismatch(found))
        now = {name: str(value) for name, value in made.constants.items()}
        if now != self.constants:
            raise UsageError(
                f"{self.path}: compiled with {self.constants}, now {now}. Run without runtime_dir "
                "to compile it anew."
            )
        if made.fingerprint != self.fingerprint:
            raise UsageError(
                f"{self.path}: the source of {self.kernel} changed since it was compiled. Run "
                "without runtime_dir to compile it anew."
            )


def _read(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(path.read_text())
    except FileNotFoundError:
        raise UsageError(
            f"runtime_dir {path.parent} has no {path.name}: give the work_dir of an earlier run"
        ) from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error
    if not isinstance(record, dict) or record.get("format") != _FORMAT:
        raise UsageError(f"{path}: no artifact of format {_FORMAT}. Run without runtime_dir.")
    return record


def _parameter(entry: Mapping[str, Any]) -> Parameter:
    dtype = getattr(torch, str(entry["dtype"]), None)
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"unknown dtype {entry['dtype']!r}")  # noqa: TRY004 - of a file
    name, kind = str(entry["name"]), str(entry["kind"])
    shape = tuple(int(size) for size in entry["shape"]) if kind == "tensor" else None
    return Parameter(name, kind, shape=shape, dtype=dtype)


def _directions(given: Any) -> dict[str, str] | None:  # noqa: ANN401 - of a file
    if given is None:
        return None
    wrong = [value for value in given.values() if value not in DIRECTIONS]
    if wrong:
        raise ValueError(f"unknown direction {wrong[0]!r}")
    return {str(name): str(value) for name, value in given.items()}
