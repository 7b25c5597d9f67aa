"""Paged decode attention, of heads and of latents, against fp64, on every unit of the CPU."""

from __future__ import annotations

import pytest
import torch

from optest import native

DTYPES = (torch.bfloat16, torch.float16, torch.float32)
CODES = (torch.float8_e4m3fn, torch.float8_e4m3fnuz)
# Of a block, of a tile and beside them, of one piece and of several; none at all.
LENGTHS = (1, 0, 16, 17, 31, 32, 33, 700)
# heads, KV heads, size: groups of 1, 4, 5 and 8, vectors that are and are not whole.
HEADS = ((8, 2, 128), (5, 1, 64), (3, 3, 1), (16, 2, 65), (2, 2, 127))
# Of a tile of 16 queries, parts of one, and two together: rows that are read in place or copied.
LARGE_GROUPS = ((9, 1, 128), (32, 2, 33), (80, 2, 64), (49, 1, 95))
LIMIT_UNIT = "limit_attention_dot_unit"


@pytest.fixture(scope="module")
def ops():
    return native.csrc("attention")


def operands(
    lengths, heads, kv_heads, size, dtype, block_size=16, layout="positions_first", cached=None
):
    """q, caches, tables, lengths; what lies behind a context is NaN, its blocks are none."""
    most = max(1, -(-max(lengths, default=0) // block_size))
    blocks = max(1, most * len(lengths))
    order = (0, 1, 2, 3) if layout == "positions_first" else (0, 2, 1, 3)
    shape = [(blocks, block_size, kv_heads, size)[axis] for axis in order]
    cached = cached or dtype
    caches = [torch.full(shape, torch.nan, dtype=cached).permute(order) for _ in "kv"]
    tables = torch.randperm(blocks)[: most * len(lengths)].view(len(lengths), most).int()
    for sequence, length in enumerate(lengths):
        for token in range(length):
            block = tables[sequence, token // block_size]
            for cache in caches:
                cache[block, token % block_size] = torch.randn(kv_heads, size).to(cached)
        tables[sequence, -(-length // block_size) :] = -1
    q = torch.randn(len(lengths), heads, size).to(dtype)
    return q, *caches, tables, torch.tensor(lengths, dtype=torch.int32)


def reference(q, key_cache, value_cache, tables, lengths, scale, k_scale=1.0, v_scale=1.0):
    block_size, group = key_cache.shape[1], q.shape[1] // key_cache.shape[2]
    out = torch.zeros(q.shape, dtype=torch.float64)
    for s, length in enumerate(lengths.tolist()):
        token = torch.arange(length)
        where = tables[s, token // block_size].long(), token % block_size
        keys = (key_cache[where].double() * k_scale).repeat_interleave(group, 1)
        values = (value_cache[where].double() * v_scale).repeat_interleave(group, 1)
        weights = (torch.einsum("hd,thd->ht", q[s].double(), keys) * scale).softmax(-1)
        out[s] = torch.einsum("ht,thd->hd", weights, values)
    return out


def run(ops, inputs, scale=0.2, *of_caches):
    out = torch.full(inputs[0].shape, 77.0, dtype=inputs[0].dtype)
    ops.pa_decode(out, *inputs, scale, *of_caches)
    return out


def assert_rounded(got, want, width=0, scale=0.2, magnitude=None):
    """Within what one rounding to the dtype, after fp32 arithmetic, may change.

    A score is a sum of ``width`` products: fp32 leaves it n * u off relative to the products'
    magnitudes (Higham, Accuracy and Stability of Numerical Algorithms, 3.1), and a weight moves
    by as much as its score does. Queries and keys are of one standard deviation here. Powers that
    are rounded to bf16 move a weighted mean by up to 2 u of the ``magnitude`` of what is summed.
    """
    rtol = 1e-5 + (0 if got.dtype == torch.float32 else 0.51 * torch.finfo(got.dtype).eps)
    scores = 0.5 * torch.finfo(torch.float32).eps * width * scale
    off = got.double() - want
    if magnitude is not None:
        off -= off.clamp(-(2**-7) * magnitude, 2**-7 * magnitude)  # u is 2^-8
    torch.testing.assert_close(want + off, want, rtol=rtol, atol=2e-6 + scores)


def rounded_magnitude(inputs, *scales):
    """Of bf16 queries over codes, whose powers may be rounded; None of others."""
    q, keys, values, *rest = inputs
    if q.dtype != torch.bfloat16 or values.dtype not in CODES:
        return None
    return reference(q, keys, values.float().abs(), *rest, *scales)


@pytest.mark.parametrize("heads", HEADS, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_pa_decode(ops, dtype, heads):
    """Tails of rows, tiles and groups, pieces merged, what lies behind a context."""
    inputs = operands(LENGTHS, *heads, dtype)
    assert_rounded(run(ops, inputs), reference(*inputs, 0.2), heads[2])


@pytest.mark.parametrize("heads", HEADS, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("cached", [None, *CODES], ids=str)
def test_scaled_caches(ops, unit, cached, dtype, heads):
    """A scale left out or the other cache's; codes beside queries that are split another way."""
    inputs = operands(LENGTHS, *heads, dtype, cached=cached)
    want = reference(*inputs, 0.2, 1.7, 0.6)
    magnitude = rounded_magnitude(inputs, 0.2, 1.7, 0.6)
    assert_rounded(run(ops, inputs, 0.2, 1.7, 0.6), want, heads[2], 0.2 * 1.7, magnitude)


@pytest.mark.parametrize("cached", CODES, ids=str)
def test_every_code_is_its_number_as_a_value(ops, cached):
    """One token, whose weight is 1; rows of vectors alone, and one with a rest."""
    for size in (256, 255):
        codes = torch.arange(size, dtype=torch.uint8).view(cached)
        keys = torch.zeros(size).to(cached)
        caches = [each.view(1, 1, 1, size) for each in (keys, codes)]
        tables, lengths = torch.zeros(1, 1).int(), torch.ones(1).int()
        got = run(ops, (torch.ones(1, 1, size), *caches, tables, lengths))
        assert torch.equal(got.isnan().view(-1), codes.float().isnan())
        assert torch.equal(got.nan_to_num().view(-1), codes.float().nan_to_num())


@pytest.mark.parametrize("cached", CODES, ids=str)
@pytest.mark.parametrize("size", [1, 64])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_every_code_is_its_number_as_a_key(ops, dtype, size, cached):
    """Each in a sequence of its own, whose second token has the score zero and the value zero."""
    keys = torch.zeros(256, 2, 1, size).to(cached)
    keys.view(torch.uint8)[:, 0, 0, -1] = torch.arange(256, dtype=torch.uint8)
    values = torch.tensor([1.0, 0.0]).view(1, 2, 1, 1).expand(256, 2, 1, size).to(cached)
    tables, lengths = torch.arange(256).view(256, 1).int(), torch.full((256,), 2).int()
    q = torch.ones(256, 1, size, dtype=dtype)
    got = run(ops, (q, keys, values, tables, lengths), 0.02)[:, 0, 0]
    want = (keys[:, 0, 0, -1].double() * 0.02).sigmoid()
    # One token's power is 1, the other's is rounded to bf16, and so is the result: u is 2^-8.
    rtol = 1e-5 if dtype == torch.float32 else 2 * 2**-8
    torch.testing.assert_close(got.double(), want, rtol=rtol, atol=0, equal_nan=True)


@pytest.mark.parametrize("heads", LARGE_GROUPS, ids=str)
def test_large_groups_over_codes(ops, unit, heads):
    """Tiles of AMX do not take them: they are not read as bf16 there."""
    inputs = operands(LENGTHS, *heads, torch.bfloat16, cached=CODES[0])
    want = reference(*inputs, 0.2, 1.7, 0.6)
    magnitude = rounded_magnitude(inputs, 0.2, 1.7, 0.6)
    assert_rounded(run(ops, inputs, 0.2, 1.7, 0.6), want, heads[2], 0.2 * 1.7, magnitude)


@pytest.mark.parametrize("heads", LARGE_GROUPS, ids=str)
def test_large_groups(ops, unit, heads):
    """Powers rounded to bf16, queries of another tile, tokens that only fill one up."""
    inputs = operands(LENGTHS, *heads, torch.bfloat16)
    assert_rounded(run(ops, inputs), reference(*inputs, 0.2), heads[2])


@pytest.mark.parametrize("block_size", [1, 3, 8, 64])
def test_large_groups_of_scattered_tokens(ops, unit, block_size):
    """Keys of a tile that do not lie evenly, of both layouts."""
    for layout in ("positions_first", "heads_first"):
        inputs = operands((1, 64, 65, 130), 24, 2, 32, torch.bfloat16, block_size, layout)
        assert_rounded(run(ops, inputs), reference(*inputs, 0.2))


def test_large_groups_of_strided_queries(ops, unit):
    _, *rest = operands((5, 40), 20, 2, 64, torch.bfloat16)
    q = torch.randn(2, 24, 70).bfloat16()[:, 2:22, 3:67]
    out = torch.full((2, 22, 64), 77.0).bfloat16()
    ops.pa_decode(out[:, 1:21], q, *rest, 0.2)
    assert_rounded(out[:, 1:21], reference(q, *rest, 0.2))
    assert (out[:, ::21] == 77).all()


def test_infinite_values_of_a_large_group_are_no_nan(ops, unit):
    """The parts of a power: one that is zero, or below, makes a NaN of an infinity."""
    q, keys, values, *rest = operands((40,), 36, 1, 64, torch.bfloat16)
    where = rest[0][0, 1], 5
    values[where][0, :3] = torch.tensor([torch.inf, -torch.inf, torch.nan])
    got = run(ops, (q, keys, values, *rest))[0]
    assert (got[:, 0] == torch.inf).all()
    assert (got[:, 1] == -torch.inf).all()
    assert got[:, 2].isnan().all()
    assert got[:, 3:].isfinite().all()


def test_nan_of_a_query_or_a_key_of_a_large_group_stays_there(ops, unit):
    q, keys, *rest = operands((40, 40), 36, 2, 64, torch.bfloat16)
    q[1, 3, 5] = torch.nan
    keys[rest[1][0, 1], 3, 1] = torch.nan
    found = run(ops, (q, keys, *rest)).isnan().all(-1)
    want = torch.zeros(2, 36, dtype=torch.bool)
    want[0, 18:], want[1, 3] = True, True
    assert torch.equal(found, want)
    assert torch.equal(run(ops, (q, keys, *rest)).isnan().any(-1), want)


def test_scores_of_a_large_group_far_apart(ops, unit):
    """One token takes all, in a later tile and a later piece than the first."""
    inputs = operands((600,), 36, 1, 32, torch.bfloat16)
    q, keys, _, tables, _ = inputs
    q.fill_(30.0)
    keys[tables[0, 10], 5] = 20.0
    keys[tables[0, 30], 5] = 30.0
    assert_rounded(run(ops, inputs, 1.0), reference(*inputs, 1.0))


@pytest.mark.parametrize("layout", ["positions_first", "heads_first"])
@pytest.mark.parametrize("block_size", [1, 3, 64])
@pytest.mark.parametrize("cached", [None, CODES[0]], ids=str)
def test_layouts_of_the_cache(ops, cached, block_size, layout):
    inputs = operands((1, 64, 65, 130), 8, 2, 32, torch.bfloat16, block_size, layout, cached)
    magnitude = rounded_magnitude(inputs, 0.2)
    assert_rounded(run(ops, inputs), reference(*inputs, 0.2), magnitude=magnitude)


def test_strided_queries_and_result(ops):
    """Queries are a slice of the fused projection; the result, of the next one's input."""
    _, *rest = operands((5, 40), 4, 2, 64, torch.bfloat16)
    q = torch.randn(2, 8, 70).bfloat16()[:, 2:6, 3:67]
    out = torch.full((2, 6, 64), 77.0).bfloat16()
    ops.pa_decode(out[:, 1:5], q, *rest, 0.2)
    assert_rounded(out[:, 1:5], reference(q, *rest, 0.2))
    assert (out[:, ::5] == 77).all()


def test_scores_far_apart(ops):
    """One token takes all, in a later piece than the first: earlier sums must vanish, not grow."""
    inputs = operands((600,), 4, 1, 32, torch.float32)
    q, keys, _, tables, _ = inputs
    q.fill_(30.0)
    keys[tables[0, 30], 5] = 30.0
    assert_rounded(run(ops, inputs, 1.0), reference(*inputs, 1.0))


def test_large_scores_of_one_sign(ops):
    """Without the largest taken out, powers overflow, or all of them vanish."""
    for sign in (1, -1):
        inputs = operands((50,), 4, 1, 32, torch.float32)
        inputs[0].fill_(sign * 100.0)
        inputs[1].nan_to_num_().abs_()
        assert_rounded(run(ops, inputs, 1.0), reference(*inputs, 1.0))


def test_nan_stays_in_its_head_and_sequence(ops):
    inputs = operands((40, 40), 4, 2, 32, torch.bfloat16)
    inputs[1][inputs[3][0, 1], 3, 1] = torch.nan
    found = run(ops, inputs).isnan()
    assert found[0, 2:].all()
    assert not found[0, :2].any()
    assert not found[1].any()


@pytest.mark.parametrize("heads", [(0, 2, 8), (0, 0, 8), (4, 2, 0)], ids=str)
def test_empty(ops, heads):
    run(ops, operands((3, 5), *heads, torch.bfloat16))
    assert run(ops, operands((), 4, 2, 8, torch.bfloat16)).shape == (0, 4, 8)


GOOD = operands((20, 5), 4, 2, 8, torch.bfloat16)
Q, K, V, B, L = range(5)
BAD = {
    "q has dtype Double": {Q: GOOD[Q].double()},
    "key_cache has dtype Float, expected BFloat16 as q has, Float8_e4m3fn or": {K: GOOD[K].float()},
    "value_cache has dtype Half, expected BFloat16": {V: GOOD[V].half()},
    "value_cache has dtype BFloat16, expected Float8_e4m3fn": {K: GOOD[K].to(CODES[0])},
    "value_cache has dtype Float8_e4m3fn, expected BFloat16": {V: GOOD[V].to(CODES[0])},
    r"value_cache has shape \[4, 16, 1, 8\]": {V: GOOD[V][:, :, :1]},
    r"key_cache has shape \[4, 16, 2, 7\], expected \[.*, 8\]": {
        K: GOOD[K][..., :7],
        V: GOOD[V][..., :7],
    },
    "q has 3 heads, expected a multiple of the 2": {Q: GOOD[Q][:, :3]},
    "block_tables has dtype Long": {B: GOOD[B].long()},
    r"block_tables has shape \[1, 2\]": {B: GOOD[B][:1]},
    r"context_lens has shape \[3\]": {L: torch.ones(3).int()},
    r"context_lens\[1\] is 33, expected 0 to 32": {L: torch.tensor([1, 33]).int()},
    r"block_tables\[0, 1\] is 4, expected 0 to 3": {B: torch.tensor([[0, 4], [1, 2]]).int()},
    "key_cache has stride 2 in its last": {K: torch.zeros(4, 16, 2, 16).bfloat16()[..., ::2]},
}


@pytest.mark.parametrize("message", BAD)
def test_bad_arguments_are_named(ops, message):
    inputs = [BAD[message].get(at, given) for at, given in enumerate(GOOD)]
    with pytest.raises(ValueError, match=message):
        ops.pa_decode(torch.empty_like(inputs[Q]), *inputs, 1.0)


# heads, rank, rope: DeepSeek-V3's row for two heads; groups and vectors that are not whole.
LATENTS = ((2, 512, 64), (13, 40, 24), (9, 1, 0), (1, 33, 5), (72, 96, 32))


def latent_operands(lengths, heads, rank, rope, dtype, block_size=16):
    """As ``operands``, of one cache without heads, which is key and, cut to rank, value."""
    q, cache, _, *rest = operands(lengths, heads, 1, rank + rope, dtype, block_size)
    return q, cache[:, :, 0], *rest


def latent_run(ops, inputs, rank, scale=0.2):
    out = torch.full((*inputs[0].shape[:2], rank), 77.0, dtype=inputs[0].dtype)
    ops.mla_decode(out, *inputs, scale)
    return out


def latent_reference(q, cache, tables, lengths, rank, scale=0.2):
    cache = cache.unsqueeze(2)
    return reference(q, cache, cache, tables, lengths, scale)[..., :rank]


@pytest.mark.parametrize("latent", LATENTS, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_mla_decode(ops, unit, dtype, latent):
    """Values of the rotary part, scores without it, rows of sums as wide as the queries."""
    inputs = latent_operands(LENGTHS, *latent, dtype)
    want = latent_reference(*inputs, latent[1])
    assert_rounded(latent_run(ops, inputs, latent[1]), want, latent[1] + latent[2])


def test_mla_decode_of_strided_views(ops):
    """A cache whose blocks have room behind them; the result is a part of a wider one."""
    q, cache, *rest = latent_operands((5, 40), 3, 32, 8, torch.bfloat16)
    room = torch.full((len(cache), 20, 44), torch.nan).bfloat16()
    room[:, 2:18, 3:43] = cache
    out = torch.full((2, 5, 40), 77.0).bfloat16()
    ops.mla_decode(out[:, 1:4, 5:37], q, room[:, 2:18, 3:43], *rest, 0.2)
    assert_rounded(out[:, 1:4, 5:37], latent_reference(q, cache, *rest, 32))
    assert (out[:, ::4] == 77).all()


def test_mla_decode_of_nothing(ops):
    assert latent_run(ops, latent_operands((), 4, 8, 4, torch.bfloat16), 8).shape == (0, 4, 8)
    latent_run(ops, latent_operands((3,), 0, 8, 4, torch.bfloat16), 8)
    latent_run(ops, latent_operands((3,), 4, 0, 4, torch.bfloat16), 0)


def test_a_latent_cache_of_codes_is_refused(ops):
    q, cache, *rest = latent_operands((20, 5), 4, 8, 4, torch.bfloat16)
    with pytest.raises(ValueError, match="cache has dtype Float8_e4m3fn, expected BFloat16"):
        latent_run(ops, (q, cache.to(CODES[0]), *rest), 8)


@pytest.mark.parametrize(
    ("shape", "cached", "message"),
    [
        ((2, 4, 13), (4, 16, 12), r"out has shape \[2, 4, 13\].* at most 12"),
        ((2, 3, 8), (4, 16, 12), r"out has shape \[2, 3, 8\], expected \[2, 4, rank\]"),
        ((2, 4, 8), (4, 16, 1, 12), r"cache has shape .*, expected \[blocks, block_size, 12\]"),
        ((2, 4, 8), (4, 16, 11), r"cache has shape .*, expected \[blocks, block_size, 12\]"),
    ],
)
def test_bad_latents_are_named(ops, shape, cached, message):
    q, _, *rest = latent_operands((20, 5), 4, 8, 4, torch.bfloat16)
    out, cache = torch.empty(shape).bfloat16(), torch.zeros(cached).bfloat16()
    with pytest.raises(ValueError, match=message):
        ops.mla_decode(out, q, cache, *rest, 1.0)
