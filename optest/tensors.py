"""The tensors that a call can reach, and what was in them: found, remembered, given back."""

from __future__ import annotations

import dataclasses
import functools
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

import torch

_MAX_OBJECTS = 20_000
_MAX_DEPTH = 8
_PLAIN = (str, bytes, int, float, complex, bool, type(None), type, types.ModuleType, torch.dtype)
_T = TypeVar("_T")


def tensors_in(*roots: object) -> list[torch.Tensor]:
    """Every dense tensor reachable from ``roots``, each object once, in the order met.

    Looks into lists, tuples, sets, mappings, dataclasses, modules, instances, partials, bound
    methods, and a function's closure, defaults, and the global tensors its code names.
    """
    found: list[torch.Tensor] = []
    seen: set[int] = set()
    stack: list[tuple[object, int]] = [(root, 0) for root in reversed(roots)]
    keep: list[object] = []  # ids stay unique only while their objects live
    while stack and len(seen) < _MAX_OBJECTS:
        value, depth = stack.pop()
        if isinstance(value, _PLAIN) or id(value) in seen:
            continue
        seen.add(id(value))
        keep.append(value)
        if isinstance(value, torch.Tensor):
            if has_memory(value):
                found.append(value)
        elif depth < _MAX_DEPTH:
            stack.extend((child, depth + 1) for child in reversed(list(_children(value))))
    return found


def has_memory(tensor: torch.Tensor) -> bool:
    """Whether the tensor is dense and its bytes can be read (not sparse, meta, quantised, fake)."""
    return (
        tensor.layout is torch.strided
        and tensor.device.type != "meta"
        and not tensor.is_quantized
        and type(tensor) in (torch.Tensor, torch.nn.Parameter)
    )


def _children(value: object) -> Iterator[object]:
    if isinstance(value, Mapping):
        yield from value.values()
    elif isinstance(value, (list, tuple, set, frozenset)):
        yield from value
    elif isinstance(value, functools.partial):
        yield value.func
        yield from value.args
        yield from value.keywords.values()
    elif isinstance(value, types.MethodType):
        yield value.__self__
        yield value.__func__
    elif isinstance(value, types.BuiltinMethodType):
        yield value.__self__  # the tensor of ``x.add_``; the module of a plain builtin
    elif isinstance(value, types.FunctionType):
        yield from _of_function(value)
    elif hasattr(value, "__dict__") and not callable(getattr(value, "__torch_function__", None)):
        yield from list(vars(value).values())
    for slot in _slots(value):
        yield getattr(value, slot, None)


def _slots(value: object) -> Iterator[str]:
    if type(value).__module__ == "builtins":
        return
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        yield from (slots,) if isinstance(slots, str) else slots


def _of_function(function: types.FunctionType) -> Iterator[object]:
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # a name the enclosing function has not bound yet
            continue
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()
    for name in function.__code__.co_names:
        value = function.__globals__.get(name)
        if isinstance(value, (torch.Tensor, list, tuple, dict)):
            yield value


def _as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor's own elements as a flat uint8 tensor; a view where it is dense, else a copy."""
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8)


