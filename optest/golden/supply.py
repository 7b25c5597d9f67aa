"""Where a run's inputs and golden outputs come from: made and perhaps saved, or replayed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optest.cases import state
from optest.errors import UsageError
from optest.golden import faults, fingerprint, replay
from optest.golden import reference as references
from optest.golden.reference import Golden
from optest.golden.replay import Replay
from optest.golden.stages import detail, stage
from optest.log import logger

if TYPE_CHECKING:
    from pathlib import Path

    import torch

    from optest.golden.kernel import Spec
    from optest.golden.request import Request

FOLDER = "data"


class Supply:
    """The tensors of one run.

    Attributes:
        specs: those of the request, the scalars with their saved values where they are replayed.
    """

    def __init__(self, request: Request, seed: int) -> None:
        self._request, self._seed = request, seed
        self._replay = None if request.golden_data is None else Replay(request.golden_data)
        self._save_to: Path | None = None
        self.specs: list[Spec] = list(request.specs)

    def read_scalars(self) -> None:
        """Take the saved values: before the kernel is compiled, which may fold them in.

        Raises:
            UsageError: (a ValueError) a file that is missing or holds something else.
        """
        if self._replay is not None:
            self.specs = self._replay.scalars(self.specs)

    def check(self, work_dir: Path) -> None:
        """Refuse data that does not fit the specs, whose directions are known by now.

        Raises:
            UsageError: (a ValueError) which file, and why.
        """
        if self._replay is not None:
            self._replay.check(self.specs, self._request.golden_fn)
            if self._request.save_data:
                detail(f"save_data: nothing to save, the data is that of {self._replay.folder}")
        elif self._request.save_data:
            self._save_to = work_dir / FOLDER
            if self._save_to.exists():
                raise UsageError(
                    f"save_data: {self._save_to} holds the data of another run: run without "
                    "runtime_dir"
                )

    def inputs(self) -> dict[str, torch.Tensor]:
        """What the kernel reads, and the outputs whose ``init_value`` the golden function sees."""
        with stage("generate inputs"), faults.setting_up():
            if self._replay is not None:
                detail(f"cache hit: {self._replay.folder / 'in'}")
                return self._replay.inputs(self._request.tensors)
            state.seed_all(self._seed)
            host = {
                spec.name: spec.create_tensor().cpu()  # whatever the default device
                for spec in self._request.tensors
                if spec.is_input or spec.init_value is not None
            }
            if self._save_to is not None:
                self._save_inputs(self._save_to, host)
            return host

    def golden(self, host: dict[str, torch.Tensor]) -> Golden | None:
        """The golden outputs; None where there is nothing to hold the kernel's against."""
        if not self._request.validates:
            return None
        with stage("compute golden"):
            if self._replay is not None:
                detail(f"cache hit: {self._replay.folder / 'out'}")
                with faults.setting_up():
                    return Golden(self._replay.outputs(self._request.tensors))
            return self._computed(host)

    def _save_inputs(self, folder: Path, host: dict[str, torch.Tensor]) -> None:
        read = {spec.name: host[spec.name] for spec in self._request.tensors if spec.is_input}
        scalars = {spec.name: spec.value for spec in self._request.scalars}
        replay.save(folder, "in", {**read, **scalars})
        if not self._request.validates:
            fingerprint.write(folder, self.specs, self._seed, None)
            detail(f"saved {folder}")

    def _computed(self, host: dict[str, torch.Tensor]) -> Golden:
        golden_fn = self._request.golden_fn
        assert golden_fn is not None
        golden = references.compute(golden_fn, self.specs, host)
        for name in golden.unfilled:
            logger.warning(
                "golden_fn did not fill the output %s: its zeros are what is compared with", name
            )
        if self._save_to is not None:
            with faults.setting_up():
                replay.save(self._save_to, "out", golden.outputs)
                fingerprint.write(self._save_to, self.specs, self._seed, golden_fn)
            detail(f"saved {self._save_to}")
        return golden
