"""What counts as an output, and what a mutant may touch of it."""

from __future__ import annotations

import pytest

CACHE = """
@benchmark(inout=("cache",))
def test_op(m):
    x, cache = torch.randn(m, 8), torch.randn(4 * m, 8)
    slots = torch.randperm(4 * m)[:m]
    want = cache.clone()
    want[slots] = x
    def write(x, cache):
        cache[slots] = x
    got = cache.clone()
    run_perftest(write, x, got)
    return {"err": checkAllclose(want, got, rtol=0, atol=0, tol_err_ratio=0, msg="cache")}
"""


def test_of_a_cache_only_the_written_slots_are_mutated(mutate):
    done = mutate(CACHE)
    assert done.code == 0
    assert {t["where"]["elements"] for t in done.record["trials"]} == {6 * 8}
    assert set(done.fates().values()) == {"killed"}


def test_a_cache_compared_at_the_slots_alone_is_enough_for_what_is_written_there(mutate):
    part = CACHE.replace("checkAllclose(want, got,", "checkAllclose(want[slots], got[slots],")
    assert mutate(part).code == 0


UNWRITTEN = """
@benchmark(unwritten=("y",))
def test_op(m):
    x = torch.randn(m, 8)
    def ragged(x, y):
        y[:, :5] = x[:, :5] * 2
    y = torch.empty(m, 8)
    run_perftest(ragged, x, y)
    return {"err": checkAllclose(x[:, :5] * 2, y[:, :5], rtol=0, atol=0, tol_err_ratio=0)}
"""
UNWRITTEN_FRESH = """
@benchmark(unwritten=("y",))
def test_op(m):
    x = torch.randn(m, 8)
    def ragged(x):
        y = torch.empty(m, 8)
        y[:, :5] = x[:, :5] * 2
        return y
    y, us = run_perftest(ragged, x)
    return {"err": checkAllclose(x[:, :5] * 2, y[:, :5], rtol=0, atol=0, tol_err_ratio=0)}
"""


@pytest.mark.parametrize("body", [UNWRITTEN, UNWRITTEN_FRESH])
def test_what_is_declared_unwritten_is_not_mutated(body, mutate):
    done = mutate(body)
    assert done.code == 0, done.out
    assert {t["where"]["elements"] for t in done.record["trials"]} == {6 * 5}


@pytest.mark.parametrize("body", [UNWRITTEN, UNWRITTEN_FRESH])
def test_what_is_not_compared_and_not_declared_survives(body, mutate):
    body = body.replace('(unwritten=("y",))', "()").replace("y[:, :5] = x[:, :5] * 2", "Y")
    body = body.replace("Y", "y.copy_(x * 2)")
    assert {t["mutant"] for t in mutate(body).survivors()} >= {"one Inf"}


def test_an_element_that_holds_what_poison_looks_like_was_written(mutate):
    """127 is poison in int8, and the largest value of most quantised rows."""
    body = """
@benchmark()
def test_op(m):
    x = torch.randn(m, 8).sign() * 127
    y = torch.empty(m, 8, dtype=torch.int8)
    run_perftest(lambda x, y: y.copy_(x), x, y)
    return {"err": checkAllclose(x.to(torch.int8), y, rtol=0, atol=0, tol_err_ratio=0)}
"""
    done = mutate(body)
    assert done.code == 0
    assert {t["where"]["elements"] for t in done.record["trials"]} == {6 * 8}


SHARED = """
@benchmark()
def test_op(m):
    x, whole = torch.randn(m, 8), torch.empty(m, 16)
    left, right = whole[:, :8], whole[:, 8:]
    def write(x, ARGUMENTS):
        left.copy_(x)
        right.copy_(-x)
    run_perftest(write, x, ARGUMENTS)
    return {"err": checkAllclose(torch.cat((x, -x), 1), whole, rtol=0, atol=0, tol_err_ratio=0)}
"""


