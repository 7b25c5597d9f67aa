"""What op tests measure and show: candidates, columns, rates, tables, operands."""

from __future__ import annotations

import functools
import inspect
import re

import pytest
import torch
from op_scripts import NAMES, load

from optest import native
from optest.cases.benchmark import is_benchmark

needs_csrc = pytest.mark.skipif(not native.available(), reason=str(native.why_not()))


class Watched:
    """An op test whose timing, checks, reference and tables are looked at."""

    def __init__(self, name, scripts, dtype="bf16"):
        self.module, self.events, self.tables = load(name), [], []
        self.timing = False
        for seam in ("run_perftest", "checkAllclose", "run_torch", "summarize"):
            watched = functools.partial(getattr(self, f"_{seam}"), getattr(self.module, seam))
            scripts.monkeypatch.setattr(self.module, seam, watched)
        smoke = [dtype if word == "bf16" else word for word in self.module.SMOKE]
        scripts.main(name, *smoke, module=self.module)

    def _run_perftest(self, real, *args):
        self.events.append("timed")
        self.timing = True
        data, _ = real(*args)
        self.timing = False
        return data, 2.0

    def _checkAllclose(self, real, *args, **options):
        self.events.append("checked")
        return real(*args, **options)

    def _run_torch(self, real, *args, **options):
        self.events.append("reference timed" if self.timing else "reference")
        return real(*args, **options)

    def _summarize(self, real, name, rows):
        self.tables.append(rows)
        return real(name, rows)

    @property
    def rows(self):
        return [row for rows in self.tables for row in rows]


def candidates_of(row):
    return [column.removesuffix(" us") for column in row if column.endswith(" us")]


@needs_csrc
@pytest.mark.parametrize("name", NAMES)
def test_columns_are_the_parameters_the_card_and_four_for_each_candidate(name, scripts):
    """No ratios, and no reference among the candidates."""
    watched = Watched(name, scripts)
    assert watched.rows
    for row in watched.rows:
        function = getattr(watched.module, row.function)
        assert row.arguments == tuple(inspect.signature(function).parameters)
        kinds = ("us", "TFLOPS", "TB/s", "err")
        four = [f"{each} {kind}" for each in candidates_of(row) for kind in kinds]
        assert list(row) == [*row.arguments, "gfx", *four]
        assert row["gfx"] == "cpu"
        assert candidates_of(row)
        assert not {"torch", "ref", "reference"} & set(candidates_of(row))


@needs_csrc
@pytest.mark.parametrize("name", NAMES)
def test_every_candidate_is_timed_and_checked_and_the_reference_is_not_timed(name, scripts):
    watched = Watched(name, scripts)
    assert "reference timed" not in watched.events
    assert watched.events.count("reference") == len(watched.rows)
    order = "".join(event[0] for event in watched.events)  # t, c, r
    assert re.fullmatch(r"(r(tc+)+)+", order)
    assert order.count("t") == sum(len(candidates_of(row)) for row in watched.rows)


# Not run here: tests/ops/test_cards.py has them.
BETWEEN_CARDS = {"test_all_reduce_cards"}


@needs_csrc
@pytest.mark.parametrize("name", NAMES)
def test_each_test_function_has_one_table(name, scripts):
    watched = Watched(name, scripts)
    functions = [{row.function for row in rows} for rows in watched.tables]
    assert all(len(each) == 1 for each in functions)
    made = [name for name, value in vars(watched.module).items() if is_benchmark(value)]
    assert sorted(set(made) - BETWEEN_CARDS) == sorted(name for each in functions for name in each)


