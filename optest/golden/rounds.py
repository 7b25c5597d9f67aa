"""How often a benchmark calls the kernel: asked by ``bench=`` or by the environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from optest import settings
from optest.log import once

ROUNDS, WARMUP = 100, 5
_LEAST = {"rounds": 1, "warmup": 0}
_OFF = ("", "0", "false")


@dataclass(frozen=True)
class Rounds:
    """Timed calls and untimed calls before them; None leaves a number to the environment."""

    rounds: int | None = None
    warmup: int | None = None

    @classmethod
    def of(cls, given: object) -> bool | Rounds | None:
        """The ``bench`` of a config: a bool, None, a dict, or any object with these attributes.

        Numbers that cannot be honoured are warned about and left to the environment, as upstream
        does.

        Raises:
            ValueError: something else, or a dict with other keys.
        """
        if given is None or isinstance(given, (bool, Rounds)):
            return given
        if isinstance(given, Mapping):
            unknown = sorted(str(key) for key in given if key not in _LEAST)
            if unknown:
                raise ValueError(
                    f"config bench has {', '.join(unknown)}: expected rounds and warmup"
                )
            return cls(**{name: _given(name, given.get(name)) for name in _LEAST})
        if any(hasattr(given, name) for name in _LEAST):
            return cls(**{name: _given(name, getattr(given, name, None)) for name in _LEAST})
        raise ValueError(
            f"config bench={given!r}: expected True, False, or a dict as "
            "{'rounds': 100, 'warmup': 5}"
        )

    @classmethod
    def wanted(cls, bench: bool | Rounds | None) -> tuple[int, int] | None:
        """(timed, untimed) calls of the benchmark asked for; None where none is.

        Raises:
            SettingError: one of optest's own variables holds what its row does not allow.
        """
        if bench is False or (bench is None and not _switched_on("BENCH")):
            return None
        asked = bench if isinstance(bench, Rounds) else cls()
        return (
            _number("rounds", asked.rounds, "BENCH_ROUNDS", ROUNDS),
            _number("warmup", asked.warmup, "BENCH_WARMUP", WARMUP),
        )


def raw_wanted() -> bool:
    """Whether each round is to be printed too."""
    return _switched_on("BENCH_RAW")


def _switched_on(name: str) -> bool:
    ours = settings.get(f"OPTEST_{name}")
    if ours is not None:
        return bool(ours)
    upstreams = settings.get(f"PYPTO_{name}")
    return isinstance(upstreams, str) and upstreams.lower() not in _OFF


def _number(name: str, given: int | None, variable: str, default: int) -> int:
    if given is not None:
        return given
    ours = settings.get(f"OPTEST_{variable}")
    if isinstance(ours, int):
        return ours
    text = settings.get(f"PYPTO_{variable}")
    if text is None:
        return default
    read = int(text) if isinstance(text, str) and text.isascii() and text.isdigit() else None
    kept = _acceptable(name, read, f"PYPTO_{variable}={text!r}")
    return default if kept is None else kept


def _given(name: str, value: object) -> int | None:
    if value is None:
        return None
    return _acceptable(name, value if type(value) is int else None, f"bench {name}={value!r}")


def _acceptable(name: str, value: int | None, said: str) -> int | None:
    if value is not None and value >= _LEAST[name]:
        return value
    once(f"{said}: expected a whole number of at least {_LEAST[name]}; the default is used")
    return None
