"""Every test here runs on the instruction set that CSRC_TEST_ISA names, else on the best one."""

from __future__ import annotations

import os

import pytest
import torch

from optest import native

if os.environ.get("CSRC_TEST_ISA"):
    os.environ["OPTEST_ISA"] = os.environ["CSRC_TEST_ISA"]


@pytest.fixture(scope="session", autouse=True)
def _compiler():
    if not native.available():
        pytest.skip(f"no csrc here: {native.why_not()}")


@pytest.fixture(params=["dense", "strided", "transposed", "3d"])
def layout(request):
    """How rows lie in memory; the last dimension is always dense."""
    return request.param


@pytest.fixture
def lay_out():
    return _lay_out


@pytest.fixture
def room_like():
    return _room_like


def _lay_out(values: torch.Tensor, layout: str) -> torch.Tensor:
    """The same [rows, length] values in memory of the given layout.

    ``transposed`` and ``3d`` have shape [a, b, length]: outer dimensions that do not merge.
    """
    rows, length = values.shape
    if layout == "dense":
        return values.clone()
    if layout == "strided":
        room = torch.zeros(rows, length + 5, dtype=values.dtype)
        view = room[:, 3 : 3 + length]
    elif layout == "transposed":
        room = torch.zeros(2, rows // 2, length, dtype=values.dtype)
        view = room.transpose(0, 1)
    else:
        room = torch.zeros(rows // 2, 3, length, dtype=values.dtype)
        view = room[:, :2]
    view.copy_(values.reshape(view.shape))
    return view


def _room_like(values: torch.Tensor, dtype: torch.dtype, layout: str) -> torch.Tensor:
    """Memory for a result of that shape and layout, full of a value that no test expects."""
    filled = torch.full(values.reshape(-1, values.shape[-1]).shape, 77, dtype=torch.uint8)
    if dtype.itemsize == 1:
        return _lay_out(filled, layout).view(dtype)
    return _lay_out(filled.to(dtype), layout)


UNITS = {"none": 0, "vnni": 1, "bf16": 2, "amx": 3}


@pytest.fixture(params=UNITS)
def unit(request, ops):
    """Each unit that this CPU has, of the instruction set that is tested.

    The module has the operators as ``ops``, and in ``LIMIT_UNIT`` the name of the one that limits
    the units of its library.
    """
    limit = getattr(ops, request.module.LIMIT_UNIT)
    if limit(UNITS[request.param]) != UNITS[request.param]:
        limit(UNITS["amx"])
        pytest.skip(f"no {request.param} here, or not for this instruction set")
    yield request.param
    limit(UNITS["amx"])
