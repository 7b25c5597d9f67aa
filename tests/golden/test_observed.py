"""Directions by observation: kernels that do not say what they do."""

from __future__ import annotations

import pytest
import torch

from optest.errors import UsageError
from optest.golden import observed
from optest.golden.config import Config
from optest.golden.scalar import ScalarSpec
from optest.golden.spec import TensorSpec

N = 32
FLOAT = torch.float32


def blank(name, dtype=FLOAT, shape=(N,)):
    return TensorSpec(name, shape, dtype)


def given(name, init=torch.randn, dtype=FLOAT, shape=(N,)):
    return TensorSpec(name, shape, dtype, init_value=init)


def seen(kernel, *specs, known=None):
    return observed.directions(kernel, specs, Config(), known or {})


def write(x, y):
    y.copy_(x * 2)


def add(x, y):
    y.add_(x)


def write_a_half(x, y):
    y[: N // 2] = x[: N // 2]


def largest(x, y):
    torch.maximum(x, y, out=y)


def write_zeros(x, y):
    y.zero_()


def dropout(x, y):
    y.copy_(torch.nn.functional.dropout(x, 0.5))


def nothing(x, y):
    x.sum()


def write_the_first(x, y):
    y[0] = x.sum()


@pytest.mark.parametrize(
    ("kernel", "y_blank", "y_given"),
    [
        (write, "out", "out"),
        (add, "inout", "inout"),
        (largest, "inout", "inout"),
        (write_zeros, "out", "out"),
        (dropout, "out", "out"),
        (nothing, "in", "in"),
        # What the spec put into the rest belongs to the result; poison does not.
        (write_a_half, "out", "inout"),
        (write_the_first, "out", "inout"),
    ],
)
def test_one_output(kernel, y_blank, y_given):
    assert seen(kernel, given("x"), blank("y")) == {"x": "in", "y": y_blank}
    assert seen(kernel, given("x"), given("y")) == {"x": "in", "y": y_given}


@pytest.mark.parametrize(
    "dtype",
    [
        torch.float64,
        torch.float16,
        torch.bfloat16,
        torch.int8,
        torch.int32,
        torch.int64,
        torch.uint8,
        torch.bool,
        torch.complex64,
        torch.float8_e4m3fn,
        torch.float8_e4m3fnuz,
        torch.float8_e5m2,
        torch.float8_e8m0fnu,
        torch.float4_e2m1fn_x2,
        torch.uint16,
    ],
)
@pytest.mark.parametrize("n", [1, 32, 5000])
def test_every_dtype(dtype, n):
    """A copy, and what reads its own output: a change of one bit where the buffer held another."""

    def copy(x, y):
        observed.bits(y).copy_(observed.bits(x))

    def flip(x, y):
        observed.bits(y).bitwise_xor_(1)

    specs = (TensorSpec("x", [n], dtype), TensorSpec("y", [n], dtype))
    assert seen(copy, *specs)["y"] == "out"
    assert seen(flip, *specs)["y"] == "inout"


def test_an_output_that_follows_from_another_is_not_read():
    """Both results change with the poison of ``acc``, and only ``acc`` is read."""

    def kernel(x, acc, y):
        acc.add_(x)
        y.copy_(acc * 2)

    expected = {"x": "in", "acc": "inout", "y": "out"}
    assert seen(kernel, given("x"), blank("acc"), blank("y")) == expected


def test_what_is_read_and_then_overwritten_is_read():
    def kernel(x, old, y):
        y.copy_(old)
        old.copy_(x)

    expected = {"x": "in", "old": "inout", "y": "out"}
    assert seen(kernel, given("x"), blank("old"), blank("y")) == expected
    assert seen(kernel, given("x"), given("old"), blank("y")) == expected


def test_what_is_copied_from_a_tensor_full_of_poison_is_written():
    """Tensors hold different poison in their later elements, too."""

    def kernel(x, bias, y):
        y[1:] = bias[1:]

    expected = {"x": "in", "bias": "in", "y": "out"}
    assert seen(kernel, given("x"), blank("bias"), blank("y")) == expected


def test_an_input_without_init_value_is_no_output():
    def kernel(x, bias, y):
        y.copy_(x + bias)

    expected = {"x": "in", "bias": "in", "y": "out"}
    assert seen(kernel, given("x"), blank("bias"), blank("y")) == expected


def test_indices_without_init_value_stay_in_range():
    def kernel(x, index, y):
        y.copy_(x[index.long()])

    expected = {"x": "in", "index": "in", "y": "out"}
    assert seen(kernel, given("x"), blank("index", torch.int32), blank("y")) == expected


def test_results_that_never_repeat_count_as_read():
    """Nothing can be told of them, and giving a tensor its initial value harms no kernel."""
    calls = iter(range(1000))

    def kernel(x, y):
        y.fill_(float(next(calls)))

    assert seen(kernel, given("x"), blank("y"))["y"] == "inout"


def test_noise_in_some_elements_does_not_look_like_reading():
    calls = iter(range(1000))

    def kernel(x, y):
        y.copy_(x)
        y[0] = next(calls)

    assert seen(kernel, given("x"), blank("y"))["y"] == "out"


def test_scalars_are_passed_as_numbers():
    def kernel(x, n, y):
        assert type(n) is int
        y.copy_(x * n)

    specs = (given("x"), ScalarSpec("n", torch.int32, 3), blank("y"))
    assert seen(kernel, *specs) == {"x": "in", "y": "out"}


def test_what_is_known_is_not_looked_at_and_the_order_is_the_specs():
    found = seen(add, given("x"), blank("y"), known={"y": "out"})
    assert list(found.items()) == [("x", "in"), ("y", "out")]


def test_nothing_unknown_runs_nothing():
    def kernel(*_):
        raise AssertionError("ran")

    assert seen(kernel, blank("y"), known={"y": "out"}) == {"y": "out"}


def test_a_kernel_that_takes_only_its_own_values():
    def kernel(x, mask, y):
        if bool(mask.any()):
            raise ValueError("mask must be zero")
        y.copy_(x)

    with pytest.raises(UsageError, match=r"fails when mask, y hold other values.*In, Out"):
        seen(kernel, given("x"), blank("mask"), blank("y"))


def test_a_kernel_that_fails_on_everything_fails_later():
    """Its exception belongs to its run, after the golden function's."""

    def kernel(x, y):
        raise ValueError("the user's")

    assert seen(kernel, given("x"), blank("y")) == {"x": "inout", "y": "inout"}


def test_random_numbers_of_the_process_are_left_alone():
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    seen(dropout, given("x"), blank("y"))
    assert torch.equal(torch.rand(3), expected)
