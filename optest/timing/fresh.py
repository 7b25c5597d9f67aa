"""Other values in the same memory: what a kernel that remembers its answers cannot see coming."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import torch

from optest.tensors import bits, storage_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# Not one half, so that outputs which do not depend on the scale still change in their last bits;
# below one, so that nothing overflows. Never twice the same, or a second measurement would meet
# what the first has left in a kernel's memory. Our own generator: torch's state is the caller's.
_LEAST_SCALE, _MOST_SCALE = 0.6, 0.9
_HEAD = 1 << 20
_random = random.Random()  # noqa: S311 - no secret


class FloatInputs:
    """The floating-point tensors among a call's inputs that can be changed in place.

    Their values are scaled by some 3/4 and moved along (all of a small tensor, the first 2^20 of a
    large one; 1-byte formats are only moved): signs, magnitudes and the range stay those of the
    caller's data. Integers stay as they are, since they may be indices, and so does whatever
    shares memory with integers or with an output.

    Attributes:
        complete: whether the last change reached every floating-point input.
    """

    def __init__(self, tensors: Sequence[torch.Tensor], outputs: Iterable[torch.Tensor]) -> None:
        no_inputs = {storage_of(tensor) for tensor in outputs}
        taken = {storage_of(tensor) for tensor in tensors if not _is_float(tensor)}
        floats = [
            t for t in tensors if _is_float(t) and t.numel() and storage_of(t) not in no_inputs
        ]
        writable = [_writable(t) for t in floats if storage_of(t) not in taken]
        self._tensors = [tensor for tensor in writable if tensor is not None]
        self._all = len(self._tensors) == len(floats)
        self.complete = False

    def __len__(self) -> int:
        return len(self._tensors)

    def change(self) -> bool:
        """Give every tensor values it did not have; whether any of them took new ones."""
        with torch.no_grad():
            changed = [self._change(tensor) for tensor in self._tensors]
        self.complete = self._all and all(changed)
        return any(changed)

    def scale(self) -> None:
        """Scale the tensors only: the order of their elements stays, and all that depends on it."""
        with torch.no_grad():
            for tensor in self._tensors:
                _scale(tensor, _some_scale())

    def move(self) -> None:
        """Move the elements along only: their values stay, and all that depends on these."""
        with torch.no_grad():
            for tensor in self._tensors:
                _move(tensor)

    def rewrite(self) -> None:
        """Write every tensor's own values back into it, by what ``change`` does.

        Only then do caches, and the threads that torch keeps ready, meet the next call alike.
        """
        with torch.no_grad():
            for tensor in self._tensors:
                head = bits(_head(tensor))
                old = head.clone()
                head.copy_(torch.roll(old, old.numel()))
                _scale(tensor, 1.0)
                torch.equal(head, old)

    def _change(self, tensor: torch.Tensor) -> bool:
        old = _move(tensor)
        _scale(tensor, _some_scale())
        return not torch.equal(bits(_head(tensor)), old)


def _move(tensor: torch.Tensor) -> torch.Tensor:
    """Move the first elements along; the bits that were there."""
    head = bits(_head(tensor))
    old = head.clone()
    head.copy_(torch.roll(old, _random.randrange(1, max(2, old.numel()))))
    return old


def _scale(tensor: torch.Tensor, factor: float) -> None:
    if tensor.element_size() > 1:
        tensor.mul_(factor)


def _some_scale() -> float:
    return _random.uniform(_LEAST_SCALE, _MOST_SCALE)


def _is_float(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _writable(tensor: torch.Tensor) -> torch.Tensor | None:
    """The tensor without its repetitions, on its storage but outside autograd; None if it overlaps.

    Its version counter is its own: code that watches the caller's tensor for changes, as backward
    does, is not disturbed.
    """
    if tensor.is_conj() or tensor.is_neg():
        return None
    shape = [
        1 if step == 0 else size for size, step in zip(tensor.shape, tensor.stride(), strict=True)
    ]
    view = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    view.set_(tensor.untyped_storage(), tensor.storage_offset(), shape, tensor.stride())
    return None if _overlaps(view) else view


def _overlaps(tensor: torch.Tensor) -> bool:
    """Whether two elements may lie at one address."""
    reach = 0
    for size, step in sorted(zip(tensor.shape, tensor.stride(), strict=True), key=lambda d: d[1]):
        if size > 1:
            if step <= reach:
                return True
            reach += (size - 1) * step
    return False


def _head(tensor: torch.Tensor) -> torch.Tensor:
    """The first elements, about 2^20 of them, as a view."""
    while tensor.numel() > _HEAD:
        widest = max(range(tensor.dim()), key=lambda dim: tensor.shape[dim])
        size = tensor.shape[widest]
        tensor = tensor.narrow(widest, 0, max(1, size * _HEAD // tensor.numel()))
    return tensor