# Operations and bytes of one case, by hand, from the row's own parameters.
WORK = {
    "test_gemm": lambda m, n, k, **_: (2 * m * n * k, m * k + n * k + m * n, 0),
    "test_batched_gemm": lambda b, m, n, k, **_: (
        2 * b * m * n * k,
        b * (m * k + n * k + m * n),
        0,
    ),
    "test_act_and_mul": lambda m, d, act, **_: (
        {"silu": 4, "gelu": 6, "gelu_tanh": 10}[act] * m * d,
        3 * m * d,
        0,
    ),
    "test_rmsnorm2d": lambda m, n, **_: (4 * m * n, 2 * m * n + n, 0),
    "test_fused_add_rmsnorm2d": lambda m, n, **_: (5 * m * n, 4 * m * n + n, 0),
    # Of 16 tokens 2 are padding; a slot takes 8 bytes.
    "test_reshape_and_cache": lambda tokens, heads, head_size, **_: (
        0,
        4 * (tokens - tokens // 8) * heads * head_size,
        8 * tokens,
    ),
    "test_quant": lambda m, k, q_type, **_: (
        (3 if q_type.startswith("static") else 5) * m * k,
        m * k,
        m * k + 4 * {"per_Token": m, "per_1x128": m * -(-k // 128)}.get(q_type, 1),
    ),
}
WORK["test_weight_quant"] = lambda n, k, q_type, **_: WORK["test_quant"](n, k, q_type)


BY_HAND = "activation batched_gemm_bf16 gemm_a16w16 kvcache quant rmsnorm2d".split()
OTHERS = [name for name in NAMES if name.removeprefix("test_") not in BY_HAND]


@needs_csrc
@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
@pytest.mark.parametrize("name", [f"test_{name}" for name in BY_HAND])
def test_rates_are_the_work_of_the_operator_by_the_time(name, dtype, scripts):
    """From the same us, at the width of the tensors: fp32 moves twice what bf16 does."""
    for row in Watched(name, scripts, dtype).rows:
        flops, elements, nbytes = WORK[row.function](**{k: row[k] for k in row.arguments})
        nbytes += elements * {"bf16": 2, "fp32": 4}[dtype]
        for each in candidates_of(row):
            assert row[f"{each} TFLOPS"] == pytest.approx(flops / 2e-6 / 1e12)
            assert row[f"{each} TB/s"] == pytest.approx(nbytes / 2e-6 / 1e12)


@needs_csrc
@pytest.mark.parametrize(
    "name", [name for name in NAMES if name.removeprefix("test_") not in BY_HAND]
)
def test_rates_are_one_amount_of_work_for_all_candidates(name, scripts):
    """How much it is, tests/aiter_ref holds against a count; here all are timed alike."""
    for row in Watched(name, scripts).rows:
        for kind in ("TFLOPS", "TB/s"):
            rates = {row[f"{each} {kind}"] for each in candidates_of(row)}
            assert len(rates) == 1
            assert min(rates) >= 0


def test_a_candidate_whose_kernel_is_not_here_is_left_out_alone(scripts):
    scripts.monkeypatch.setenv("OPTEST_NATIVE", "off")
    rows = Watched("test_kvcache", scripts).rows
    assert [candidates_of(row) for row in rows] == [["torch_index_copy"]]
    assert scripts.session.failures == []


def test_operands_of_the_models_layout_are_views_and_so_is_the_output():
    """x [b, m, k] lies in memory as [m, b, k], y as [m, b, n]: one without the other is wrong."""
    module = load("test_batched_gemm_bf16")
    x, _, empty_y = module.operands(3, 5, 7, 11, torch.bfloat16, "mbn")
    for tensor, shape in ((x, (3, 5, 11)), (empty_y(), (3, 5, 7))):
        assert tuple(tensor.shape) == shape
        assert not tensor.is_contiguous()
        assert tensor.transpose(0, 1).is_contiguous()
    x, _, empty_y = module.operands(3, 5, 7, 11, torch.bfloat16, "bmn")
    assert x.is_contiguous()
    assert empty_y().is_contiguous()


@pytest.mark.parametrize(("layout", "out"), [("bmn", "->gsr"), ("mbn", "->sgr")])
def test_einsum_makes_the_layout_by_its_subscripts(layout, out, scripts):
    """From the model's own operand: a transposition afterwards would be timed with it."""
    asked, right = [], torch.einsum
    spy = lambda words, *operands: asked.append((words, operands)) or right(words, *operands)
    scripts.monkeypatch.setattr(torch, "einsum", spy)
    module = load("test_batched_gemm_bf16")
    scripts.main("test_batched_gemm_bf16", *module.SMOKE, "--layout", layout, module=module)
    assert asked
    assert all(words.endswith(out) for words, _ in asked)
    assert all(operand.is_contiguous() for _, operands in asked for operand in operands)
