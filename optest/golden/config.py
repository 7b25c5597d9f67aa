"""What a golden run is asked to do besides its arguments: the ``config`` of ``run``, checked."""

from __future__ import annotations

import dataclasses
import difflib
import logging
from collections.abc import Mapping
from dataclasses import dataclass

from optest.golden.rounds import Rounds

# Fields of upstream's RunConfig that steer its own compiler and its own card. A script that gives
# them runs here as it is; they change nothing.
INAPPLICABLE = frozenset(
    """
    aicpu_thread_num analyze_auto_scopes_for_deps atol backend_type block_dim codegen_only
    compile_profiling diagnostic_phase disabled_diagnostics distributed_config enable_dep_gen
    enable_dump_args enable_dump_tensor enable_l2_swimlane enable_pmu enable_scope_stats
    golden_data_dir l2_swimlane_reuse_dep_gen pto_isa_commit rtol save_kernels save_kernels_dir
    strategy
    """.split()
)
# Upstream's v0 to v9 are degrees of its info; null is silence.
_LOG_LEVELS = {
    "debug": logging.DEBUG,
    **{f"v{degree}": logging.INFO for degree in range(10)},
    "info": logging.INFO,
    "warn": logging.WARNING,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
    "null": logging.CRITICAL + 1,
    "none": logging.CRITICAL + 1,
}
_LARGEST_SEED = 2**32 - 1


@dataclass(frozen=True)
class Config:
    """How to compile and dispatch; made from the caller's dict by ``Config.of``.

    Attributes:
        platform: where to run: ``cpu``, ``cuda``, ``cuda:1``, or an arch (``gfx942``, ``sm_90``);
            None is this machine's device. Upstream's simulators (``a2a3sim``) mean the CPU.
        device_id: which card, where ``platform`` does not say.
        enable_chip_swimlane: also write a timeline (a Chrome trace); 0 is off.
        dump_passes: keep what the compiler made at each stage.
        log_level: of ``optest.logger`` during the run, as ``logging`` numbers them; a dict may
            also name it: debug, info, warn, error, null.
        targets: arch names to compile for under ``compile_only``.
        seed: of the inputs; None derives it from the case's id and ``OPTEST_SEED``.
        bench: whether to time the kernel after it was validated, and how often; None asks the
            environment (``OPTEST_BENCH``).
        inapplicable: upstream's keys that were given and mean nothing here.
        compile_only: set by ``run``: what is compiled will not be dispatched here.
    """

    platform: str | None = None
    device_id: int = 0
    enable_chip_swimlane: bool | int = False
    dump_passes: bool = False
    log_level: int | None = None
    targets: tuple[str, ...] = ()
    seed: int | None = None
    bench: bool | Rounds | None = None
    inapplicable: tuple[str, ...] = ()
    compile_only: bool = False

    @classmethod
    def of(cls, given: Config | Mapping[str, object] | None) -> Config:
        """The caller's config: a dict of the attributes above, a ready Config, or None.

        Raises:
            TypeError: a key that neither optest nor upstream knows, or no mapping at all.
            ValueError: a value that its key cannot have.
        """
        if given is None:
            return cls()
        if isinstance(given, cls):
            return given
        if not isinstance(given, Mapping):
            raise TypeError(
                f"config is a {type(given).__name__}: expected a dict, a Config or None"
            )
        known = _known()
        unknown = [key for key in given if key not in known and not _inapplicable(key)]
        if unknown:
            raise TypeError(_unknown(unknown, sorted(known)))
        values = {key: value for key, value in given.items() if key in known}
        apart = tuple(sorted(key for key in given if _inapplicable(key)))
        return _checked(values, apart)


def _known() -> frozenset[str]:
    ours = {field.name for field in dataclasses.fields(Config)}
    return frozenset(ours - {"inapplicable", "compile_only"})


def _inapplicable(key: object) -> bool:
    return isinstance(key, str) and (key in INAPPLICABLE or key.startswith("ring_"))


def _unknown(keys: list[str], known: list[str]) -> str:
    close = difflib.get_close_matches(str(keys[0]), known, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    names = ", ".join(repr(key) for key in keys)
    noun = "an unexpected key" if len(keys) == 1 else "unexpected keys"
    return f"config has {noun} {names}: {hint}optest knows {', '.join(known)}"


def _checked(values: dict[str, object], inapplicable: tuple[str, ...]) -> Config:
    return Config(
        platform=_platform(values.get("platform")),
        device_id=_whole("device_id", values.get("device_id", 0), least=0),
        enable_chip_swimlane=_switch("enable_chip_swimlane", values.get("enable_chip_swimlane")),
        dump_passes=bool(_switch("dump_passes", values.get("dump_passes"))),
        log_level=_log_level(values.get("log_level")),
        targets=_targets(values.get("targets")),
        seed=_seed(values.get("seed")),
        bench=Rounds.of(values.get("bench")),
        inapplicable=inapplicable,
    )


def _platform(value: object) -> str | None:
    if value is None or (isinstance(value, str) and value.strip()):
        return None if value is None else value.strip().lower()
    raise ValueError(
        f"config platform={value!r}: expected a name such as 'cpu', 'cuda:0', 'gfx942'"
    )


def _whole(name: str, value: object, *, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"config {name}={value!r}: expected a whole number of at least {least}")
    return value


def _switch(name: str, value: object) -> bool | int:
    """A flag; upstream's swimlane also takes levels 0 to 4."""
    if value is None or isinstance(value, bool):
        return bool(value)
    return _whole(name, value, least=0)


def _log_level(value: object) -> int | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    # Upstream's levels are text, or members of an enum with such names.
    name = str(getattr(value, "name", value)).strip().lower()
    if name in _LOG_LEVELS:
        return _LOG_LEVELS[name]
    raise ValueError(f"config log_level={value!r}: expected one of {', '.join(_LOG_LEVELS)}")


def _targets(value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    names = (value,) if isinstance(value, str) else value
    if isinstance(names, (list, tuple)) and all(isinstance(n, str) and n for n in names):
        return tuple(names)
    raise ValueError(f"config targets={value!r}: expected arch names, as ('gfx942', 'sm_90')")


def _seed(value: object) -> int | None:
    seed = None if value is None else _whole("seed", value, least=0)
    if seed is not None and seed > _LARGEST_SEED:
        raise ValueError(f"config seed={seed}: expected at most {_LARGEST_SEED}, which NumPy takes")
    return seed
