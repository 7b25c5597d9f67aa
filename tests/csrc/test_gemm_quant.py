"""GEMM of 8-bit operands on every unit of the CPU: int8 exact, e4m3 to the rounding of sums."""

from __future__ import annotations

import pytest
import torch

from optest import native

FP8, I8 = torch.float8_e4m3fn, torch.int8
LIMIT_UNIT = "limit_dot_unit"
# Below, at and above tiles of 16 and 32 and blocks of 64 and 128 k; more than one step takes.
SHAPES = [(1, 1, 1), (7, 129, 127), (16, 32, 64), (33, 48, 300), (2, 17, 4100), (290, 40, 5000)]


@pytest.fixture(scope="module")
def ops():
    return native.csrc("gemm_quant")


def codes(*shape, dtype):
    if dtype == I8:
        return torch.randint(-128, 128, shape, dtype=dtype)
    return torch.randn(shape).to(dtype)


def packed(ops, w):
    *batch, n, k = w.shape
    made = torch.full((*batch, -(-n // 16), -(-k // 64) * 1024), 77, dtype=torch.uint8)
    made = made.view(w.dtype)
    ops.pack_w(made, w)
    return made


def assert_sums(got, want, dtype):
    """int8: the rounding of an exact sum and of its two scales; e4m3: of a sum in fp32."""
    atol = 0 if dtype == I8 else 2e-6 * float(want.abs().max().nan_to_num()) + 1e-9
    torch.testing.assert_close(got.double(), want, rtol=2**-22, atol=atol, equal_nan=True)


def by_blocks(x, scale, columns):
    across = scale.double().repeat_interleave(128, 1)[:, : x.shape[1]]
    return x.double() * across.repeat_interleave(columns, 0)[: x.shape[0]]


@pytest.mark.parametrize("dtype", [I8, FP8], ids=str)
@pytest.mark.parametrize("mnk", SHAPES, ids=str)
def test_gemm_a8w8(ops, unit, mnk, dtype):
    """Ragged tiles and depths, a step that does not go on from the one before, strided rows."""
    m, n, k = mnk
    x, w = codes(m, k + 5, dtype=dtype)[:, 3 : k + 3], codes(n, k + 1, dtype=dtype)[:, :k]
    x_scale, w_scale = torch.rand(m, 1), torch.rand(n, 1)
    room = torch.full((m, n + 3), torch.nan)
    ops.gemm_a8w8(room[:, 1 : n + 1], x, packed(ops, w), x_scale, w_scale)
    want = (x.double() @ w.double().t()) * x_scale.double() * w_scale.double().t()
    assert_sums(room[:, 1 : n + 1], want, dtype)
    assert room[:, 0].isnan().all()
    assert room[:, n + 1 :].isnan().all()


@pytest.mark.parametrize("dtype", [I8, FP8], ids=str)
@pytest.mark.parametrize("mnk", SHAPES, ids=str)
def test_gemm_a8w8_blockscale(ops, unit, mnk, dtype):
    """Scales of another block, and totals that begin with what memory held."""
    m, n, k = mnk
    x, w = codes(m, k, dtype=dtype), codes(n, k, dtype=dtype)
    x_scale, w_scale = torch.rand(m, -(-k // 128)), torch.rand(-(-n // 128), -(-k // 128))
    out = torch.full((m, n), torch.nan)
    ops.gemm_a8w8_blockscale(out, x, packed(ops, w), x_scale, w_scale)
    want = by_blocks(x, x_scale, 1) @ by_blocks(w, w_scale, 128).t()
    torch.testing.assert_close(
        out.double(), want, rtol=1e-6, atol=2e-6 * float(want.abs().max()) + 1e-9
    )


@pytest.mark.parametrize("dtype", [I8, FP8], ids=str)
@pytest.mark.parametrize("bmnk", [(3, 5, 40, 70), (40, 1, 33, 130), (2, 270, 40, 5000)], ids=str)
def test_batched_gemm_a8w8(ops, unit, bmnk, dtype):
    """Of transposed views: another batch's operand, scale or place."""
    b, m, n, k = bmnk
    x, w = codes(m, b, k, dtype=dtype).transpose(0, 1), codes(b, n, k, dtype=dtype)
    x_scale, w_scale = torch.rand(b, m, 1), torch.rand(b, n, 1)
    out = torch.full((m, b, n), torch.nan).transpose(0, 1)
    ops.batched_gemm_a8w8(out, x, packed(ops, w), x_scale, w_scale)
    want = torch.bmm(x.double(), w.double().mT) * x_scale.double() * w_scale.double().mT
    assert_sums(out, want, dtype)


def test_the_largest_int8_sums_are_exact(ops, unit):
    """Products in 16 bits, or sums that saturate, lose -128 times -128; fp32 loses the last one."""
    k = 65536 + 64
    x = torch.full((3, k), -128, dtype=I8)
    w = x[:1].repeat(17, 1)
    w[:, 5] = 1
    out = torch.empty(3, 17)
    ops.gemm_a8w8(out, x, packed(ops, w), torch.ones(3), torch.ones(17))
    assert (out == float((k - 1) * 16384 - 128)).all()
    w.fill_(127)
    ops.gemm_a8w8(out, x, packed(ops, w), torch.ones(3), torch.ones(17))
    assert (out == float(-128 * 127 * k)).all()


@pytest.mark.parametrize("side", ["x", "w"])
def test_every_code_of_e4m3(ops, unit, side):
    """Numbers below the normal ones, the sign of each, and the two NaN."""
    every = torch.arange(256, dtype=torch.int32).to(torch.uint8).view(FP8)[:, None]
    one = torch.ones(1, 1).to(FP8)
    x, w = (every, one) if side == "x" else (one, every)
    out = torch.empty(len(x), len(w))
    ops.gemm_a8w8(out, x.contiguous(), packed(ops, w), torch.ones(len(x)), torch.ones(len(w)))
    torch.testing.assert_close(out, x.float() @ w.float().t(), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
def test_results_are_rounded_to_nearest_even(ops, unit, dtype):
    """2^8 + 1 and 2^11 + 1 are ties of bf16 and fp16; truncation gives others."""
    x = torch.arange(-128, 128, dtype=torch.int16).to(I8)[:, None].repeat(1, 2)
    w = torch.tensor([[1, 1], [1, 0], [7, 3], [16, 1], [127, 127]], dtype=I8)
    out = torch.empty(256, 5, dtype=dtype)
    ops.gemm_a8w8(out, x, packed(ops, w), torch.ones(256), torch.ones(5))
    assert torch.equal(out, (x.double() @ w.double().t()).to(dtype))


@pytest.mark.parametrize("mnk", [(0, 5, 7), (3, 0, 5), (3, 5, 0)], ids=str)
def test_empty(ops, unit, mnk):
    m, n, k = mnk
    x, w, out = codes(m, k, dtype=I8), codes(n, k, dtype=I8), torch.full((m, n), 7.0)
    ops.gemm_a8w8(out, x, packed(ops, w), torch.ones(m), torch.ones(n))
    assert out.count_nonzero() == 0


def test_the_order_of_packed_weights(ops):
    """It may be kept in files: panels of 16 rows, blocks of 64 k, four k side by side."""
    w = torch.randint(-128, 128, (20, 70), dtype=I8)
    full = torch.zeros(32, 128, dtype=I8)
    full[:20, :70] = w
    want = full.view(2, 16, 2, 16, 4).permute(0, 2, 3, 1, 4)
    assert torch.equal(packed(ops, w).view(2, 2, 16, 16, 4), want)


X, OUT = torch.zeros(4, 64, dtype=I8), torch.zeros(4, 16)
W, ROWS, COLUMNS = torch.zeros(1, 1024, dtype=I8), torch.ones(4), torch.ones(16)
BAD = {
    "out has dtype": lambda ops: ops.gemm_a8w8(OUT.double(), X, W, ROWS, COLUMNS),
    "x has dtype": lambda ops: ops.gemm_a8w8(OUT, X.float(), W, ROWS, COLUMNS),
    "w has dtype": lambda ops: ops.gemm_a8w8(OUT, X, W.view(FP8), ROWS, COLUMNS),
    r"w has shape \[16, 64\], expected \[1, 1024\]": lambda ops: ops.gemm_a8w8(
        OUT, X, torch.zeros(16, 64, dtype=I8), ROWS, COLUMNS
    ),
    "x has stride 4": lambda ops: ops.gemm_a8w8(
        OUT, torch.zeros(64, 4, dtype=I8).t(), W, ROWS, COLUMNS
    ),
    r"out has shape \[3, 16\]": lambda ops: ops.gemm_a8w8(OUT[:3], X, W, ROWS, COLUMNS),
    r"x_scale has shape \[3\], expected 4": lambda ops: ops.gemm_a8w8(OUT, X, W, ROWS[:3], COLUMNS),
    "w_scale has dtype": lambda ops: ops.gemm_a8w8(OUT, X, W, ROWS, COLUMNS.double()),
    r"w_scale has shape \[16\], expected 1": lambda ops: ops.gemm_a8w8_blockscale(
        OUT, X, W, ROWS, COLUMNS
    ),
    "expected 3 dimensions": lambda ops: ops.batched_gemm_a8w8(OUT, X, W, ROWS, COLUMNS),
    "packed has shape": lambda ops: ops.pack_w(W[:, :512], X),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_arguments_are_named(ops, message):
    with pytest.raises(ValueError, match=message):
        BAD[message](ops)
