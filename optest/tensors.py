"""The tensors that a call can reach, and what was in them: found, remembered, given back."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

import numpy as np
import torch

_WORD = 8
_MAX_OBJECTS = 20_000
_MAX_DEPTH = 8
_PLAIN = (str, bytes, int, float, complex, bool, type(None), type, types.ModuleType, torch.dtype)
_EXACTLY = frozenset(_PLAIN)
_SEQUENCES = (tuple, list)
_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_T = TypeVar("_T")


def tensors_in(*roots: object) -> list[torch.Tensor]:
    """Every dense tensor reachable from ``roots``, each object once, in the order met.

    Looks into lists, tuples, sets, mappings, dataclasses, modules, instances, partials, bound
    methods, and a function's closure, defaults, and the globals its code names: tensors,
    containers, modules, and functions of the same file.
    """
    found: list[torch.Tensor] = []
    seen: set[int] = set()
    stack: list[tuple[object, int]] = [(root, 0) for root in reversed(roots)]
    keep: list[object] = []  # ids stay unique only while their objects live
    while stack and len(seen) < _MAX_OBJECTS:
        value, depth = stack.pop()
        # The exact type first: most values are met so, and it takes a tenth of the time.
        kind = type(value)
        if kind in _EXACTLY or id(value) in seen:
            continue
        if kind is not torch.Tensor and isinstance(value, _PLAIN):
            continue
        seen.add(id(value))
        keep.append(value)
        if isinstance(value, torch.Tensor):
            if has_memory(value):
                found.append(value)
        elif depth < _MAX_DEPTH:
            children: Any = value if kind in _SEQUENCES else list(_children(value))
            stack.extend((child, depth + 1) for child in reversed(children))
    return found


def has_memory(tensor: torch.Tensor) -> bool:
    """Whether the tensor is dense and its bytes can be read (not sparse, meta, quantised, fake)."""
    return (
        type(tensor) in (torch.Tensor, torch.nn.Parameter)
        and tensor.layout is torch.strided
        and not tensor.is_meta
        and not tensor.is_quantized
    )


def storage_of(tensor: torch.Tensor) -> tuple[str, int]:
    """A key that is equal for tensors which share memory."""
    return str(tensor.device), tensor.untyped_storage().data_ptr()


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """The same memory seen as integers: not every operation knows every floating-point format.

    Strides are kept; a complex tensor gets an axis of two. Not for lazily conjugated or negated
    tensors, which are not what their memory holds.
    """
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    return tensor.view(_INTEGERS[tensor.itemsize])


def _children(value: object) -> Iterator[object]:
    if isinstance(value, np.ndarray):
        yield from _of_array(value)
    elif isinstance(value, Mapping):
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
    for name in names_in(function.__code__):
        value = function.__globals__.get(name)
        # Of functions only those of the same file: what a library's know is the library's.
        here = isinstance(value, types.FunctionType) and value.__globals__ is function.__globals__
        here = here or type(value).__module__ == function.__module__
        if here or isinstance(
            value, (torch.Tensor, torch.nn.Module, list, tuple, dict, np.ndarray)
        ):
            yield value


def names_in(code: types.CodeType) -> Iterator[str]:
    """Names that the code uses, those of the lambdas and comprehensions inside it too."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from names_in(constant)


def _of_array(array: np.ndarray[Any, Any]) -> Iterator[torch.Tensor]:
    """The memory of a NumPy array as a tensor; of a read-only one, or of objects, none."""
    if array.flags.writeable and array.dtype.kind in "biufc" and array.dtype.isnative:
        with contextlib.suppress(TypeError, ValueError):  # dtypes and strides that torch lacks
            yield torch.from_numpy(array)


