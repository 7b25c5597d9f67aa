"""Kernels that remember their answers are refused; honest ones, however odd, are not."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from optest.errors import RefusedError
from optest.tensors import Snapshot
from optest.timing import Plan, measure
from optest.timing.clock import Reading, Target
from optest.timing.controls import Controls
from optest.timing.fresh import FloatInputs
from optest.timing.inputs import Inputs
from optest.timing.wall import WallClock

WARM = Plan(num_iters=12, cache="warm")


def remembering(key, *, work=torch.mm, copy=False):
    kept = {}

    def kernel(*tensors):
        where = key(*tensors)
        if where not in kept:
            kept[where] = work(*tensors)
        return kept[where].clone() if copy else kept[where]

    return kernel


def once_then_copied():
    kept = {}

    def kernel(x, w, out):
        if not kept:
            kept["out"] = x @ w
        return out.copy_(kept["out"])

    return kernel


def by_address(x, *_rest):
    return x.data_ptr()


def by_shape(x, *_rest):
    return x.shape


def by_fingerprint(x, *_rest):
    return float(x[0, 0])


def whole(x, w):
    return (100 * (x @ w)).to(torch.int32)


def slow(x):
    return x @ x @ x @ x


def only_the_first():
    kept = {}

    def kernel(x):
        mark = float(x[0, 0])
        if not kept:
            kept.update(mark=mark, answer=slow(x))
        return kept["answer"] if mark == kept["mark"] else slow(x)

    return kernel


def cheats():
    x, w, y = torch.randn(64, 64), torch.randn(64, 64), torch.empty(64, 64)
    big = torch.randn(600, 600)
    address = remembering(by_address, copy=True)
    once = once_then_copied()
    return {
        "address": (remembering(by_address), (x, w)),
        "address, cloned": (address, (x, w)),
        "address, cloned, behind a closure": (lambda: address(x, w), ()),
        "shape": (remembering(by_shape), (x, w)),
        "shape, cloned": (remembering(by_shape, copy=True), (x, w)),
        "shape, integers": (remembering(by_shape, work=whole), (x, w)),
        "address, cloned, integers": (remembering(by_address, work=whole, copy=True), (x, w)),
        "once, copied into out": (once, (x, w, y)),
        "once, behind a closure": (lambda: once(x, w, y), ()),
        "fingerprint": (remembering(by_fingerprint, work=slow), (big,)),
        "the first input only": (only_the_first(), (big,)),
    }


@pytest.mark.parametrize("name", list(cheats()))
def test_a_kernel_that_remembers_its_answers_is_refused(name):
    func, args = cheats()[name]
    before = [tensor.clone() for tensor in args]
    with pytest.raises(RefusedError, match=r"remembers its answers|does not look at its inputs"):
        measure(func, args, plan=WARM)
    for tensor, old in list(zip(args, before, strict=True))[:2]:
        assert torch.equal(tensor, old)


def test_the_refusal_names_both_times():
    func, args = cheats()["fingerprint"]
    with pytest.raises(RefusedError, match=r"same inputs take .* us, the first call on new .* us"):
        measure(func, args, plan=WARM)


def test_controls_can_be_left_out():
    func, args = cheats()["shape"]
    measure(func, args, plan=Plan(num_iters=5, cache="warm", controls=False))


class _EverySecondIsSlow:
    def __init__(self):
        self.calls = 0

    def __call__(self, x):
        self.calls += 1
        return slow(x) if self.calls % 2 else x + 1


class _Module(torch.nn.Module):
    """Keeps a floating-point weight that its integer kernel never reads."""

    def __init__(self):
        super().__init__()
        self.weight = torch.randn(64, 64)
        self.packed = (self.weight * 10).to(torch.int32)

    def forward(self, x):
        return (x @ self.packed).float()


def honest():
    x, w, y = torch.randn(64, 64), torch.randn(64, 64), torch.empty(64, 64)
    ints = torch.arange(4096, dtype=torch.int32).reshape(64, 64)
    fp8 = torch.randn(64, 64).to(torch.float8_e4m3fn)
    return {
        "product": (torch.mm, (x, w)),
        "into out": (lambda: torch.mm(x, w, out=y), ()),
        "in place": (x.clone().mul_, (0.5,)),
        "accumulates": (y.zero_().add_, (x,)),
        "no floating-point input": (torch.add, (ints, 1)),
        "constant output": (torch.zeros_like, (x,)),
        "few outputs": (torch.amax, (x,)),
        "integers from a shape": (lambda t: torch.arange(t.numel()), (x,)),
        "a view": (lambda: x.t(), ()),
        "nothing": (lambda: None, ()),
        "sorted input": (torch.sort, (torch.arange(1e5),)),
        "scale does not matter": (F.rms_norm, (x.bfloat16(), (64,))),
        "order": (torch.argsort, (x,)),
        "random": (torch.rand_like, (x,)),
        "zeros in, zeros out": (torch.mm, (torch.zeros(64, 64), w)),
        "fp8": (lambda t: t.float() + 1, (fp8,)),
        "expanded": (torch.add, (x, torch.ones(1, 64).expand(64, 64))),
        "overlapping": (torch.relu, (torch.randn(100).unfold(0, 10, 1),)),
        "floats and integers in one storage": (lambda: ints.view(torch.float32) + ints, ()),
        "values it refuses": (torch.linalg.cholesky, (x @ x.t() + 64 * torch.eye(64),)),
        "complex": (torch.abs, (torch.complex(x, w),)),
        "slow at every second call": (_EverySecondIsSlow(), (torch.randn(600, 600),)),
        "unread weight": (_Module(), (ints,)),
        "empty": (torch.relu, (torch.empty(0, 4),)),
        "scalar": (torch.exp, (torch.tensor(1.0),)),
    }


@pytest.mark.parametrize("name", list(honest()))
def test_an_honest_kernel_is_not_refused_and_its_inputs_are_as_before(name):
    func, args = honest()[name]
    tensors = [arg for arg in args if isinstance(arg, torch.Tensor)]
    before = [tensor.clone() for tensor in tensors]
    _, timing = measure(func, args, plan=WARM)
    assert timing > 0.0
    for tensor, old in zip(tensors, before, strict=True):
        assert torch.equal(tensor.float() if tensor.element_size() == 1 else tensor,
                           old.float() if old.element_size() == 1 else old)  # fmt: skip


def test_indices_are_never_changed():
    table, ids = torch.randn(100, 8), torch.arange(99, -1, -1)
    seen = []
    measure(lambda: seen.append(ids.clone()) or table[ids], plan=WARM)
    assert all(torch.equal(one, ids) for one in seen)


def test_integers_that_share_memory_with_floats_are_never_changed():
    memory = torch.zeros(64)
    memory[32:].view(torch.int32).copy_(torch.arange(31, -1, -1))
    ids, seen = memory.view(torch.int32)[32:], []
    table = torch.randn(32, 8)
    measure(lambda: seen.append(ids.clone()) or table[ids] + memory[0], plan=WARM)
    assert all(torch.equal(one, ids) for one in seen)


def test_control_calls_leave_the_inputs_as_they_were():
    x, w, y = torch.randn(64, 64), torch.randn(64, 64), torch.zeros(64, 64)
    inputs = Inputs(Snapshot([x, w, y]))
    before = [x.clone(), w.clone(), y.clone()]
    target = Target(torch.mm, (((x, w), {"out": y}),))
    data = torch.mm(x, w, out=y)
    inputs.find_written()
    controls = Controls(WallClock(), target, None, inputs)
    controls.run(data, 1e6)
    assert controls.calls == 2  # one as given, one on other values
    for tensor, old in zip((x, w, y), before, strict=True):
        assert torch.equal(tensor, old)


def test_the_state_of_torchs_generator_is_the_callers():
    x = torch.randn(64, 64)
    state = torch.get_rng_state()
    measure(torch.mm, (x, x), plan=WARM)
    assert torch.equal(torch.get_rng_state(), state)


def test_an_answer_that_cannot_be_judged_is_noted():
    _, timing = measure(*honest()["integers from a shape"], plan=WARM)
    assert "may be remembered" in timing.notes[0]
    _, timing = measure(*honest()["values it refuses"], plan=WARM)
    assert "no control call: LinAlgError" in timing.notes[0].replace("_", "")


class _Hurried:
    """Loses the processor in the first call on new values, never twice in a row."""

    name, resolution_us, reads_host = "hurried", 0.001, True

    def __init__(self):
        self.seen, self.late = set(), False

    def time(self, targets, rounds, before):
        ((x,), _), *_ = targets[0].sets
        value = float(x.sum())
        self.late = value not in self.seen and not self.late
        self.seen.add(value)
        return [Reading([900.0 if self.late else 9.0], [self.late], targets[0].func(x), 1)]


def test_a_preempted_call_on_new_inputs_is_made_again_on_newer_ones():
    """Its time says nothing of the kernel, and its values are no longer new."""
    x = torch.randn(64)
    clock = _Hurried()
    controls = Controls(clock, Target(torch.neg, (((x,), {}),)), None, Inputs(Snapshot([x])))
    controls.run(torch.neg(x), 9.0)  # the first control call is slow: new is held against seen
    assert len(clock.seen) >= 8
    assert not controls.notes


class _Slow:
    """Slow in the calls on values that differ from the first ones, of the spells that it is told.

    A spell is what follows a call on the first values.
    """

    name, resolution_us, reads_host = "slow", 0.001, True

    def __init__(self, x, spells):
        self.given, self.spells, self.spell, self.scaled = x.clone(), spells, 0, True

    def time(self, targets, rounds, before):
        ((x,), _), *_ = targets[0].sets
        scaled = not torch.equal(x, self.given)
        self.spell += scaled and not self.scaled
        self.scaled = scaled
        return [Reading([90.0 if scaled and self.spell in self.spells else 9.0], [False], -x, 1)]


def others_against_given(spells):
    x = torch.randn(1 << 16)  # which no few moves bring back to where they were
    controls = Controls(_Slow(x, spells), Target(torch.neg, (((x,), {}),)), None,
                        Inputs(Snapshot([x])))  # fmt: skip
    controls._time_others_against_given(FloatInputs([x], []))


def test_one_slow_spell_of_the_machine_is_no_memory_of_the_kernel():
    others_against_given(spells={1})
    others_against_given(spells={2})


def test_slow_whenever_the_values_are_others_is_one():
    with pytest.raises(RefusedError, match="inputs scaled down or moved along 90"):
        others_against_given(spells={1, 2})


class _ByValues:
    """Takes as long as its values ask for."""

    name, resolution_us, reads_host = "by values", 0.001, True

    def __init__(self, work):
        self.work = work

    def time(self, targets, rounds, before):
        ((x,), _), *_ = targets[0].sets
        return [Reading([self.work(x)], [False], targets[0].func(x), 1)]


@pytest.mark.parametrize(
    "work",
    [
        lambda x: 9.0 + 90.0 * float(x.max() < 1.0),  # sampling from what exceeds a bound
        lambda x: 9.0 + 90.0 * float((x.diff() < 0).any()),  # a sort
    ],
    ids=["by size", "by order"],
)
def test_work_that_depends_on_values_is_no_memory(work):
    x = torch.linspace(0.0, 1.0, 64)
    clock = _ByValues(work)
    controls = Controls(clock, Target(torch.neg, (((x,), {}),)), None, Inputs(Snapshot([x])))
    controls.run(torch.neg(x), 9.0)
    assert controls.calls > 10, "the first control call was not suspicious"
