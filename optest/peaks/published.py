"""What makers say their cards can do, dense (no structured sparsity), to hold beside a measurement.

For CPUs there is nothing: what a core does at most hangs on clocks that no data sheet promises.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from optest.store.roofline import BANDWIDTHS, MEMORY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optest.store.records import Ceiling, Place

_TERA = 1e12


@dataclass(frozen=True)
class Published:
    """A card's data sheet.

    Attributes:
        gfx: what ``get_gfx()`` answers there.
        device: a part of the name that its driver gives it; cards of one arch differ.
        source: title of the data sheet.
        memory: bytes a second.
        matrix: operations a second by dtype.
    """

    gfx: str
    device: str
    source: str
    memory: float
    matrix: Mapping[str, float]


_HOPPER = {
    "fp32": 66.9 * _TERA,
    "bf16": 989.4 * _TERA,
    "fp16": 989.4 * _TERA,
    "int8": 1978.9 * _TERA,
    "fp8": 1978.9 * _TERA,
}
CARDS = (
    Published(
        "gfx942",
        "MI300X",
        "AMD Instinct MI300X Accelerator Data Sheet",
        5.3 * _TERA,
        {
            "fp32": 163.4 * _TERA,
            "bf16": 1307.4 * _TERA,
            "fp16": 1307.4 * _TERA,
            "int8": 2614.9 * _TERA,
            "fp8": 2614.9 * _TERA,
        },
    ),
    Published(
        "gfx950",
        "MI355X",
        "AMD Instinct MI355X GPU Data Sheet",
        8.0 * _TERA,
        {
            "fp32": 157.3 * _TERA,
            "bf16": 2516.6 * _TERA,
            "fp16": 2516.6 * _TERA,
            "int8": 5033.2 * _TERA,
            "fp8": 5033.2 * _TERA,
        },
    ),
    Published(
        "sm_90",
        "H100 80GB HBM3",
        "NVIDIA H100 Tensor Core GPU Data Sheet (SXM)",
        3.35 * _TERA,
        _HOPPER,
    ),
    Published(
        "sm_90", "H200", "NVIDIA H200 Tensor Core GPU Data Sheet (SXM)", 4.8 * _TERA, _HOPPER
    ),
    Published(
        "sm_100",
        "B200",
        "NVIDIA Blackwell Data Sheet (HGX B200)",
        7.7 * _TERA,
        {
            "fp32": 75.0 * _TERA,
            "bf16": 2250.0 * _TERA,
            "fp16": 2250.0 * _TERA,
            "int8": 4500.0 * _TERA,
            "fp8": 4500.0 * _TERA,
        },
    ),
)


def of(place: Place) -> Published | None:
    """The data sheet of the card at ``place``; None where none is known."""
    return next(
        (card for card in CARDS if card.gfx == place.gfx and card.device in place.device), None
    )


def value_of(card: Published, ceiling: Ceiling) -> float | None:
    """What the data sheet says of a ceiling, in the ceiling's unit; None where it says nothing."""
    if ceiling.kind == "matrix":
        return card.matrix.get(ceiling.name)
    if ceiling.kind in BANDWIDTHS and ceiling.name == MEMORY:
        return card.memory
    return None
