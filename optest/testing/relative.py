"""The rule of KernelFoundry's tests: enough elements whose relative error is small enough."""

from __future__ import annotations

import torch

_BLOCK = 1 << 22  # elements judged at a time: the working copies stay small


def all_close_with_slack(
    output_reference: torch.Tensor,
    output_kernel: torch.Tensor,
    epsilon: float = 1e-7,
    max_rel_err: float = 0.01,
    ratio_below_max_err: float = 0.99,
) -> torch.Tensor:
    """Whether more than ``ratio_below_max_err`` of the elements have a small relative error.

    The error of an element is ``|kernel - reference| / (|reference| + epsilon)``; it must be below
    ``max_rel_err``. Unlike ``assert_allclose`` this forgives gross errors and NaN in the rest.

    Args:
        output_reference: any shape and real dtype.
        output_kernel: the same shape; half precision is judged in fp32, fp64 in fp64.
        epsilon: keeps the error of elements near zero finite.
        max_rel_err: bound of one element.
        ratio_below_max_err: share of elements that must be exceeded.

    Returns:
        A 0-dim bool tensor, on the reference's device; False where shapes differ or nothing is
        compared.
    """
    device = output_reference.device
    count = output_reference.numel()
    if output_reference.shape != output_kernel.shape or not count:
        return torch.tensor(False, device=device)
    close = torch.zeros((), dtype=torch.int64, device=device)
    for reference, kernel in _blocks(output_reference, output_kernel):
        close += (relative_error(kernel, reference, epsilon) < max_rel_err).sum()
    return close.double() / count > ratio_below_max_err


def cosine_similarity(
    output_reference: torch.Tensor, output_kernel: torch.Tensor, min_sim: float = 0.99985
) -> torch.Tensor:
    """Whether two tensors, each taken as one long vector, point the same way.

    Args:
        output_reference: any shape and real dtype.
        output_kernel: the same shape.
        min_sim: least cosine of the angle between the two.

    Returns:
        A 0-dim bool tensor, on the reference's device; False where shapes differ. Sums are in fp64,
        so that a half-precision tensor of any size is judged by its values. Two vectors of zeros
        have no angle: False.
    """
    device = output_reference.device
    if output_reference.shape != output_kernel.shape:
        return torch.tensor(False, device=device)
    sums = torch.zeros(3, dtype=torch.float64, device=device)
    for reference, kernel in _blocks(output_reference, output_kernel):
        a, b = reference.double(), kernel.double()
        sums += torch.stack([a @ b, a @ a, b @ b])
    dot, own, other = sums
    return torch.ge(dot / (own.sqrt() * other.sqrt()).clamp(min=1e-8), min_sim)


def relative_error(actual: torch.Tensor, expected: torch.Tensor, epsilon: float) -> torch.Tensor:
    """``|actual - expected| / (|expected| + epsilon)``, in fp32 or wider; NaN where one is."""
    dtype = torch.promote_types(computed_in(actual), computed_in(expected))
    a, b = actual.to(dtype), expected.to(dtype)
    return (a - b).abs() / (b.abs() + epsilon)


def computed_in(tensor: torch.Tensor) -> torch.dtype:
    """fp32 or wider; torch does not promote the formats of 8 bits, of which fp32 holds all."""
    if tensor.is_floating_point() and tensor.itemsize == 1:
        return torch.float32
    return torch.promote_types(tensor.dtype, torch.float32)


def greatest(actual: torch.Tensor, expected: torch.Tensor, epsilon: float) -> tuple[float, float]:
    """The greatest absolute and relative difference of two tensors of one shape; NaN if one is."""
    absolute, relative = [], []
    for kernel, reference in _blocks(actual, expected):
        dtype = torch.promote_types(computed_in(kernel), computed_in(reference))
        absolute.append((kernel.to(dtype) - reference.to(dtype)).abs().max().double())
        relative.append(relative_error(kernel, reference, epsilon).max().double())
    # torch's max keeps a NaN, Python's does not.
    return float(torch.stack(absolute).max()), float(torch.stack(relative).max())


def allowed_mismatches(count: int, ratio_below_max_err: float) -> int:
    """How many of ``count`` elements may miss so that more than the ratio do not.

    The document's comparison is strict, so at 0.99 nine of a thousand pass and ten fail. All
    elements right always passes, though one is not more than a ratio of 1.
    """
    missed = min(int((1 - ratio_below_max_err) * count) + 1, count)
    while missed > 0 and not (count - missed) / count > ratio_below_max_err:
        missed -= 1
    return missed


def _blocks(a: torch.Tensor, b: torch.Tensor) -> list[tuple[torch.Tensor, torch.Tensor]]:
    flat_a, flat_b = a.detach().reshape(-1), b.detach().to(a.device).reshape(-1)
    starts = range(0, flat_a.numel(), _BLOCK)
    return [(flat_a[start : start + _BLOCK], flat_b[start : start + _BLOCK]) for start in starts]
