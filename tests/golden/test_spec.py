"""TensorSpec: the table of init values, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from optest.golden.spec import TensorSpec

SHAPE = [3, 4]
RAMP = torch.arange(12.0).reshape(3, 4)


def made(init_value, dtype=torch.float32, shape=SHAPE):
    return TensorSpec("x", shape, dtype, init_value=init_value).create_tensor()


@pytest.mark.parametrize(
    ("init", "expected"),
    [
        (None, torch.zeros(3, 4)),
        (2, torch.full((3, 4), 2.0)),
        (4.0, torch.full((3, 4), 4.0)),
        (True, torch.ones(3, 4)),
        (RAMP, RAMP),
        (RAMP.to(torch.int64), RAMP),
        (torch.zeros, torch.zeros(3, 4)),
        (torch.ones, torch.ones(3, 4)),
        (lambda: RAMP * 2, RAMP * 2),
        (lambda: RAMP.numpy().astype(np.int32), RAMP),
        (lambda: [[1, 2, 3, 4]] * 3, torch.tensor([[1.0, 2, 3, 4]] * 3)),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32])
def test_the_table_of_init_values(init, expected, dtype):
    tensor = made(init, dtype)
    assert tensor.dtype == dtype
    assert torch.equal(tensor, expected.to(dtype))


@pytest.mark.parametrize("factory", [torch.randn, torch.rand])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float8_e4m3fn])
def test_noise_is_drawn_in_the_spec_s_shape_and_dtype(factory, dtype):
    torch.manual_seed(0)
    first = made(factory, dtype)
    torch.manual_seed(0)
    assert torch.equal(first.view(torch.uint8), made(factory, dtype).view(torch.uint8))
    assert (first.shape, first.dtype) == (torch.Size(SHAPE), dtype)
    assert first.float().unique().numel() > 4, "constant, not noise"
    assert (first.float() < 0).any() == (factory is torch.randn)


@pytest.mark.parametrize("source", [RAMP, lambda: RAMP, lambda: RAMP.numpy()])
def test_what_the_caller_gave_is_never_aliased(source):
    """A kernel that writes its argument must not change the caller's tensor."""
    before = RAMP.clone()
    made(source).fill_(-1)
    assert torch.equal(RAMP, before)


def test_each_tensor_is_a_new_one_contiguous_and_without_history():
    weight = torch.nn.Parameter(torch.randn(4, 3))
    spec = TensorSpec("x", SHAPE, torch.float32, init_value=weight.t())
    first, second = spec.create_tensor(), spec.create_tensor()
    assert first.is_contiguous()
    assert not first.requires_grad
    assert first.data_ptr() != second.data_ptr()
    assert torch.equal(first, weight.detach().t())


@pytest.mark.parametrize(
    "init",
    [torch.zeros(4, 3), torch.zeros(12), torch.tensor(1.0), lambda: torch.zeros(3, 1), lambda: 7],
)
def test_another_shape_is_refused_with_both(init):
    with pytest.raises(ValueError, match=r"x: init_value has shape .*spec says \(3, 4\)"):
        made(init)


@pytest.mark.parametrize("init", ["zeros", [1.0], object(), {}, lambda: object()])
def test_an_init_value_of_another_kind(init):
    with pytest.raises(TypeError, match="x: Unsupported init_value type"):
        made(init)
    with pytest.raises(ValueError, match="x: Unsupported init_value type"):
        made(init)


@pytest.mark.parametrize(
    ("init", "dtype"),
    [
        (torch.randn, torch.int32),
        (300, torch.int8),
        (-1, torch.uint8),
        (1.5, torch.int32),
        (float("nan"), torch.int64),
        (10**400, torch.float32),
    ],
)
def test_an_init_value_that_the_dtype_cannot_hold(init, dtype):
    with pytest.raises(ValueError, match=f"x: init_value .* makes no {dtype} tensor"):
        made(init, dtype)


def test_a_fault_in_the_user_s_function_keeps_its_type():
    def broken():
        raise RuntimeError("the user's")

    with pytest.raises(RuntimeError, match="the user's"):
        made(broken)


@pytest.mark.parametrize("name", ["", "a b", "1x", "../x", "x.y", None, 3, "lambda"])
def test_names_that_are_no_parameter_s(name):
    with pytest.raises(ValueError, match="spec name"):
        TensorSpec(name, SHAPE, torch.float32)


@pytest.mark.parametrize("shape", [4, "34", [2.0], [-1, 4], [True], None, [[1]]])
def test_shapes_that_are_none(shape):
    with pytest.raises(ValueError, match="x: shape"):
        TensorSpec("x", shape, torch.float32)


@pytest.mark.parametrize("shape", [[], [0], (2, 3), torch.Size([1])])
def test_shapes_of_any_sequence(shape):
    assert TensorSpec("x", shape, torch.float32).create_tensor().shape == torch.Size(shape)


def test_the_caller_s_list_of_sizes_is_not_kept():
    sizes = [2, 3]
    spec = TensorSpec("x", sizes, torch.float32)
    sizes.append(4)
    assert list(spec.shape) == [2, 3]


@pytest.mark.parametrize("dtype", [float, "float32", None, np.float32])
def test_dtypes_that_are_not_torch_s(dtype):
    with pytest.raises(ValueError, match="x: unsupported dtype"):
        TensorSpec("x", SHAPE, dtype)


@pytest.mark.parametrize("resident", [None, False, 0, 3, "stacked"])
def test_resident(resident):
    assert TensorSpec("x", SHAPE, torch.float32, None, resident).resident is resident


@pytest.mark.parametrize(
    ("resident", "words"),
    [(True, "resident=True is ambiguous"), (-1, "resident=-1"), ("card", "'card'"), (1.0, "1.0")],
)
def test_resident_of_another_kind(resident, words):
    with pytest.raises(ValueError, match=words):
        TensorSpec("x", SHAPE, torch.float32, None, resident)


@pytest.mark.parametrize(
    ("direction", "reads", "writes"),
    [("in", True, False), ("out", False, True), ("inout", True, True)],
)
def test_a_direction_is_asked_for_after_it_was_read(direction, reads, writes):
    spec = TensorSpec("x", SHAPE, torch.float32)
    for asked in ("is_input", "is_output"):
        with pytest.raises(RuntimeError, match="x: direction not stamped"):
            getattr(spec, asked)
    spec.direction = direction
    assert (spec.is_input, spec.is_output) == (reads, writes)


def test_a_direction_is_no_argument():
    with pytest.raises(TypeError, match="direction"):
        TensorSpec("x", SHAPE, torch.float32, direction="out")
