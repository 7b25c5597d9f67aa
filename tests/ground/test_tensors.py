from __future__ import annotations

import dataclasses
import functools
from types import SimpleNamespace
from typing import NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from optest.tensors import Snapshot, replicate, same_bytes, span_bytes, tensors_in

GLOBAL = torch.ones(3)


class Pair(NamedTuple):
    left: torch.Tensor
    right: torch.Tensor


@dataclasses.dataclass(frozen=True)
class Holder:
    tensor: torch.Tensor
    note: str = "n"


class Slotted:
    __slots__ = ("tensor",)

    def __init__(self, tensor):
        self.tensor = tensor


def _closing_over(tensor):
    return lambda: tensor.add_(1)


def _reads_a_global():
    return GLOBAL + 1


@pytest.mark.parametrize(
    "wrap",
    [
        lambda t: [1, "a", (t,)],
        lambda t: {"x": {"y": t}},
        lambda t: {1: [t, t]},
        Holder,
        Slotted,
        lambda t: Pair(t, t),
        lambda t: SimpleNamespace(inner=SimpleNamespace(t=t)),
        lambda t: functools.partial(torch.add, t, other=1),
        _closing_over,
        lambda t: t.add_,
        lambda t: lambda x=t: x,
        lambda t: SimpleNamespace(f=_closing_over(t)),
    ],
)
def test_a_tensor_is_found_once_wherever_it_hides(wrap):
    tensor = torch.zeros(2)
    (found,) = tensors_in(wrap(tensor))
    assert found is tensor


def test_what_it_finds_elsewhere():
    assert tensors_in(_reads_a_global)[0] is GLOBAL
    layer = torch.nn.Linear(2, 2)
    assert {id(p) for p in layer.parameters()} <= {id(t) for t in tensors_in(layer)}
    ring: list[object] = [GLOBAL]
    ring.append(ring)
    assert tensors_in(ring) == [GLOBAL]


def test_what_has_no_memory_of_its_own_is_left_out():
    assert tensors_in(torch.empty(2, device="meta"), torch.eye(2).to_sparse(), 3, None, "x") == []


# A view of a storage: how it was cut, by name.
VIEWS = {
    "all": lambda base: base,
    "a slice of columns": lambda base: base[:, 2:5],
    "transposed": lambda base: base.t(),
    "a slice, transposed": lambda base: base[:, 2:5].t(),
    "every second row": lambda base: base[::2],
    "one element": lambda base: base[3, 4],
    "few rows": lambda base: base[1:2],
    "expanded": lambda base: base[:1, :1].expand(4, 3),
    "expanded rows": lambda base: base[:1].expand(5, 8),
    "windows": lambda base: base.flatten().unfold(0, 4, 2),
    "nothing": lambda base: base[:0],
}
DTYPES = [torch.float32, torch.bfloat16, torch.float8_e4m3fn, torch.int8, torch.bool, torch.int64]


def _base(dtype):
    return (torch.arange(48).reshape(6, 8) % 2).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("view", VIEWS)
def test_a_snapshot_gives_back_what_was_there(view, dtype):
    base = _base(dtype)
    tensor = VIEWS[view](base)
    before = tensor.clone()
    snapshot = Snapshot([tensor])
    assert snapshot.changed() == []
    base.view(torch.uint8).bitwise_xor_(1)
    assert len(snapshot.changed()) == (1 if tensor.numel() else 0)
    snapshot.restore()
    assert snapshot.changed() == []
    assert same_bytes(tensor, before)


def test_a_small_view_costs_its_own_size():
    cache = torch.zeros(1 << 20)
    assert Snapshot([cache[:4]]).nbytes == 16
    assert Snapshot([cache[:4], cache[8:12]]).nbytes == 32


def test_only_the_given_tensors_are_restored():
    first, second = torch.zeros(2), torch.zeros(2)
    snapshot = Snapshot([first, second])
    first.add_(1)
    second.add_(1)
    snapshot.restore([first])
    assert (first.tolist(), second.tolist()) == ([0, 0], [1, 1])


def test_restoring_leaves_neighbours_alone():
    base = torch.zeros(64, dtype=torch.uint8)
    snapshot = Snapshot([base[8:12]])
    base.fill_(1)
    snapshot.restore()
    assert base[8:12].eq(0).all()
    assert int(base.sum()) == 60


def test_of_views_that_overlap_only_those_whose_own_elements_changed_are_named():
    q, k, v = torch.zeros(4, 6).split(2, dim=1)
    snapshot = Snapshot([q, k, v])
    k.add_(1)
    (changed,) = snapshot.changed()
    assert changed is k, "q and v lie between the rows of k"


def test_views_of_several_dtypes_share_one_memory():
    raw = torch.zeros(64, dtype=torch.uint8)
    odd, wide = raw[3:20], raw[4:20].view(torch.float32)
    snapshot, (twin_odd, twin_wide) = Snapshot([odd, wide]), replicate([odd, wide])
    wide.fill_(1.0)
    twin_wide.fill_(1.0)
    assert same_bytes(twin_odd, odd)
    assert len(snapshot.changed()) == 2
    snapshot.restore()
    assert not raw.any()