@pytest.mark.parametrize(
    ("arguments", "outputs"),
    [("left, whole, right", {("whole", 96)}), ("left, right", {("left", 48), ("right", 48)})],
)
def test_of_views_that_overlap_the_largest_is_the_output(arguments, outputs, mutate):
    done = mutate(SHARED.replace("ARGUMENTS", arguments))
    assert done.code == 0
    found = {(t["where"]["output"], t["where"]["elements"]) for t in done.record["trials"]}
    assert found == outputs


MASKED = """
@benchmark()
def test_op(m):
    x = torch.randn(m, 8)
    valid = torch.zeros(m, 1, dtype=torch.bool)
    valid[: m - 2] = True
    y = torch.empty(m, 8)
    run_perftest(lambda x, y: y.copy_(x * 2), x, y)
    return {"err": checkAllclose(x * 2, COMPARED, rtol=0, atol=0, tol_err_ratio=0, mask=valid)}
"""


@pytest.mark.parametrize("compared", ["y", "y.float() * 1", "y.view(m, 8)"])
def test_what_a_mask_leaves_out_is_not_mutated(compared, mutate):
    done = mutate(MASKED.replace("COMPARED", compared))
    assert done.code == 0, done.out
    assert {t["where"]["elements"] for t in done.record["trials"]} == {4 * 8}


def test_what_one_check_leaves_out_and_another_looks_at_is_mutated(mutate):
    body = MASKED.replace("COMPARED", "y").replace(
        "    return {", "    checkAllclose(x * 2, y, rtol=0, atol=0, tol_err_ratio=0)\n    return {"
    )
    done = mutate(body)
    assert done.code == 0
    assert {t["where"]["elements"] for t in done.record["trials"]} == {6 * 8}


def test_a_mask_counts_for_its_own_output_alone(mutate):
    """Two outputs of one shape: the check of the other one looks at every element."""
    body = MASKED.replace("y = torch.empty(m, 8)", "y, z = torch.empty(2, m, 8).unbind()")
    body = body.replace("lambda x, y: y.copy_(x * 2), x, y)", "both, x, y, z)")
    body = body.replace(
        "    y, z =",
        "    def both(x, y, z):\n        y.copy_(x * 2)\n        z.copy_(x * 3)\n    y, z =",
    ).replace("torch.empty(2, m, 8).unbind()", "torch.empty(m, 8), torch.empty(m, 8)")
    body = body.replace(
        "    return {",
        "    checkAllclose(x * 3, z, rtol=0, atol=0, tol_err_ratio=0, msg='z')\n    return {",
    ).replace("COMPARED", "y")
    done = mutate(body)
    assert done.code == 0, done.out
    elements = {(t["where"]["output"], t["where"]["elements"]) for t in done.record["trials"]}
    assert elements == {("y", 4 * 8), ("z", 6 * 8)}


ALIAS = """
@benchmark(aliases=("y",))
def test_op(m):
    x = torch.randn(m, 8)
    y, us = run_perftest(lambda x: x[:, 1:7], x)
    return {"err": checkAllclose(WANT, y, rtol=0, atol=0, tol_err_ratio=0)}
"""


def test_a_view_of_an_input_is_an_output(mutate):
    body = ALIAS.replace("WANT", "kept[:, 1:7]").replace(
        "    y, us", "    kept = x.clone()\n    y, us"
    )
    done = mutate(body)
    assert done.code == 0
    assert {t["where"]["elements"] for t in done.record["trials"]} == {6 * 6}


def test_a_wrong_view_is_no_change_of_the_input(mutate):
    """The reference is made of the input afterwards, and must not agree with the mutant."""
    done = mutate(ALIAS.replace("WANT", "x[:, 1:7]"))
    assert done.code == 0, done.out
    assert set(done.fates().values()) == {"killed"}


HANDS_BACK = """
@benchmark(DECLARED)
def test_op(m):
    x, scale = torch.randn(m, 8), torch.full((1,), 3.0)
    got, us = run_perftest(lambda x, s: (x * s, BACK), x, scale)
    return {"err": checkAllclose(x * scale, got[0], rtol=0, atol=0, tol_err_ratio=0)}
"""


