"""How torch quantises the last dimension: by its largest, with one scale."""

from __future__ import annotations

import torch

from kernels.contest import OF_EAGER_FP8, SHARE_OF_COPY, SHARE_OF_COPY_FP8


def to_int8(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    scaled, scale = over_largest(x, 127.0)
    return scaled.round().to(torch.int8), scale


def to_fp8(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    scaled, scale = over_largest(x, 448.0)
    return scaled.to(torch.float8_e4m3fn), scale


def over_largest(x: torch.Tensor, largest: float) -> tuple[torch.Tensor, torch.Tensor]:
    wide = x.float()
    scale = wide.abs().amax(-1, keepdim=True) / largest
    scale = torch.where(scale == 0, 1.0, scale)
    return (wide / scale).clamp(-largest, largest), scale


WAYS = {"i8": (torch.int8, to_int8), "fp8": (torch.float8_e4m3fn, to_fp8)}
# Conversion to fp8 is arithmetic enough to have bars of its own; torch's is far slower still.
OF_COPY = {"i8": SHARE_OF_COPY, "fp8": SHARE_OF_COPY_FP8}
OF_EAGER = {"i8": 0.0, "fp8": OF_EAGER_FP8}