def same_bytes(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors of one shape and dtype hold the same bits (NaN equals the same NaN)."""
    return (
        a.shape == b.shape and a.dtype == b.dtype and bool(torch.equal(_as_bytes(a), _as_bytes(b)))
    )


class _Region:
    """The bytes behind one storage, or behind one small view of a large storage."""

    def __init__(self, tensor: torch.Tensor, *, whole: bool) -> None:
        self.tensor = tensor.detach()
        self.live = _storage_bytes(self.tensor) if whole else None
        self.saved = self.live.clone() if self.live is not None else _as_bytes(self.tensor).clone()

    def changed(self) -> bool:
        now = self.live if self.live is not None else _as_bytes(self.tensor)
        return not torch.equal(now, self.saved)

    def restore(self) -> None:
        if self.live is not None:
            self.live.copy_(self.saved)
            return
        like = torch.empty(self.tensor.shape, dtype=self.tensor.dtype, device=self.tensor.device)
        _as_bytes(like).copy_(self.saved)
        self.tensor.copy_(like)


def _storage_bytes(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())


class Snapshot:
    """What a set of tensors held at one moment.

    A storage that its views cover by half or more is kept whole, so that aliases and padding come
    back too; of a larger storage only the views are kept, so a small slice of a large cache costs
    its own size.
    """

    def __init__(self, tensors: Iterable[torch.Tensor]) -> None:
        self.tensors = list(tensors)
        by_storage: dict[tuple[str, int], list[torch.Tensor]] = {}
        for tensor in self.tensors:
            if tensor.numel():
                key = (str(tensor.device), tensor.untyped_storage().data_ptr())
                by_storage.setdefault(key, []).append(tensor)
        self._regions: list[_Region] = []
        for views in by_storage.values():
            total = views[0].untyped_storage().nbytes()
            if 2 * max(view.nbytes for view in views) >= total:
                self._regions.append(_Region(views[0], whole=True))
            else:
                self._regions.extend(_Region(view, whole=False) for view in views)

    @property
    def nbytes(self) -> int:
        """Bytes that the snapshot holds."""
        return sum(region.saved.nbytes for region in self._regions)

    def changed(self) -> list[torch.Tensor]:
        """One tensor for each region whose bytes are no longer those of the snapshot."""
        return [region.tensor for region in self._regions if region.changed()]

    def restore(self, only: Iterable[torch.Tensor] | None = None) -> None:
        """Write the remembered bytes back, for every region or for those of the given tensors."""
        wanted = None if only is None else {id(tensor) for tensor in only}
        with torch.no_grad():
            for region in self._regions:
                if wanted is None or id(region.tensor) in wanted:
                    region.restore()


def replicate(value: _T) -> _T:
    """A copy whose tensors have memory of their own, aliases among them kept.

    Containers and dataclasses are rebuilt; what cannot hold tensors, or be copied, is shared.
    A view copies its own extent, not the whole of a larger storage.
    """
    return _Replica().of(value)  # type: ignore[no-any-return]


class _Replica:
    def __init__(self) -> None:
        self._storages: dict[tuple[str, int], torch.Tensor] = {}
        self._tensors: dict[int, torch.Tensor] = {}

    def of(self, value: Any) -> Any:  # noqa: ANN401 - any argument of a kernel
        if isinstance(value, torch.Tensor):
            return self._tensor(value) if has_memory(value) else value
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*(self.of(item) for item in value))
        if type(value) in (list, tuple, set):
            return type(value)(self.of(item) for item in value)
        if type(value) is dict:
            return {key: self.of(item) for key, item in value.items()}
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = {f.name: self.of(getattr(value, f.name)) for f in dataclasses.fields(value)}
            twin = object.__new__(type(value))
            for name, item in fields.items():
                object.__setattr__(twin, name, item)
            return twin
        return value

    def _tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) not in self._tensors:
            self._tensors[id(tensor)] = self._copy(tensor)
        return self._tensors[id(tensor)]

    def _copy(self, tensor: torch.Tensor) -> torch.Tensor:
        plain = tensor.detach()
        storage = plain.untyped_storage()
        if 2 * plain.nbytes < storage.nbytes():
            return plain.clone().requires_grad_(tensor.requires_grad)
        key = (str(plain.device), storage.data_ptr())
        if key not in self._storages:
            self._storages[key] = _storage_bytes(plain).clone()
        twin = torch.empty(0, dtype=plain.dtype, device=plain.device)
        twin.set_(
            self._storages[key].untyped_storage(),
            plain.storage_offset(),
            plain.shape,
            plain.stride(),
        )
        return twin.requires_grad_(tensor.requires_grad)
