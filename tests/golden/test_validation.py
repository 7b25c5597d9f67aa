"""``validate_golden``: which outputs are held against what, and what is said of them.

Faults these would catch: an output skipped, a comparator called with the sides swapped or without
what it may look at, a comparator that judges nothing, a shape broadcast.
"""

from __future__ import annotations

import pytest
import torch

from optest.golden import validation
from optest.golden.validation import (
    error_distribution,
    mapped_pool_ratio_allclose,
    ratio_allclose,
    topk_pair_compare,
    validate_golden,
)


def t(*values, dtype=torch.float32):
    return torch.tensor(values, dtype=dtype)


def words_of(*args, **options):
    """The text of the failure."""
    with pytest.raises(AssertionError, match="does not match golden") as error:
        validate_golden(*args, **options)
    return str(error.value)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
def test_equal_outputs_pass(dtype):
    x = t(1, 0, 3, dtype=torch.int8).to(dtype)
    assert validate_golden({"x": x, "y": x[:2]}, {"x": x.clone(), "y": x[:2].clone()}) is None


@pytest.mark.parametrize(
    ("actual", "expected", "rtol", "atol", "passes"),
    [
        (1.09, 1.0, 0, 0.1, True),
        (1.11, 1.0, 0, 0.1, False),
        (1.001, 1.0, 1e-2, 0, True),
        (1.1, 1.0, 1e-5, 1e-5, False),
        (float("nan"), float("nan"), 1e-5, 1e-5, False),
        (float("inf"), float("inf"), 1e-5, 1e-5, True),
        (float("-inf"), float("inf"), 1e-5, 1e-5, False),
    ],
)
def test_the_default_rule_is_that_of_allclose(actual, expected, rtol, atol, passes):
    pair = {"out": t(actual)}, {"out": t(expected)}
    assert torch.allclose(t(actual), t(expected), rtol, atol) is passes
    if passes:
        validate_golden(*pair, rtol, atol)
    else:
        words_of(*pair, rtol, atol)


def test_a_failure_tells_counts_bounds_and_values():
    words = words_of({"out": t(1.0, 2.0, 3.0, 4.0)}, {"out": t(1.0, 200.0, 3.0, 400.0)})
    assert "Output(s) does not match golden: ['out']" in words
    assert "Mismatched elements: 2/4  rtol=1e-05 atol=1e-05" in words
    assert "actual=2 expected=200" in words


def test_at_most_twenty_mismatches_are_listed():
    words = words_of({"out": torch.zeros(100)}, {"out": torch.ones(100)})
    assert words.count("actual=") == 20
    assert "100/100" in words


def test_all_outputs_are_held_and_all_that_differ_are_named():
    outputs = {"a": t(1.0), "b": t(2.0), "c": t(3.0)}
    words = words_of(outputs, {"a": t(1.0), "b": t(9.0), "c": t(8.0)})
    assert "['b', 'c']" in words


def test_a_line_is_printed_for_each_output(capsys):
    outputs = {"a": t(1.0), "b": t(2.0)}
    words_of(outputs, {"a": t(1.0), "b": t(9.0)}, compare_fn={"a": ratio_allclose()})
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("[RUN]   'a' PASS  shape=(1,) dtype=torch.float32 (ratio_allclose(")
    assert lines[1] == "[RUN]   'b' FAIL  shape=(1,) dtype=torch.float32"


def test_a_missing_golden_is_a_key_error():
    with pytest.raises(KeyError, match="missing"):
        validate_golden({"missing": t(1.0)}, {"other": t(1.0)})


@pytest.mark.parametrize("shape", [(3,), (1, 3), (1,), (0,)])
def test_shapes_are_never_broadcast(shape):
    if shape == (3,):
        validate_golden({"x": torch.ones(3)}, {"x": torch.ones(3)})
    else:
        assert "shapes differ" in words_of({"x": torch.ones(3)}, {"x": torch.ones(shape)})


@pytest.mark.parametrize("value", [10**6, 2**24, 2**40])
def test_integers_are_compared_exactly(value):
    """rtol=1e-5 of a million is ten."""
    words_of({"x": t(value + 1, dtype=torch.int64)}, {"x": t(value, dtype=torch.int64)})
    validate_golden({"x": t(5, dtype=torch.int8)}, {"x": t(4, dtype=torch.int8)}, atol=1)