@pytest.mark.parametrize("declared", ["", 'aliases=("scale",)'])
def test_an_input_that_is_handed_back_is_no_output(declared, mutate):
    done = mutate(HANDS_BACK.replace("DECLARED", declared).replace("BACK", "s"))
    assert done.code == 0, done.out
    assert {t["where"]["output"] for t in done.record["trials"]} == {"result[0]"}


def test_a_declared_view_beside_another_output_is_one_too(mutate):
    """Nothing compares it here."""
    body = HANDS_BACK.replace("DECLARED", 'aliases=("turned",)').replace("BACK", "x.t()")
    assert {t["where"]["output"] for t in mutate(body).survivors()} == {"result[1]"}


def test_a_result_that_the_kernel_keeps_is_given_back_after_each_mutant(mutate):
    """Otherwise the first mutant would stay in it and each later one would seem to be killed."""
    body = """
_TABLE = []
def table():
    if not _TABLE:
        _TABLE.append(torch.arange(48.0).reshape(6, 8))
    return _TABLE[0]

def bounds(y):
    assert y[0, 0] == 0

@benchmark()
def test_op(m):
    y, us = run_perftest(table)
    bounds(y)
    return {"err": 0.0}
"""
    done = mutate(body)
    fates = done.fates()
    assert fates["result", "rows swapped"] == "killed" or fates["y", "rows swapped"] == "killed"
    assert {t["mutant"] for t in done.survivors()} >= {"half written", "one Inf", "sign flip"}


def test_a_mutant_that_changes_nothing_does_not_count(mutate):
    body = """
@benchmark()
def test_op(m):
    x = torch.zeros(1, m)
    y, us = run_perftest(lambda x: x * 2, x)
    return {"err": checkAllclose(x, y, rtol=0, atol=0, tol_err_ratio=0)}
"""
    done = mutate(body)
    assert done.code == 0
    gone = {mutant for (_, mutant), fate in done.fates().items() if fate == "n/a"}
    assert gone == {
        "zeroed", "rows swapped", "shifted by one", "transposed", "stale", "sign flip",
        "wrong-scale row",
    }  # fmt: skip


def test_a_stale_result_is_that_of_other_inputs(mutate):
    body = """
@benchmark()
def test_op(m):
    x = torch.randn(m, 8).sign()
    y, us = run_perftest(lambda x: x.abs(), x)
    return {"err": checkAllclose(x.abs(), y, rtol=0, atol=0, tol_err_ratio=0)}
"""
    assert mutate(body).fates(mutant="stale") == {("result", "stale"): "n/a"}


ODD = {
    "complex": "torch.fft.fft(x)",
    "transposed": "(x * 2).t()",
    "strided": "(x * 2)[:, ::2]",
    "fp8": "x.to(torch.float8_e4m3fn)",
    "ids": "x.argsort(1)",
    "a_scalar": "x.sum()",
}


@pytest.mark.parametrize("odd", ODD)
def test_outputs_of_any_layout_and_dtype(odd, mutate):
    made = ODD[odd]
    body = f"""
@benchmark()
def test_op(m):
    x = torch.randn(m, 16)
    got, us = run_perftest(lambda x: {made}, x)
    return {{"err": checkAllclose({made}, got, rtol=0, atol=0, tol_err_ratio=0)}}
"""
    done = mutate(body)
    assert done.code == 0, done.out
    assert "killed" in done.fates().values()
    assert done.record["left_out"] == []


def test_an_output_that_cannot_be_mutated_is_said(mutate):
    body = """
@benchmark()
def test_op(m):
    x = torch.randn(m, 1)
    got, us = run_perftest(lambda x: (x * 2).expand(m, 8), x)
    return {"err": checkAllclose((x * 2).expand(m, 8), got)}
"""
    done = mutate(body)
    assert done.code == 5
    assert "an expanded tensor, whose elements share memory" in done.out
