"""Turns: one side at a time, in the order that lets drift cancel."""

from __future__ import annotations

import threading
import time

import pytest

from optest.ab.turns import Turns, alternating
from optest.store.records import Planned
from optest.sweep.case_worker import StoppedError


def unit(name):
    return Planned(f"t.py::f[{name}]", "t.py", "f")


A, B, C = map(unit, "abc")
BOTH = [(A, A), (B, B), (C, C)]


def test_a_case_meets_the_sides_as_base_head_head_base_over_the_rounds():
    of_b = [side for number in range(6) for side, key in alternating(BOTH, number) if key == B.key]
    assert of_b == [1, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1]


def test_sides_alternate_within_a_round_too():
    assert [side for side, _ in alternating(BOTH, 0)] == [0, 1, 1, 0, 0, 1]
    assert [key for _, key in alternating(BOTH, 0)] == [u.key for u in (A, A, B, B, C, C)]


def test_in_any_even_number_of_rounds_each_side_goes_first_as_often():
    """A linear drift then adds as much to one side as to the other."""
    for case in (A, B, C):
        place = [0, 0]
        order = [turn for number in range(4) for turn in alternating(BOTH, number)]
        mine = [side for side, key in order if key == case.key]
        for at, side in enumerate(mine):
            place[side] += at
        assert place[0] == place[1]


def test_a_unit_that_one_side_lacks_has_one_turn():
    assert alternating([(A, A), (None, B), (C, None)], 1) == [
        *((1, A.key), (0, A.key)),
        *((1, B.key), (0, C.key)),
    ]


class Players:
    """Two threads that play the same units; what happened is noted, and overlaps are caught."""

    def __init__(self, order):
        self.turns = Turns(order)
        self.happened = []
        self.overlaps = 0
        self.playing = 0

    def play(self, side, units, until=None):
        try:
            for each in units:
                self.turns.wait(side, each)
                self.playing += 1
                self.overlaps += self.playing > 1
                time.sleep(0.001)
                self.happened.append((side, each.key))
                self.playing -= 1
                if each is until:
                    return
                self.turns.done(side, each)
        except StoppedError:
            self.happened.append((side, "stopped"))
        finally:
            self.turns.leave(side)

    def run(self, *arguments):
        threads = [threading.Thread(target=self.play, args=each) for each in arguments]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
        assert not any(thread.is_alive() for thread in threads)


def test_two_threads_keep_the_order_and_never_overlap():
    order = [turn for number in range(8) for turn in alternating(BOTH, number)]
    players = Players(order)
    units = [A, B, C] * 8
    players.run((0, units), (1, units))
    assert players.happened == order
    assert players.overlaps == 0


def test_a_side_that_leaves_in_the_middle_does_not_hold_up_the_other():
    players = Players(alternating(BOTH, 0))
    players.run((0, [A, B, C], A), (1, [A, B, C]))
    assert [turn for turn in players.happened if turn[0] == 1] == [(1, u.key) for u in (A, B, C)]


def test_a_stop_lets_both_go():
    players = Players([(0, A.key), (1, A.key), (0, B.key)])
    threading.Timer(0.1, players.turns.stop).start()
    players.run((1, [A]), (1, [A]))  # nobody plays the first turn
    assert players.happened == [(1, "stopped")] * 2


def test_what_is_not_its_turn_ends_no_turn():
    """A whole script takes the cases that it ran before its own turn is over."""
    turns = Turns([(0, A.key), (1, A.key)])
    turns.done(0, B)
    turns.done(1, A)
    threading.Timer(0.1, turns.stop).start()  # until then it waits
    with pytest.raises(StoppedError):
        turns.wait(1, A)
