"""How often a benchmark calls the kernel: asked by ``bench=`` or by the environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from optest.log import once

ROUNDS, WARMUP = 100, 5


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
            unknown = sorted(str(key) for key in given if key not in ("rounds", "warmup"))
            if unknown:
                raise ValueError(
                    f"config bench has {', '.join(unknown)}: expected rounds and warmup"
                )
            return cls(
                _number(given.get("rounds"), "rounds"), _number(given.get("warmup"), "warmup")
            )
        if hasattr(given, "rounds") or hasattr(given, "warmup"):
            return cls(
                _number(getattr(given, "rounds", None), "rounds"),
                _number(getattr(given, "warmup", None), "warmup"),
            )
        raise ValueError(
            f"config bench={given!r}: expected True, False, or a dict as "
            "{'rounds': 100, 'warmup': 5}"
        )


_LEAST = {"rounds": 1, "warmup": 0}


def _number(value: object, name: str) -> int | None:
    least = _LEAST[name]
    if value is None or (type(value) is int and value >= least):
        return value
    once(
        f"bench {name}={value!r}: expected a whole number of at least {least}; the default is used"
    )
    return None