def test_a_replica_is_aligned_as_its_original_is():
    base = torch.zeros(1000, dtype=torch.uint8)
    for offset in (0, 1, 16, 63, 64, 100):
        tensor = base[offset : offset + 200]
        assert replicate(tensor).data_ptr() % 64 == tensor.data_ptr() % 64


def test_nan_is_the_same_as_itself_and_negative_zero_is_not_zero():
    nan = torch.tensor([float("nan"), 0.0])
    assert same_bytes(nan, nan.clone())
    assert not same_bytes(torch.tensor([0.0]), torch.tensor([-0.0]))
    assert not same_bytes(torch.zeros(2), torch.zeros(1, 2))
    assert not same_bytes(torch.zeros(2), torch.zeros(2, dtype=torch.int32))


@pytest.mark.parametrize("width", [64, 63])
@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_with_gaps_between_them_are_told_by_their_own_bits(dtype, width):
    """Of whole words and of others, beside rows that are and are not dense."""
    wide = torch.zeros(8, 80, dtype=dtype)
    part, size = wide[:, :width], wide.element_size()
    twins = wide.clone()[:, :width], part.contiguous()
    assert all(same_bytes(part, twin) for twin in twins)
    wide.view(torch.uint8)[3, width * size] ^= 1  # behind the row
    assert all(same_bytes(part, twin) for twin in twins)
    wide.view(torch.uint8)[3, width * size - 1] ^= 1
    assert not any(same_bytes(part, twin) for twin in twins)


def test_rows_with_gaps_between_them_are_compared_without_a_copy(monkeypatch):
    monkeypatch.setattr(torch.Tensor, "contiguous", None)
    wide = torch.zeros(4, 16, dtype=torch.bfloat16)
    assert same_bytes(wide[:, :8], wide.clone()[:, :8])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("view", VIEWS)
def test_a_replica_has_the_same_values_and_strides_in_memory_of_its_own(view, dtype):
    base = _base(dtype)
    tensor = VIEWS[view](base)
    twin = replicate(tensor)
    assert same_bytes(twin, tensor)
    assert twin.stride() == tensor.stride(), "a kernel would be timed on another layout"
    base.view(torch.uint8).bitwise_xor_(1)
    assert tensor.numel() == 0 or not same_bytes(twin, tensor)


def test_a_replica_keeps_the_aliases():
    whole = torch.zeros(4, 6)
    q, k, v = whole.split(2, dim=1)
    twin_q, twin_k, twin_whole = replicate((q, k, whole))
    twin_whole.fill_(1)
    assert twin_q.eq(1).all()
    assert twin_k.eq(1).all()
    again, same = replicate([v, v])
    assert again is same
    assert not whole.any()


def test_a_replica_of_a_small_view_does_not_copy_the_large_storage():
    cache = torch.zeros(1 << 20)
    assert replicate(cache[8:12]).untyped_storage().nbytes() < 128
    assert span_bytes([cache[8:12], cache[10:12], cache[100:101]]) == 20


def test_containers_are_rebuilt_and_the_rest_is_shared():
    tensor, other = torch.zeros(2), object()
    value = {"p": Pair(tensor, tensor), "h": Holder(tensor), "l": [other, (tensor,)], "n": 3}
    twin = replicate(value)
    assert type(twin["p"]) is Pair
    assert twin["h"].note == "n"
    assert twin["l"][0] is other
    found = tensors_in(twin)
    assert len(found) == 1
    assert found[0] is not tensor


def test_a_parameter_that_requires_grad_stays_one_that_does():
    twin = replicate(torch.zeros(2, requires_grad=True))
    assert twin.requires_grad
    assert twin.is_leaf


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_strided_view_is_restored_and_replicated(data):
    base = torch.arange(60, dtype=torch.int32)
    rank = data.draw(st.integers(0, 3))
    shape = data.draw(st.lists(st.integers(0, 4), min_size=rank, max_size=rank))
    stride = data.draw(st.lists(st.integers(0, 6), min_size=rank, max_size=rank))
    offset = data.draw(st.integers(0, 5))
    tensor = base.as_strided(shape, stride, offset)
    before = tensor.clone()
    snapshot, twin = Snapshot([tensor]), replicate(tensor)
    assert (twin.shape, twin.stride()) == (tensor.shape, tensor.stride())
    base.neg_().sub_(1)
    assert same_bytes(twin.clone(), before)
    snapshot.restore()
    assert same_bytes(tensor.clone(), before)


GLOBAL_MODULE = torch.nn.Linear(3, 2)
GLOBAL_TENSOR = torch.zeros(7)


def _helper():
    return GLOBAL_TENSOR


def test_globals_that_a_function_names_are_found_also_through_its_neighbours():
    found = tensors_in(lambda x: GLOBAL_MODULE(x) + _helper())
    assert {tuple(tensor.shape) for tensor in found} == {(2, 3), (2,), (7,)}
