"""The outputs of one call of a candidate: what a mutant can be put into."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from optest.cases import declared
from optest.guards import poison
from optest.mutate import names
from optest.mutate.region import region, written
from optest.tensors import storage_of, tensors_in

if TYPE_CHECKING:
    from collections.abc import Iterable

    from optest.cases.case import Declared
    from optest.cases.tamper import Produced
    from optest.mutate.region import Region


@dataclass(frozen=True)
class Output:
    """A tensor that a candidate made.

    Attributes:
        name: what the test calls it, or its place in the result.
        tensor: itself, real; of a complex one the pairs.
        before: the bits that it held before the call; poison in fresh memory.
        may_touch: which elements the call wrote, of its shape.
        view: the tensor as returned, where it is a view of an input: that is not to be changed.
    """

    name: str
    tensor: torch.Tensor
    before: torch.Tensor
    may_touch: torch.Tensor
    view: torch.Tensor | None = None

    @property
    def bits(self) -> torch.Tensor:
        """The memory itself, as integers."""
        return bits_of(self.tensor)

    def region(self, left_out: torch.Tensor | None) -> Region | None:
        """What a mutant may touch, without what no check is meant to look at."""
        return region(self.may_touch if left_out is None else self.may_touch & ~left_out)


def outputs_of(produced: Produced, said: Declared) -> tuple[list[Output], list[str]]:
    """Everything that a call wrote or returned, and in words what cannot be mutated.

    An input that the candidate hands back as it is counts only where there is no other output; a
    view of an input counts where the test declares aliases as well.
    """
    variables = declared.variables()
    found: list[Output] = []
    problems: list[str] = []
    exact = bool(said.unwritten)
    tensors = [(t, produced.before.held(t)) for t in _without_overlaps(produced.written)]
    fresh = list(produced.returned)
    known = {storage_of(t) for t, _ in tensors} | {storage_of(t) for t in fresh}
    handed_back = [t for t in tensors_in(produced.data) if storage_of(t) not in known]
    views = [t for t in handed_back if not _is_among(t, produced.before.tensors)]
    if not known:
        fresh = handed_back
    elif said.aliases:
        fresh += views
    tensors += [(t, None) for t in _without_overlaps(fresh)]
    for tensor, before in tensors:
        if not tensor.numel():
            continue
        name = names.output_name(tensor, produced.data, variables)
        problem = _why_not(tensor)
        if problem:
            problems.append(f"{name}: {problem}")
            continue
        output = _output(name, tensor, before, exact=exact)
        is_view = any(tensor is each for each in views)
        found.append(replace(output, view=tensor) if is_view else output)
    return _numbered(found), problems


def _is_among(tensor: torch.Tensor, given: Iterable[torch.Tensor]) -> bool:
    return any(names.is_same_view(tensor, each) for each in given)


def _numbered(outputs: list[Output]) -> list[Output]:
    """Two outputs of one name would be one row of the report."""
    seen: dict[str, int] = {}
    made = []
    for output in outputs:
        nth = seen[output.name] = seen.get(output.name, 0) + 1
        made.append(replace(output, name=f"{output.name} ({nth})") if nth > 1 else output)
    return made


def _output(name: str, tensor: torch.Tensor, before: torch.Tensor | None, *, exact: bool) -> Output:
    real, held = real_of(tensor), None if before is None else real_of(before)
    bits = bits_of(real)
    if held is None:
        old = torch.empty_like(bits, memory_format=torch.contiguous_format)
        poison.fill(old, poison.FIRST)
        unwritten = poison.holding(real, poison.BUFFERS) if exact else None
        touched = torch.ones_like(bits, dtype=torch.bool) if unwritten is None else ~unwritten
        return Output(name, real, old, touched)
    old = bits_of(held).clone()
    if not exact and _is_poison(held):
        return Output(name, real, old, torch.ones_like(bits, dtype=torch.bool))
    return Output(name, real, old, written(bits != old, exact=exact))


def _is_poison(held: torch.Tensor) -> bool:
    mask = poison.holding(held, poison.BUFFERS)
    return mask is not None and bool(mask.all())


def bits_of(tensor: torch.Tensor) -> torch.Tensor:
    """The memory of a tensor that is not lazily conjugated or negated, as integers."""
    found = poison.bits(tensor)
    assert found is not None
    return found


def real_of(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor itself, or the pairs of a complex one."""
    tensor = tensor.detach()
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def _why_not(tensor: torch.Tensor) -> str:
    if poison.bits(tensor) is None:
        return "a lazily conjugated or negated tensor, whose memory holds other values"
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    if any(size > 1 and stride == 0 for size, stride in pairs):
        return "an expanded tensor, whose elements share memory"
    return ""


def _without_overlaps(tensors: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    """The tensors, largest first where they share memory, without views of what another holds."""
    by_storage: dict[tuple[str, int], list[torch.Tensor]] = {}
    for tensor in tensors:
        by_storage.setdefault(storage_of(tensor), []).append(tensor)
    kept = []
    for group in by_storage.values():
        group.sort(key=torch.Tensor.numel, reverse=True)
        covered: torch.Tensor | None = None
        for tensor in group:
            if len(group) == 1:
                kept.append(tensor)
                continue
            places = places_of(tensor)
            if covered is None:
                covered = torch.zeros(tensor.untyped_storage().nbytes(), dtype=torch.bool)
            if not bool(covered[places].any()):
                kept.append(tensor)
                covered[places] = True
    return kept


def places_of(tensor: torch.Tensor) -> torch.Tensor:
    """Where in its storage each element begins, in bytes, in flat order."""
    offset = torch.full((1,) * max(tensor.dim(), 1), int(tensor.storage_offset()))
    for axis, (size, stride) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
        shape = [1] * tensor.dim()
        shape[axis] = -1
        offset = offset + (torch.arange(size) * stride).reshape(shape)
    return offset.reshape(-1) * tensor.itemsize


def left_out(output: Output, compared: torch.Tensor, mask: torch.Tensor) -> torch.Tensor | None:
    """Elements of ``output`` that a check of ``compared`` leaves out, as its ``mask`` says.

    Found by memory where the test compares the output or a view of it, by shape where it compares
    values that it made of it; None where neither fits, and nothing is left out.
    """
    kept = mask.to("cpu", torch.bool).broadcast_to(compared.shape)
    if compared.is_complex():
        compared = real_of(compared)
        kept = kept.unsqueeze(-1).expand(compared.shape)
    shape = output.tensor.shape
    if storage_of(compared) == storage_of(output.tensor):
        places = torch.zeros(compared.untyped_storage().nbytes(), dtype=torch.bool)
        places[places_of(compared)[~kept.reshape(-1)]] = True
        return places[places_of(output.tensor)].reshape(shape).to(output.tensor.device)
    return ~kept.to(output.tensor.device) if compared.shape == shape else None
