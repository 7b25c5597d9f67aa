"""The stages of a golden run, in their order."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from optest.cases import saved
from optest.checking import Finding, Verdict
from optest.errors import BuildError, ClockError, RefusedError, UsageError
from optest.golden import (
    abi,
    bench,
    faults,
    identity,
    judging,
    kernel,
    platform,
    workdir,
)
from optest.golden.bench import Calls
from optest.golden.buffers import Buffers
from optest.golden.faults import Mismatched
from optest.golden.kernel import ResultError
from optest.golden.scalar import ScalarSpec
from optest.golden.stages import detail, say, stage
from optest.golden.supply import Supply
from optest.log import logger, once
from optest.timing.clock import Target
from optest.timing.trace import write_trace

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    import torch

    from optest.cases.case import Case
    from optest.cases.row import Row
    from optest.cases.session import Session
    from optest.golden.bench import Bench
    from optest.golden.config import Config
    from optest.golden.kernel import Artifact, Spec
    from optest.golden.reference import Golden
    from optest.golden.request import Request


class Pipeline:
    """One run from its compilation to its benchmark.

    Attributes:
        work_dir: folder of the compiled kernel; None before it has one.
        bench: the timing, where one was made.
        checked: whether the kernel was held against anything.
    """

    def __init__(self, request: Request, session: Session, case: Case, row: Row) -> None:
        self._request, self._session, self._case, self._row = request, session, case, row
        self._config = request.config
        seed = case.seed if self._config.seed is None else self._config.seed
        self._supply = Supply(request, seed)
        self.work_dir: Path | None = None
        self.bench: Bench | None = None
        self.checked = False

    @property
    def _specs(self) -> Sequence[Spec]:
        return self._supply.specs

    def run(self) -> None:
        """Every stage that was asked for.

        Raises:
            Stopped: the run ends with an error in its result.
            Exception: whatever the golden function or the kernel raises.
        """
        with faults.setting_up():
            self._request.check()
            self._note_inapplicable()
            device = None if self._request.compile_only else platform.device_of(self._config)
            if device is not None:
                self._supply.read_scalars()
            calls = Calls.wanted(self._config.bench, self._request.fn)
        try:
            with platform.current(device):
                artifact = self._compiled()
                if device is not None:
                    self._run_on(device, artifact, calls)
        except ResultError as error:  # of a call that was observed, or of the one that counts
            self._mismatch(str(error))

    def _run_on(self, device: torch.device, artifact: Artifact, calls: Calls | None) -> None:
        host = self._supply.inputs()
        golden = self._supply.golden(host)
        if golden is not None and golden.unasked:
            self._mismatch(
                f"golden_fn fills {', '.join(golden.unasked)}, and the kernel does not write it: "
                "either the kernel forgets it, or golden_fn should work on a copy"
            )
        buffers = self._dispatched(artifact, host, device)
        self._validate(buffers, host, golden)
        self._trace(artifact, buffers)
        timed = calls is not None and self._benchmark(artifact, buffers, calls)
        # A kernel that steps may rely on never getting a value again.
        if timed and golden is not None and not self._request.stepped:
            self._require_right_still(artifact, buffers, host, golden)

    def _compiled(self) -> Artifact:
        request, config = self._request, self._config
        config = dataclasses.replace(config, compile_only=request.compile_only)
        if request.runtime_dir is not None:
            return self._loaded(request.runtime_dir, config)
        with stage("compile"), _refusals():
            self.work_dir = workdir.make(identity.kernel_name(request.fn))
            made = kernel.compile_kernel(request.fn, self._specs, config, self.work_dir)
            self.work_dir = Path(made.output_dir)
            detail(f"work_dir: {self.work_dir}")
            self._fit(made)
        return made

    def _loaded(self, folder: Path, config: Config) -> Artifact:
        with _refusals():
            if not workdir.is_folder(folder):
                raise UsageError(f"runtime_dir does not exist: {folder}")
            self.work_dir = folder
            say(f"runtime_only: skipping compile, using {folder}")
            loaded = kernel.load_artifact(folder, self._request.fn, self._specs, config)
            self._fit(loaded)
        return loaded

    def _fit(self, artifact: Artifact) -> None:
        """Hold the specs against the kernel, and take the directions from it."""
        abi.check(artifact, self._specs)
        self._check_steps(artifact)
        if self._request.compile_only:
            return
        abi.stamp(artifact, self._specs)
        self._request.check_comparators()
        assert self.work_dir is not None
        self._supply.check(self.work_dir)

    def _check_steps(self, artifact: Artifact) -> None:
        # Who does not say which scalars it compiled in may have compiled in all.
        constants = getattr(artifact, "constants", None)
        folded = sorted(
            spec.name
            for spec in self._request.stepped
            if not spec.compile_runtime and (constants is None or spec.name in constants)
        )
        if folded:
            raise UsageError(
                "benchmark_step requires compile_runtime=True, else the value is compiled into "
                f"the kernel; stepped scalars: {folded}"
            )

    def _dispatched(
        self, artifact: Artifact, host: dict[str, torch.Tensor], device: torch.device
    ) -> Buffers:
        with stage("runtime"):
            guarded = self._session.guards != "off"
            buffers = Buffers(self._specs, host, device, guarded=guarded)
            if saved.wanted():
                self._case.inputs.extend(buffers.tensors.values())
            buffers.run(artifact.dispatch)
        if moved := buffers.moved():
            self._mismatch(
                f"the kernel put other memory in place of {', '.join(moved)} (set_, resize_ or "
                ".data): whoever calls it holds the memory that it was given"
            )
        if changed := buffers.changed_inputs():
            self._mismatch(f"the kernel changed its inputs: {', '.join(changed)}")
        return buffers

    def _mismatch(self, reason: str) -> NoReturn:
        self.checked = True
        self._session.note_check(Verdict(1.0, Finding("fail", reason)), reason)
        raise Mismatched(reason)

    def _validate(
        self, buffers: Buffers, host: dict[str, torch.Tensor], golden: Golden | None
    ) -> None:
        if golden is None:
            for name, mask in buffers.unwritten.items():
                logger.warning("the kernel left %d elements of %s unwritten", int(mask.sum()), name)
            return
        self.checked = True
        with stage("validate"):
            pairs = self._pairs(buffers, host, golden)
            wrong = {}
            for name in pairs.actual:
                verdict = self._judged(pairs, name)
                if not verdict.passed:
                    wrong[name] = verdict
        if wrong:
            raise Mismatched(_words(wrong, buffers, golden))

    def _pairs(
        self, buffers: Buffers, host: dict[str, torch.Tensor], golden: Golden
    ) -> judging.Pairs:
        return judging.Pairs(
            buffers.outputs(golden.outputs),
            golden.outputs,
            self._compare_inputs(host),
            self._request.rtol,
            self._request.atol,
        )

    def _compare_inputs(self, host: dict[str, torch.Tensor]) -> dict[str, object]:
        read = {s.name: host[s.name] for s in self._request.tensors if not s.is_output}
        scalars = {s.name: s.value for s in self._specs if isinstance(s, ScalarSpec)}
        return {**read, **scalars}

    def _judged(self, pairs: judging.Pairs, name: str) -> Verdict:
        verdict = pairs.judge(name, self._request.compare_fn.get(name))
        verdict = verdict.with_msg(name)
        self._row[f"{name} err"] = verdict
        self._session.note_check(verdict, f"{name}: {verdict.reason}")
        if not verdict.passed:
            saved.save_pair(self._session, name, pairs.expected[name], pairs.actual[name])
        return verdict

    def _trace(self, artifact: Artifact, buffers: Buffers) -> None:
        if not self._config.enable_chip_swimlane:
            return
        assert self.work_dir is not None
        buffers.restore()
        target = Target(artifact.dispatch, ((tuple(buffers.arguments()), {}),))
        detail(f"timeline: {write_trace(target, self.work_dir / 'timeline')}")

    def _benchmark(self, artifact: Artifact, buffers: Buffers, calls: Calls) -> bool:
        """Whether the kernel was timed."""
        if why := self._no_benchmark():
            detail(f"benchmark skipped: {why}")
            return False
        with stage("benchmark"):
            buffers.restore()
            try:
                with faults.ending_on(UsageError):
                    self.bench = bench.run(artifact, buffers.arguments(), self._specs, calls)
            except (RefusedError, ClockError) as error:
                self._refuse_benchmark(str(error))
        self._row["us"] = self.bench.timing
        return True

    def _refuse_benchmark(self, why: str) -> NoReturn:
        reason = f"benchmark refused: {why}"
        self._session.note_failure(reason)
        raise Mismatched(reason)

    def _require_right_still(
        self,
        artifact: Artifact,
        buffers: Buffers,
        host: dict[str, torch.Tensor],
        golden: Golden,
    ) -> None:
        """Refuse the time of a kernel that does its work, or the right one, in early calls only."""
        buffers.restore()
        buffers.run(artifact.dispatch)
        pairs = self._pairs(buffers, host, golden)
        for name in pairs.actual:
            verdict = pairs.verdict(name, self._request.compare_fn.get(name))
            if not verdict.passed:
                self.bench = None
                del self._row["us"]
                self._refuse_benchmark(
                    f"a call after it no longer gives the golden {name}, as the first call did: "
                    f"{verdict.reason}"
                )

    def _no_benchmark(self) -> str:
        if self._session.mode == "check":
            return "OPTEST_MODE=check times nothing"
        if self._request.runtime_dir is not None and self._request.stepped:
            names = sorted(spec.name for spec in self._request.stepped)
            return f"a saved artifact may have compiled in the scalars that step: {names}"
        return ""

    def _note_inapplicable(self) -> None:
        config, compile_only = self._config, self._request.compile_only
        if config.inapplicable:
            once(f"config: {', '.join(config.inapplicable)}: not applicable here")
        held = [spec.name for spec in self._request.tensors if spec.resident not in (None, False)]
        if held:
            once(f"resident ({', '.join(held)}): tensors stay on the device between rounds anyway")
        if config.dump_passes and not (compile_only or platform.targets_of(config)):
            once("dump_passes: nothing is compiled for a GPU in this run; give compile_only=True")


def _refusals() -> AbstractContextManager[None]:
    """Around what may run the kernel: a ValueError of its own is not ours to swallow."""
    return faults.ending_on(UsageError, BuildError)


def _words(wrong: dict[str, Verdict], buffers: Buffers, golden: Golden) -> str:
    lines = [judging.mismatch(wrong)]
    for name, mask in buffers.unwritten.items():
        lines.append(f"  {name}: the kernel did not write {int(mask.sum())} elements of it")
    lines += [f"  {name}: golden_fn did not fill it" for name in golden.unfilled if name in wrong]
    return "\n".join(lines)