def as_array(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """The memory of a CPU tensor as NumPy's, to be read.

    Not ``tensor.numpy()``, after which the caller's storage can be resized no more.
    """
    return np.from_dlpack(tensor.detach())


def _as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor's own elements as a flat uint8 tensor; a view where it is dense, else a copy."""
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
    dense = tensor.detach().contiguous()
    # Not reshape: a dimension of size 1 or 0 may keep any stride, and view() would refuse it.
    return dense.as_strided((dense.numel(),), (1,)).view(torch.uint8)


def _equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two flat byte tensors are equal; as words where they lie so, four times as fast."""
    words = a.numel() // _WORD * _WORD
    if a.storage_offset() % _WORD or b.storage_offset() % _WORD or a.numel() != b.numel():
        words = 0
    if words and not torch.equal(a[:words].view(torch.int64), b[:words].view(torch.int64)):
        return False
    return words == a.numel() == b.numel() or torch.equal(a[words:], b[words:])


def same_bytes(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors of one shape and dtype hold the same bits (NaN equals the same NaN)."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if not (a.is_contiguous() and b.is_contiguous()):
        rows = _in_words(a), _in_words(b)
        if rows[0] is not None and rows[1] is not None:
            return torch.equal(rows[0], rows[1])
    return _equal(_as_bytes(a), _as_bytes(b))


def _in_words(tensor: torch.Tensor) -> torch.Tensor | None:
    """The tensor eight bytes at a time, as a view; None where its rows do not lie so.

    Of rows with gaps between them a copy, into fresh memory, takes ten times as long as the look.
    """
    if tensor.is_conj() or tensor.is_neg() or tensor.is_complex() or not tensor.ndim:
        return None
    try:
        return tensor.detach().view(torch.int64)
    except RuntimeError:  # torch's, of sizes, strides or an offset that are no whole words
        return None


def differ(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Mask of the elements of two tensors of one shape and dtype that differ in a bit."""
    seen, other = (bits(side.detach().resolve_conj().resolve_neg()) for side in (a, b))
    unequal = seen != other
    return unequal.any(-1) if a.is_complex() else unequal


class _Span:
    """The stretch of one storage, from the first byte to the last, that some tensors lie in."""

    # Allocators align to this; a copy that begins as far behind such a border as its original does
    # is as fast to read, and holds elements of any size where they may lie.
    _ALIGNMENT = 64

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensors = [tensor]
        steps = zip(tensor.shape, tensor.stride(), strict=True)
        last = sum((size - 1) * stride for size, stride in steps)
        self.start = int(tensor.storage_offset()) * tensor.itemsize
        self.end = self.start + (int(last) + 1) * tensor.itemsize if tensor.numel() else self.start

    @property
    def nbytes(self) -> int:
        return self.end - self.start

    @property
    def _lead(self) -> int:
        return self.start % self._ALIGNMENT

    def absorb(self, other: _Span) -> None:
        self.tensors += other.tensors
        self.end = max(self.end, other.end)

    @functools.cached_property
    def memory(self) -> torch.Tensor:
        """The bytes themselves, as a flat uint8 tensor."""
        bare = torch.empty(0, dtype=torch.uint8, device=self.tensors[0].device)
        storage = self.tensors[0].untyped_storage()
        return bare.set_(storage, self.start, (self.nbytes,), (1,))

    def copy(self) -> torch.Tensor:
        """A copy of the bytes, behind as many as the original is away from an aligned place."""
        if self._lead == 0:
            return self.memory.clone()
        size, device = self._lead + self.nbytes, self.memory.device
        copy = torch.empty(size, dtype=torch.uint8, device=device)
        self._bytes_in(copy).copy_(self.memory)
        return copy

    def equals(self, copy: torch.Tensor) -> bool:
        return _equal(self.memory, self._bytes_in(copy))

    def restore(self, copy: torch.Tensor) -> None:
        self.memory.copy_(self._bytes_in(copy))

    def _bytes_in(self, copy: torch.Tensor) -> torch.Tensor:
        return copy[self._lead :] if self._lead else copy

    def place(self, tensor: torch.Tensor, copy: torch.Tensor) -> torch.Tensor:
        """The tensor that lies in ``copy`` where ``tensor`` lies in this span."""
        ahead = int(tensor.storage_offset()) * tensor.itemsize - self.start + self._lead
        bare = torch.empty(0, dtype=tensor.dtype, device=copy.device)
        offset = ahead // tensor.itemsize
        return bare.set_(copy.untyped_storage(), offset, tensor.shape, tensor.stride())


def _spans(tensors: Iterable[torch.Tensor]) -> list[_Span]:
    """Spans of the tensors; those that overlap are one, so that aliases stay aliases."""
    by_storage: dict[tuple[str, int], list[_Span]] = {}
    for tensor in tensors:
        by_storage.setdefault(storage_of(tensor), []).append(_Span(tensor))
    found: list[_Span] = []
    for spans in by_storage.values():
        spans.sort(key=lambda span: span.start)
        found.append(spans[0])
        for span in spans[1:]:
            if span.start < found[-1].end:
                found[-1].absorb(span)
            else:
                found.append(span)
    return found


def span_bytes(tensors: Iterable[torch.Tensor]) -> int:
    """Bytes that a snapshot or a replica of the tensors takes.

    A strided view counts from its first element to its last, for its layout is kept; what several
    tensors share counts once.
    """
    return sum(span.nbytes for span in _spans(tensors))


def _with_tensors_of_now(span: _Span, saved: torch.Tensor) -> torch.Tensor:
    """A copy of the saved bytes in which each tensor of the span holds what it holds now."""
    copy = saved.clone()
    with torch.no_grad():
        for tensor in span.tensors:
            bits(span.place(tensor.detach(), copy)).copy_(bits(tensor.detach()))
    return copy


class Snapshot:
    """What a set of tensors held at one moment.

    The stretch of memory that a tensor lies in is kept as it is, so that aliases, and what lies
    between the rows of a view, come back too. A small slice of a large cache costs its own size.
    """

    def __init__(self, tensors: Iterable[torch.Tensor]) -> None:
        self.tensors = list(tensors)
        spans = _spans(tensor for tensor in self.tensors if tensor.numel())
        self._held = [(span, span.copy()) for span in spans]

    @property
    def nbytes(self) -> int:
        """Bytes that the snapshot holds."""
        return sum(span.nbytes for span, _ in self._held)

    def held(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """What one of the tensors held, as a view of the copy; None of one that is not among them.

        An empty one held nothing and is not among them either.
        """
        for span, saved in self._held:
            if any(tensor is each for each in span.tensors):
                return span.place(tensor, saved)
        return None

    def changed(self) -> list[torch.Tensor]:
        """Those of the tensors whose own elements are no longer, bit for bit, what they were."""
        return [
            tensor
            for span, saved in self._held
            if not span.equals(saved)
            for tensor in span.tensors
            if not same_bytes(tensor, span.place(tensor, saved))
        ]

    def changed_beside(self) -> list[torch.Tensor]:
        """A tensor of each stretch whose bytes changed outside of every tensor that lies in it."""
        return [
            span.tensors[0]
            for span, saved in self._held
            if span.nbytes > sum(tensor.nbytes for tensor in span.tensors)
            and not span.equals(saved)
            and not span.equals(_with_tensors_of_now(span, saved))
        ]

    def restore(self, only: Iterable[torch.Tensor] | None = None) -> None:
        """Write the remembered bytes back: all, or those of the memory that ``only`` lie in."""
        wanted = None if only is None else {id(tensor) for tensor in only}
        with torch.no_grad():
            for span, saved in self._held:
                if wanted is None or any(id(tensor) in wanted for tensor in span.tensors):
                    span.restore(saved)


def replicate(value: _T) -> _T:
    """A copy whose tensors have memory of their own, with the strides and aliases of the originals.

    Containers and dataclasses are rebuilt; what cannot hold tensors, or be copied, is shared.
    A view copies the stretch that it lies in, not the whole of a larger storage.
    """
    return _Replica(value).of(value)  # type: ignore[no-any-return]


class _Replica:
    def __init__(self, value: object) -> None:
        self._spans = {
            id(tensor): span for span in _spans(tensors_in(value)) for tensor in span.tensors
        }
        self._copies: dict[int, torch.Tensor] = {}  # by the span's identity
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
            # One that lies deeper than tensors_in looks has a span of its own.
            span = self._spans.setdefault(id(tensor), _Span(tensor))
            if id(span) not in self._copies:
                self._copies[id(span)] = span.copy()
            twin = span.place(tensor.detach(), self._copies[id(span)])
            self._tensors[id(tensor)] = twin.requires_grad_(tensor.requires_grad)
        return self._tensors[id(tensor)]