class TestComparators:
    def test_one_judges_in_place_of_the_rule(self):
        outputs, golden = {"a": t(1.0), "b": t(1.0)}, {"a": t(5.0), "b": t(5.0)}

        def passes(actual, expected, **_):
            return True, ""

        validate_golden(outputs, golden, compare_fn={"a": passes, "b": passes})
        assert "['b']" in words_of(outputs, golden, compare_fn={"a": passes})

    def test_its_words_are_in_the_failure(self):
        def fails(actual, expected, **_):
            return False, "    worn out"

        words = words_of({"a": t(1.0)}, {"a": t(1.0)}, compare_fn={"a": fails})
        assert "worn out" in words
        assert "fails" in words

    def test_it_is_given_all_there_is(self):
        seen = {}

        def look(actual, expected, *, actual_outputs, expected_outputs, inputs, rtol, atol):
            seen.update(locals())
            return True, ""

        validate_golden(
            {"a": t(1.0), "b": t(2.0)},
            {"a": t(7.0), "b": t(2.0)},
            rtol=1e-2,
            atol=1e-3,
            compare_fn={"a": look},
            inputs={"x": t(0.0), "n": 3},
        )
        assert float(seen["actual"]) == 1.0
        assert float(seen["expected"]) == 7.0
        assert set(seen["actual_outputs"]) == set(seen["expected_outputs"]) == {"a", "b"}
        assert seen["inputs"]["n"] == 3
        assert (seen["rtol"], seen["atol"]) == (1e-2, 1e-3)

    def test_one_that_asserts_fails_the_output(self):
        def asserts(actual, expected, **_):
            raise AssertionError("not so")

        assert "not so" in words_of({"a": t(1.0)}, {"a": t(1.0)}, compare_fn={"a": asserts})

    @pytest.mark.parametrize("answer", [None, True, (True,), ("yes", ""), (True, None)])
    def test_one_that_answers_something_else_is_a_type_error(self, answer):
        with pytest.raises(TypeError, match="expected"):
            validate_golden({"a": t(1.0)}, {"a": t(1.0)}, compare_fn={"a": lambda *_, **__: answer})

    def test_one_for_no_output_is_an_error(self):
        with pytest.raises(ValueError, match=r"compare_fn names \['typo'\]: expected .*'a'"):
            validate_golden({"a": t(1.0)}, {"a": t(1.0)}, compare_fn={"typo": ratio_allclose()})

    def test_a_pair_of_indices_and_values(self):
        idx, vals = t([1, 0, 2], dtype=torch.int32), t([3.0, 3.0, 1.0])
        golden = {"idx": t([0, 1, 2], dtype=torch.int32), "vals": vals.clone()}
        compare = {"idx": topk_pair_compare("vals")}
        validate_golden({"idx": idx, "vals": vals}, golden, compare_fn=compare)
        words_of({"idx": idx + 5, "vals": vals}, golden, compare_fn=compare)

    def test_a_pool_finds_its_mapping_among_the_inputs(self):
        pool = torch.zeros(2, 2, 3)
        compare = {
            "kv": mapped_pool_ratio_allclose("slots", mapping_shape=(1,), block_size=2, atol=1.0)
        }
        inputs = {"slots": t(3, dtype=torch.int32)}
        written = pool.clone()
        written[1, 1] = 0.5
        validate_golden({"kv": written}, {"kv": pool}, compare_fn=compare, inputs=inputs)
        assert "misconfigured" in words_of({"kv": written}, {"kv": pool}, compare_fn=compare)

    def test_a_measurement_passes_and_prints(self, capsys):
        validate_golden({"a": t(1.0)}, {"a": t(9.0)}, compare_fn={"a": error_distribution()})
        assert "rel-L2 = 88.8889%" in capsys.readouterr().out


def test_the_module_has_every_name_of_upstreams():
    assert set(validation.__all__) == {
        "error_distribution",
        "mapped_pool_ratio_allclose",
        "mapped_pool_ratio_reldiff",
        "ratio_allclose",
        "ratio_reldiff",
        "topk_pair_compare",
        "validate_golden",
    }
