"""``optest compile`` end to end on small op tests, with a cache of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from lowering_sources import BAD, GOOD


class Place:
    """A folder with op tests, and the command run in it."""

    def __init__(self, folder):
        self.folder = folder

    def run(self, *words, **variables):
        environment = {**os.environ, "OPTEST_BUILD_DIR": str(self.folder / "cache"), **variables}
        return subprocess.run(
            [sys.executable, "-m", "optest.cli.main", "compile", *words],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
        )

    def record(self, name):
        return json.loads((self.folder / name).read_text())


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compile")
    (folder / "test_good.py").write_text(GOOD)
    (folder / "test_bad.py").write_text(BAD)
    return Place(folder)


@pytest.fixture(scope="module")
def good(place):
    """The first run, with an interpreter asked for that must not reach the compiler."""
    done = place.run(
        "test_good.py", "--target", "gfx942", "--target", "gfx950", "--target", "sm_90",
        "--json", "first.json", "--save", TRITON_INTERPRET="1",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done, place.record("first.json")


@pytest.fixture(scope="module")
def bad(place):
    return place.run("test_bad.py", "--target", "gfx942", "--smoke", "--json", "bad.json")


def of(record, kernel, target):
    return [e for e in record["kernels"] if e["kernel"].endswith(kernel) and e["target"] == target]


def test_each_kernel_has_a_row_for_each_card_with_what_it_takes(good):
    done, record = good
    rows = [line for line in done.stdout.splitlines() if "_kernel" in line]
    assert len(rows) == 6
    assert all(row.endswith("| ok |") for row in rows)
    for entry in record["kernels"]:
        assert entry["registers"] > 0
        assert entry["spills"] == 0
        assert 0 < entry["code_bytes"] < 20_000
        assert entry["occupancy"] >= entry["warps"]
        assert (entry["scalar"] is None) == (entry["target"] == "sm_90")


def test_what_divides_an_argument_and_where_a_view_begins_make_a_specialisation(good):
    aligned, odd = (e["specialisation"] for e in of(good[1], "scale_kernel", "sm_90"))
    assert aligned.startswith("x=*bf16:16 q=*fp8e4nv:16 n=i32:16 FACTOR=2.0 BLOCK=256 num_warps=4")
    assert odd.startswith("x=*bf16 q=*fp8e4nv:16 n=i32 FACTOR=2.0")


def test_amd_is_told_that_a_buffer_is_shorter_than_two_gib(good):
    """Without it the instructions are not those of the card."""
    assert "x=*bf16:16,2GiB" in of(good[1], "scale_kernel", "gfx950")[0]["specialisation"]


@pytest.mark.parametrize(
    ("target", "flavour"), [("gfx942", "fp8e4b8"), ("gfx950", "fp8e4nv"), ("sm_90", "fp8e4nv")]
)
def test_each_card_has_its_own_fp8(good, target, flavour):
    assert all(f"q=*{flavour}" in e["specialisation"] for e in of(good[1], "scale_kernel", target))


def test_values_of_small_tensors_decide_as_on_the_card(good):
    """A constant read from a tensor of lengths; and num_warps as it was asked for."""
    found = [e["specialisation"] for e in of(good[1], "fill_kernel", "gfx942")]
    assert ["LENGTH=1021" in words for words in found] == [True, False]
    assert "LENGTH=997" in found[1]
    assert all("num_warps=2" in words for words in found)


def test_a_second_run_compiles_nothing_and_starts_no_child(place, good):
    done = place.run(
        "test_good.py", "--target", "gfx942", "--target", "gfx950", "--target", "sm_90",
        "--json", "second.json", "--diff", "last",
    )  # fmt: skip
    assert done.returncode == 0
    second = place.record("second.json")
    assert second["compiled"] == 0
    assert second["kernels"] == good[1]["kernels"]
    assert "lowering:" not in done.stderr
    assert "Nothing changed since" in done.stdout


def test_a_change_of_a_kernel_compiles_it_alone_and_is_shown(place, good):
    changed = GOOD.replace("tl.store(y + at, 1.0,", "tl.store(y + at, 1.0 + tl.load(y + at),")
    (place.folder / "changed").mkdir()
    (place.folder / "changed" / "test_good.py").write_text(
        changed.replace("FACTOR=2.0", "FACTOR=4.0")
    )
    done = place.run(
        "changed/test_good.py", "--target", "gfx942", "--json", "third.json",
        "--diff", "first.json", "--", "-n", "1024",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.partition("Changed since")[2].splitlines() if "|" in line]
    fill = [line for line in lines if "fill_kernel | gfx942" in line and "LENGTH=1021" in line]
    assert any("| code B |" in line for line in fill)
    assert any("FACTOR=4.0" in line and "| new |" in line for line in lines)
    assert any("FACTOR=2.0" in line and "| gone |" in line for line in lines)
    assert place.record("third.json")["compiled"] == 2


def test_what_does_not_lower_says_so_in_the_compilers_words(bad):
    assert bad.returncode == 1
    assert "does not lower" in bad.stdout
    assert (
        "**test_bad.refused_kernel for gfx942**, launched by test_bad.py::test_op[n=64]"
        in bad.stdout
    )
    assert "the block is too short for this kernel" in bad.stdout


def test_what_does_not_fit_the_card_is_refused_with_both_numbers(bad):
    wide = next(line for line in bad.stdout.splitlines() if "wide_kernel | gfx942" in line)
    assert wide.endswith("| does not fit |")
    assert "bytes of shared memory, 65536 are allowed" in bad.stdout


def test_a_compiler_that_crashes_is_one_kernels_result(place, bad):
    """Those after it in the same op test are still compiled."""
    found = {entry["kernel"]: entry for entry in place.record("bad.json")["kernels"]}
    assert found["test_bad.crashing_kernel"]["error"].startswith(
        "the compiler died: signal SIGABRT"
    )
    assert found["test_bad.wide_kernel"]["shared_bytes"] > 65536


def test_a_candidate_that_raises_is_told_and_the_others_are_still_seen(bad):
    assert "could not be followed" in bad.stderr
    assert "ValueError: no such layout" in bad.stderr


def test_an_op_test_that_is_not_for_the_card_is_gated(place):
    done = place.run("test_bad.py", "--target", "sm_90")
    assert done.returncode == 0
    assert "gated: test_bad.py for sm_90: not for sm_90" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["test_good.py", "--target", "gfx9000"], "expected one of gfx90a, gfx942, gfx950"),
        (["nowhere.py"], "nowhere.py: there is no such file or folder"),
        (["test_good.py", "--target", "sm_90", "--diff", "test_good.py"], "expected a record"),
    ],
)
def test_what_cannot_be_honoured_is_named_with_exit_code_2(place, words, said):
    done = place.run(*words)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
