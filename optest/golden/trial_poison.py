"""What tensors hold while a kernel is observed: two values for each element, and which it is.

Each tensor has a pattern of its own, so that what is copied from one to another is seen. Patterns
are small whole numbers in integer tensors (0 and 1), where they may serve as indices meanwhile,
and numbers below and above most data in floating-point ones, exact in every 8-bit float.
"""

from __future__ import annotations

import torch

from optest.tensors import bits

_PERIOD = 4093  # a prime: rows of a matrix do not hold the same
_STEPS = 8
_BYTE = 255


def poisoned(like: torch.Tensor, tensor: int, which: int) -> torch.Tensor:
    """A tensor like ``like``, full of poison.

    Args:
        like: gives shape, dtype and device.
        tensor: the tensor's number; others have other patterns.
        which: 0 or 1; the two differ in every element.
    """
    made = torch.empty_like(like, memory_format=torch.contiguous_format)
    length = min(_PERIOD, max(made.numel(), 1))
    draw = torch.randint(_STEPS, (length,), generator=torch.Generator().manual_seed(tensor))
    draw[0] = tensor % _STEPS  # tensors of one element each differ, too
    if not (made.dtype.is_floating_point or made.dtype.is_complex):
        return _filled(made, (draw + which) % 2)
    if made.dtype == torch.float8_e8m0fnu:  # powers of two, for scales
        return _filled(made, 2.0 ** ((draw + 1) * (1 if which else -1)))
    if made.dtype == torch.float4_e2m1fn_x2:  # which torch does not convert to
        made_bits = bits(made)
        draw = draw * 16 + tensor % 16
        made_bits.copy_(_filled(torch.empty_like(made_bits), _BYTE - draw if which else draw))
        return made
    magnitude = 8.0 * (4 + draw % 4) * (1 + draw // 4)  # 32 to 112, with two bits of mantissa
    return _filled(made, magnitude * (1 if which else -1))


def _filled(made: torch.Tensor, pattern: torch.Tensor) -> torch.Tensor:
    """``made`` with the pattern again and again."""
    values = pattern.to(made.dtype).to(made.device)
    flat = made.view(-1)
    rows = flat.numel() // values.numel()
    flat[: rows * values.numel()].view(rows, values.numel()).copy_(values)
    flat[rows * values.numel() :].copy_(values[: flat.numel() % values.numel()])
    return made
