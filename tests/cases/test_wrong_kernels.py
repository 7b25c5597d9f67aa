"""Kernels that are wrong and must not pass, each through the whole seam in both modes."""

from __future__ import annotations

import pytest
import torch

from optest.test_common import benchmark, checkAllclose, run_perftest

M, N = 64, 48


def reference(x):
    return x.double().mul(2).add(1).to(x.dtype)


def right(x, out):
    return out.copy_(reference(x))


def half_into(x, out):
    out[: M // 2] = reference(x)[: M // 2]
    return out


def half_fresh(x, out):
    fresh = torch.empty_like(x)
    fresh[: M // 2] = reference(x)[: M // 2]
    return fresh


def tail_unwritten_fresh(x, out):
    fresh = torch.empty_like(x)
    fresh.view(-1)[:-3] = reference(x).view(-1)[:-3]
    return fresh


def last_tile_unwritten(x, out):
    out[:-16] = reference(x)[:-16]
    out[-16:, :-16] = reference(x)[-16:, :-16]
    return out


def writes_nothing(x, out):
    return out


def one_nan(x, out):
    out.copy_(reference(x))[3, 5] = float("nan")
    return out


def one_wild(x, out):
    out.copy_(reference(x))[3, 5] = 1e30
    return out


def wrong_dtype(x, out):
    return reference(x).double()


def column_for_row(x, out):
    return reference(x)[:, :1]


def zeroed(x, out):
    return out.zero_()


WRONG = [
    half_into,
    half_fresh,
    tail_unwritten_fresh,
    last_tile_unwritten,
    writes_nothing,
    one_nan,
    one_wild,
    wrong_dtype,
    column_for_row,
    zeroed,
]


def sweep(candidates, make_out=torch.empty, dtype=torch.float32):
    """A case in which each candidate gets the same preallocated buffer, as the template has it."""

    @benchmark()
    def test_op(m):
        x = torch.randn(M, N, dtype=dtype)
        out = make_out(M, N, dtype=dtype)
        ref = reference(x)
        row = {}
        for name, kernel in candidates.items():
            got, us = run_perftest(lambda kernel=kernel: kernel(x, out), num_iters=12)
            row[f"{name} us"] = us
            row[f"{name} err"] = checkAllclose(ref, got, msg=name, printLog=False)
        return row

    return test_op(1)


@pytest.mark.parametrize("mode", ["check", "run"])
@pytest.mark.parametrize("make_out", [torch.empty, torch.zeros], ids=["empty", "zeros"])
@pytest.mark.parametrize("wrong", WRONG, ids=lambda kernel: kernel.__name__)
def test_wrong_after_right_fails(make_session, mode, make_out, wrong):
    session = make_session(mode).session
    row = sweep({"right": right, "wrong": wrong, "right again": right}, make_out)
    assert row.status == "failed", dict(row)
    assert row["right err"].passed
    assert row["right again err"].passed
    assert not row["wrong err"].passed
    assert [failure.status for failure in session.failures] == ["failed"]


@pytest.mark.parametrize("mode", ["check", "run"])
def test_an_int_output_half_written_shows_although_minus_one_is_a_right_index(make_session, mode):
    make_session(mode)

    @benchmark()
    def test_op(m):
        ref = torch.full((M, N), -1, dtype=torch.int32)
        out = torch.empty(M, N, dtype=torch.int32)

        def half():
            out[: M // 2] = -1
            return out

        got, _ = run_perftest(half, num_iters=12)
        return {"err": checkAllclose(ref, got, printLog=False)}

    assert test_op(1).status == "failed"


def test_small_outputs_against_zeros_fail(check):
    assert not checkAllclose(
        1e-3 * torch.randn(256, 256), torch.zeros(256, 256), printLog=False
    ).passed


def test_a_stale_result_is_refused(make_session):
    make_session("run")
    cache = {}

    def memoised(x):
        if "y" not in cache:
            cache["y"] = reference(x)
        return cache["y"]

    @benchmark()
    def test_op(m):
        x = torch.randn(512, 512)
        got, us = run_perftest(memoised, x)
        return {"us": us, "err": checkAllclose(reference(x), got)}

    row = test_op(1)
    assert row.status == "error", dict(row)
    assert "MemoisedError" in row["error"]


def test_what_the_kernel_leaves_unwritten_on_purpose_passes_where_the_test_does_not_look(
    make_session,
):
    make_session("run")

    @benchmark(unwritten=("out",))
    def test_op(m):
        x = torch.randn(M, N)
        got, _ = run_perftest(half_fresh, x, None, num_iters=12)
        return {"err": checkAllclose(reference(x)[: M // 2], got[: M // 2])}

    assert test_op(1).status == "passed"


@pytest.mark.parametrize("mode", ["check", "run"])
def test_guards_can_be_switched_off(make_session, mode):
    """Without poison a buffer keeps the right answer of the candidate before: what off means."""
    make_session(mode).session.guards = "off"
    row = sweep({"right": right, "wrong": writes_nothing})
    assert row["wrong err"].passed
