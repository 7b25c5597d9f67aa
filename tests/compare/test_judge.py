"""What a comparison says of times, of right and wrong results, and of what was measured unlike."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from compare_sides import HERE, case, cell, side

from optest.compare import pasted
from optest.compare.judge import Rule, compared
from optest.compare.side import Case, Cell
from optest.errors import UsageError

WRONG = Cell(100.0, wrong="3 of 10 are off")


def verdicts(comparison):
    return {(line.case, line.candidate): str(line.verdict) for line in comparison.lines}


def only(base, head, **rule):
    """The one line of two sides with one case each."""
    made = compared(side("base", base), side("head", head), Rule(**rule))
    (line,) = made.lines
    return line, made


@pytest.mark.parametrize(
    ("factor", "verdict", "code"),
    [(1.0, "same", 0), (1.2, "slower", 1), (0.8, "faster", 0), (1.01, "same", 0)],
)
def test_times(factor, verdict, code):
    line, made = only(case(1, {"cpp": cell(100.0)}), case(1, {"cpp": cell(100.0 * factor, seed=1)}))
    assert (line.verdict, made.exit_code) == (verdict, code)
    assert line.ratio == pytest.approx(factor, rel=3e-3)
    assert line.low < line.ratio < line.high
    assert (line.base_us, line.head_us) == pytest.approx((100.0, 100.0 * factor), rel=3e-3)


def test_slower_by_less_than_the_threshold_is_said_and_fails_nothing():
    before, after = case(1, {"cpp": cell(100.0)}), case(1, {"cpp": cell(112.0, seed=1)})
    line, made = only(before, after, threshold=0.2)
    assert (line.verdict, line.regression, made.exit_code) == ("slower", False, 0)
    assert only(before, after, threshold=0.1)[1].exit_code == 1


def test_noise_as_large_as_the_threshold_is_no_sameness():
    wide = [cell(100.0, spread=0.3, samples=20, seed=seed) for seed in (1, 2)]
    line, made = only(case(1, {"cpp": wide[0]}), case(1, {"cpp": wide[1]}))
    assert (line.verdict, made.exit_code) == ("too noisy to say", 0)


def test_what_most_calls_of_were_preempted_is_never_called_changed():
    line, _ = only(
        case(1, {"cpp": cell(100.0)}), case(1, {"cpp": cell(300.0, seed=1, contended=True)})
    )
    assert line.verdict == "too noisy to say"
    assert "preempted" in line.notes[0]


@pytest.mark.parametrize(
    ("base", "head", "verdict", "code"),
    [
        ({"cpp": cell()}, {"cpp": WRONG}, "now wrong", 1),
        ({"cpp": WRONG}, {"cpp": cell()}, "now right", 0),
        ({"cpp": WRONG}, {"cpp": WRONG}, "still wrong", 0),
        ({"cpp": Cell()}, {"cpp": Cell()}, "not timed", 0),
        ({"cpp": cell()}, {"cpp": Cell()}, "not timed", 0),
    ],
)
def test_right_and_wrong(base, head, verdict, code):
    line, made = only(case(1, base), case(1, head))
    assert (line.verdict, made.exit_code) == (verdict, code)


def test_candidates_that_came_and_went():
    before = case(1, {"cpp": cell(), "old": cell()})
    after = case(1, {"cpp": cell(), "new": cell(), "bad": WRONG})
    made = compared(side("b", before), side("h", after))
    found = {line.candidate: line for line in made.lines}
    assert (found["old"].verdict, found["old"].failure) == ("gone", False)
    assert (found["new"].verdict, found["new"].failure) == ("new", False)
    assert (found["bad"].verdict, found["bad"].failure) == ("new", True)
    assert made.exit_code == 1  # a new failure
    assert made.bad[0].candidate == "bad"


def test_cases_that_came_and_went():
    made = compared(
        side("b", case(1, {"cpp": cell()}), case(2, {"cpp": cell()})),
        side("h", case(3, {"cpp": cell()}), case(1, {"cpp": cell()})),
    )
    assert verdicts(made) == {
        ("test_a.py::test_a[m=3]", "cpp"): "new",
        ("test_a.py::test_a[m=1]", "cpp"): "same",
        ("test_a.py::test_a[m=2]", "cpp"): "gone",
    }


def test_a_case_that_died_makes_all_its_candidates_wrong():
    before = case(1, {"cpp": cell(), "triton": cell()})
    after = case(1, {}, wrong="crashed: SIGSEGV")
    made = compared(side("b", before), side("h", after))
    assert {line.candidate for line in made.lines} == {"cpp", "triton"}
    assert {(line.verdict, line.reason) for line in made.lines} == {
        ("now wrong", "crashed: SIGSEGV")
    }
    back = compared(side("b", after), side("h", before))
    assert {line.verdict for line in back.lines} == {"now right"}
    assert (made.exit_code, back.exit_code) == (1, 0)


def test_of_a_case_that_died_a_wrong_candidate_keeps_its_own_reason():
    after = case(1, {"cpp": WRONG, "triton": cell()}, wrong="crashed: SIGSEGV")
    made = compared(side("b", case(1, {"cpp": cell(), "triton": cell()})), side("h", after))
    assert {line.candidate: line.reason for line in made.lines} == {
        "cpp": "3 of 10 are off",
        "triton": "crashed: SIGSEGV",
    }


def test_a_case_without_candidates_that_died_is_a_line_of_its_own():
    line, made = only(case(1, {}), case(1, {}, wrong="hung: 600 s"))
    assert (line.candidate, line.verdict, made.exit_code) == ("", "now wrong", 1)


def test_a_check_of_the_whole_case_that_passed_was_there():
    right = case(1, {"cpp": cell()})
    failed = case(1, {"cpp": cell(), "": Cell(wrong="err 0.3")})
    for before, after, verdict, code in (
        (right, failed, "now wrong", 1),
        (failed, right, "now right", 0),
    ):
        made = compared(side("b", before), side("h", after))
        assert {line.candidate: line.verdict for line in made.lines} == {
            "cpp": "same",
            "": verdict,
        }
        assert made.exit_code == code
    made = compared(side("b", case(1, {"": cell()})), side("h", right))
    assert {line.candidate: line.verdict for line in made.lines} == {"cpp": "new", "": "gone"}


def test_geometric_means_are_of_each_candidate():
    cells = [{"cpp": cell(100.0 * n, seed=n), "triton": cell(100.0, seed=n)} for n in (1, 2)]
    heads = [{"cpp": cell(200.0 * n, seed=n), "triton": cell(50.0, seed=n)} for n in (1, 2)]
    made = compared(
        side("b", *(case(n, each) for n, each in enumerate(cells))),
        side("h", *(case(n, each) for n, each in enumerate(heads))),
    )
    assert made.means["cpp"].ratio == pytest.approx(2.0, rel=0.01)
    assert made.means["triton"].ratio == pytest.approx(0.5, rel=0.01)
    assert made.means["cpp"].count == 2


def test_the_family_is_held_down():
    """Many cases that did not change, with noise that would often fool a test of one alone."""
    sides = [
        [case(n, {"cpp": cell(100.0, 0.04, 30, n + 5000 * k)}) for n in range(500)] for k in (0, 1)
    ]
    made = compared(side("b", *sides[0]), side("h", *sides[1]), Rule(drift=0.0))
    alone = [
        compared(side("b", b), side("h", h), Rule(drift=0.0)) for b, h in zip(*sides, strict=True)
    ]
    assert sum(one.lines[0].verdict.changed for one in alone) >= 2
    assert sum(line.verdict.changed for line in made.lines) == 0


def test_a_change_that_all_cases_share_is_named_as_perhaps_the_machines():
    cases = [case(n, {"cpp": cell(100.0, seed=n)}) for n in range(30)]
    slower = [case(n, {"cpp": cell(108.0, seed=n + 99)}) for n in range(30)]
    made = compared(side("b", *cases), side("h", *slower))
    assert any("all cases share" in note for note in made.notes)
    assert {line.verdict for line in made.lines} == {"slower"}
    still = compared(side("b", *cases), side("h", *cases))
    assert not any("all cases share" in note for note in still.notes)


OTHER = replace(HERE, device="Another card")


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"places": [OTHER]}, "device: A card, then Another card"),
        ({"places": [replace(HERE, host="other")]}, "host: host, then other"),
        ({"places": [replace(HERE, gfx="gfx950")]}, "gfx: gfx942, then gfx950"),
        ({"places": [HERE, OTHER]}, "device: A card, then A card, Another card"),
        ({"settings": {"mode": "check"}}, "mode: run, then check"),
        ({"settings": {"mode": "run", "--guards": "full"}}, "--guards: not set, then full"),
        ({"settings": {"mode": "run", "OMP_NUM_THREADS": "1"}}, "OMP_NUM_THREADS: not set, then 1"),
    ],
)
def test_what_was_not_measured_alike_is_refused_or_marked(said, words):
    base, head = side("b", case(1, {"cpp": cell()})), side("h", case(1, {"cpp": cell()}), **said)
    with pytest.raises(UsageError) as refused:
        compared(base, head)
    assert words in str(refused.value)
    assert "--across" in str(refused.value)
    assert compared(base, head, Rule(across=True)).differences == [words]


def test_what_is_not_known_is_no_difference_and_versions_are_a_note():
    cells = {"cpp": cell()}
    base = side("b", case(1, cells), versions={"torch": "2.12"}, settings={"mode": "run"})
    made = compared(base, side("h", case(1, cells), places=[], settings={}))
    assert made.differences == []
    made = compared(base, side("h", case(1, cells), versions={"torch": "2.13"}))
    assert any("torch: 2.12, then 2.13" in note for note in made.notes)
    nothing = side("h", case(1, {}, wrong="it cannot be imported"), places=[], versions={"a": "1"})
    assert not any("torch" in note for note in compared(base, nothing).notes)
    seeded = side("h", case(1, cells), settings={"mode": "run", "OPTEST_SEED": "3"})
    assert compared(base, seeded).differences == []


@pytest.mark.parametrize(("name", "other"), [("clock", "graph"), ("cache", "warm")])
def test_times_of_another_clock_or_cache_are_refused_or_marked(name, other):
    before, after = case(1, {"cpp": cell()}), case(1, {"cpp": cell(**{name: other})})
    with pytest.raises(UsageError, match=name):
        only(before, after)
    line, _ = only(before, after, across=True)
    assert name in line.notes[0]


def test_across_archs_cases_of_one_node_each_are_matched():
    base = side("b", case(1, {"cpp": cell()}, where="gfx942"))
    head = side("h", case(1, {"cpp": cell()}, where="gfx950"), places=[replace(HERE, gfx="gfx950")])
    made = compared(base, head, Rule(across=True))
    assert [line.verdict for line in made.lines] == ["same"]


def test_nodes_of_one_run_are_apart():
    both = [case(1, {"cpp": cell(us)}, where=gfx) for gfx, us in (("gfx942", 9.0), ("gfx950", 5.0))]
    made = compared(side("b", *both), side("h", *reversed(both)))
    assert [line.verdict for line in made.lines] == ["same", "same"]
    assert made.lines[0].case == "test_a.py::test_a[m=1] on gfx950"


def test_files_that_are_called_alike_are_apart_and_else_a_folder_is_no_matter():
    one, two = (case(1, {"cpp": cell(us)}, file=f"{us}/test_a.py") for us in (9.0, 5.0))
    made = compared(side("b", one, two), side("h", two, one))
    assert [line.verdict for line in made.lines] == ["same", "same"]
    moved = compared(side("b", one), side("h", replace(one, file="elsewhere/test_a.py")))
    assert [line.verdict for line in moved.lines] == ["same"]


def test_nothing_in_common_is_refused():
    with pytest.raises(UsageError, match="no case in common"):
        compared(side("b", case(1, {"cpp": cell()})), side("h", case(2, {"cpp": cell()})))


def table(*times, title="A", head="| m | cpp us |\n|---|---|\n"):
    rows = "".join(f"| {n} | {us} |\n" for n, us in enumerate(times))
    return f"{title} summary (markdown):\n{head}{rows}"


def test_two_pasted_tables_are_compared_by_their_values():
    made = compared(
        pasted.side("old.md", table(10.0, 10.0, 10.0, 10.0)),
        pasted.side("new.md", table(10.4, 10.6, 9.0, 9.6)),
    )
    assert [str(line.verdict) for line in made.lines] == ["same", "slower", "faster", "same"]
    assert all((line.low, line.high) == (0.0, math.inf) for line in made.lines)
    assert made.exit_code == 1
    assert sum("no interval is known" in note for note in made.notes) == 2


def test_a_run_that_kept_no_samples_is_said_to_have_none():
    bare = [replace(cell(us), samples=()) for us in (10.0, 10.4)]
    _, made = only(case(1, {"cpp": bare[0]}), case(1, {"cpp": bare[1]}))
    assert "1 timing without samples" in " ".join(made.notes)
    _, made = only(case(1, {"cpp": cell(10.0)}), case(1, {"cpp": cell(10.4, seed=1)}))
    assert "without samples" not in " ".join(made.notes)


def test_a_pasted_table_against_a_run():
    run = side("h", *(case(n, {"cpp": cell(us)}) for n, us in enumerate((10.0, 20.0))))
    made = compared(pasted.side("old.md", table(10.0, 10.0)), run)
    assert [str(line.verdict) for line in made.lines] == ["same", "slower"]
    # Under another title the arguments alone decide.
    made = compared(pasted.side("old.md", table(10.0, 10.0, title="B")), run)
    assert [str(line.verdict) for line in made.lines] == ["same", "slower"]


def test_what_cannot_be_told_apart_is_refused():
    run = side(
        "h",
        Case("t.py::a[m=0]", table="a", arguments={"m": "0"}, cells={"cpp": cell()}),
        Case("t.py::b[m=0]", table="b", arguments={"m": "0"}, cells={"cpp": cell()}),
    )
    with pytest.raises(UsageError, match="2 cases cannot be told apart"):
        compared(pasted.side("old.md", table(10.0, title="other")), run)


def turns(change, apart, seed):
    """Ten blocks a side on a machine that becomes slower by ``apart`` from block to block."""
    generator = np.random.default_rng(seed)
    levels = np.exp(np.cumsum(generator.normal(apart, apart, 10)))

    return [
        [100.0 * factor * level * np.exp(generator.normal(0, 0.003, 12)) for level in levels]
        for factor in (1.0, change)
    ]


def in_blocks(blocks):
    return Cell(
        float(np.median(np.concatenate(blocks))),
        tuple(np.concatenate(blocks)),
        blocks=tuple(len(each) for each in blocks),
    )


@pytest.mark.parametrize(("change", "verdict"), [(1.0, "same"), (1.02, "slower"), (0.98, "faster")])
def test_sides_that_were_measured_in_turn_are_judged_block_by_block(change, verdict):
    """The machine drifts by several times the change while they are measured."""
    cells = [in_blocks(blocks) for blocks in turns(change, 0.02, 5)]
    base, head = (
        side(name, case(1, {"cpp": each}), pair="p") for name, each in zip("bh", cells, strict=True)
    )
    made = compared(base, head)
    assert [str(line.verdict) for line in made.lines] == [verdict]
    assert any("measured in turn, in 10 blocks" in note for note in made.notes)
    apart = compared(replace(base, pair="q"), head)  # two runs of two pairs stand for themselves
    assert [str(line.verdict) for line in apart.lines] == ["too noisy to say"]


def test_what_was_measured_in_turn_on_no_side_alike_says_nothing_of_blocks():
    made = compared(
        side("b", case(1, {"cpp": cell()}), pair="p"), side("h", case(2, {"cpp": cell()}), pair="p")
    )
    assert {line.verdict for line in made.lines} == {"new", "gone"}
    assert made.notes == []


def test_the_fewest_blocks_are_told_and_a_time_without_samples_has_none_to_count():
    ten, _ = turns(1.0, 0.02, 5)
    blocks = {"cpp": in_blocks(ten), "tri": in_blocks(ten[:6]), "ck": Cell(100.0)}
    base, head = (
        side(name, case(1, blocks), case(2, {"ck": one}), pair="p")
        for name, one in (("b", Cell(100.0)), ("h", in_blocks(ten)))
    )
    assert any("in 6 blocks or more" in note for note in compared(base, head).notes)
