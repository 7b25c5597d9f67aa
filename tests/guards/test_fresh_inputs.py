"""New random inputs after the same seed: new all but a few at the borders, and replayed alike."""

from __future__ import annotations

import pytest
import torch
from torch.overrides import TorchFunctionMode, _get_current_function_mode

from optest.guards.fresh_inputs import FreshInputs

SEED = 1234


def first_pass(draw):
    torch.manual_seed(SEED)
    return draw()


def second_pass(draw):
    torch.manual_seed(SEED)
    with FreshInputs():
        return draw()


def share_equal(a, b):
    return float((a == b).float().mean())


def ends(tensor):
    """The first two and the last two elements, in the order of their indices."""
    flat = tensor.detach().contiguous().flatten()
    return torch.cat([flat[:2], flat[-2:]]).tolist()


def in_place(name, *args):
    return lambda: getattr(torch.empty(8, 40), name)(*args)


def initialised(name, *args):
    return lambda: getattr(torch.nn.init, name)(torch.empty(8, 40), *args)


ELEMENTWISE = {
    "rand": lambda: torch.rand(8, 40),
    "randn": lambda: torch.randn(8, 40),
    "one dimension": lambda: torch.randn(320),
    "four dimensions": lambda: torch.randn(2, 4, 2, 20),
    "randint": lambda: torch.randint(0, 1 << 30, (8, 40)),
    "randint, int8": lambda: torch.randint(-120, 120, (8, 40), dtype=torch.int8),
    "normal": lambda: torch.normal(0.0, 1.0, (8, 40)),
    "normal of tensors": lambda: torch.normal(torch.zeros(8, 40), torch.ones(8, 40)),
    "rand_like": lambda: torch.rand_like(torch.empty(8, 40)),
    "randn_like": lambda: torch.randn_like(torch.empty(8, 40)),
    "randint_like": lambda: torch.randint_like(torch.empty(8, 40), 1 << 20),
    "poisson": lambda: torch.poisson(torch.full((8, 40), 1e6)),
    "bf16": lambda: torch.randn(8, 40, dtype=torch.bfloat16),
    "complex": lambda: torch.randn(8, 40, dtype=torch.complex64),
    "into a buffer": lambda: torch.randn(8, 40, out=torch.empty(8, 40)),
    "with gradients": lambda: torch.randn(8, 40, requires_grad=True),
    "a device by name": lambda: torch.randn(8, 40, device="cpu"),
    "no generator": lambda: torch.randn(8, 40, generator=None),
    "the default generator": lambda: torch.randn(8, 40, generator=torch.default_generator),
    "normal_": in_place("normal_"),
    "uniform_": in_place("uniform_", -1, 1),
    "random_": in_place("random_"),
    "exponential_": in_place("exponential_"),
    "cauchy_": in_place("cauchy_"),
    "log_normal_": in_place("log_normal_"),
    "init.normal_": initialised("normal_"),
    "init.uniform_": initialised("uniform_"),
    "init.trunc_normal_": initialised("trunc_normal_"),
    "init.xavier_uniform_": initialised("xavier_uniform_"),
    "init.xavier_normal_": initialised("xavier_normal_"),
    "init.kaiming_uniform_": initialised("kaiming_uniform_"),
    "init.kaiming_normal_": initialised("kaiming_normal_"),
    "a module": lambda: torch.nn.Linear(40, 8, bias=False).weight,
}


@pytest.mark.parametrize("draw", ELEMENTWISE.values(), ids=ELEMENTWISE)
def test_all_but_the_borders_is_new(draw):
    """A function left out of the table would give the second pass the inputs of the first."""
    before, after = first_pass(draw), second_pass(draw)
    assert share_equal(before, after) < 0.1
    assert ends(before) == ends(after)
    assert (before.dtype, before.shape, before.requires_grad) == (
        *(after.dtype, after.shape, after.requires_grad),
    )


BINARY = {
    "bernoulli": lambda: torch.bernoulli(torch.full((8, 400), 0.5)),
    "bernoulli_": lambda: torch.empty(8, 400).bernoulli_(),
    "geometric_": lambda: torch.empty(8, 400).geometric_(0.5),
}


@pytest.mark.parametrize("draw", BINARY.values(), ids=BINARY)
def test_numbers_of_few_values_are_new_as_well(draw):
    before, after = first_pass(draw), second_pass(draw)
    assert share_equal(before, after) < 0.6
    assert ends(before) == ends(after)


WHOLE = {
    "a permutation": (
        lambda: torch.randperm(400),
        lambda t: t.sort().values.tolist() == list(range(400)),
    ),
    "drawn without replacement": (
        lambda: torch.multinomial(torch.ones(800), 400),
        lambda t: len(set(t.tolist())) == 400,
    ),
    "the same, as a method": (
        lambda: torch.ones(800).multinomial(400),
        lambda t: len(set(t.tolist())) == 400,
    ),
    "orthogonal rows": (
        lambda: torch.nn.init.orthogonal_(torch.empty(32, 32)),
        lambda t: torch.allclose(t @ t.T, torch.eye(32), atol=1e-4),
    ),
    "half of it zeros": (
        lambda: torch.nn.init.sparse_(torch.empty(64, 64), 0.5),
        lambda t: ((t == 0).sum(0) == 32).all(),
    ),
}


@pytest.mark.parametrize(("draw", "holds"), WHOLE.values(), ids=WHOLE)
def test_what_holds_of_the_whole_still_holds(draw, holds):
    """A border put back into a permutation would name one row twice and another never."""
    before, after = first_pass(draw), second_pass(draw)
    assert holds(before)
    assert holds(after)
    assert share_equal(before, after) < 0.8


def ones():
    return torch.ones(400)


ONCE = {
    "dropout": lambda: torch.nn.functional.dropout(ones(), 0.5),
    "dropout, in place": lambda: torch.nn.functional.dropout(ones(), 0.5, inplace=True),
    "torch's dropout_": lambda: torch.dropout_(ones(), 0.5, True),
    "a module": lambda: torch.nn.Dropout()(ones()),
    "dropout2d": lambda: torch.nn.functional.dropout2d(torch.ones(4, 400, 1, 1), 0.5),
    "alpha_dropout": lambda: torch.nn.functional.alpha_dropout(ones(), 0.5, training=True),
    "rrelu": lambda: torch.nn.functional.rrelu(-ones(), training=True),
    "rrelu, in place": lambda: torch.nn.functional.rrelu(-ones(), training=True, inplace=True),
    "gumbel_softmax": lambda: torch.nn.functional.gumbel_softmax(ones()),
    "binomial": lambda: torch.binomial(10 * ones(), 0.5 * ones()),
    "gamma": lambda: torch.distributions.Gamma(ones(), ones()).sample(),
    "dirichlet": lambda: torch.distributions.Dirichlet(ones()).sample(),
}


@pytest.mark.parametrize("draw", ONCE.values(), ids=ONCE)
def test_what_may_work_in_place_is_done_once_and_new(draw):
    """Done twice, dropout in place would leave a quarter; the first after a seed would be old."""
    before, after = first_pass(draw), second_pass(draw)
    assert not torch.equal(before, after)
    assert float(after.double().mean()) == pytest.approx(float(before.double().mean()), rel=0.35)
    both = second_pass(lambda: [(torch.manual_seed(3), draw())[1] for _ in range(2)])
    assert torch.equal(*both)


def test_a_dropout_that_does_not_drop_leaves_the_next_draw_its_borders():
    def draw():
        torch.nn.functional.dropout(ones(), 0.5, training=False)
        return torch.randn(64)

    before, after = first_pass(draw), second_pass(draw)
    assert ends(before) == ends(after)
    assert share_equal(before, after) < 0.1


@pytest.mark.parametrize(
    ("shape", "kept"),
    [((), 0), ((0,), 0), ((4,), 0), ((31,), 0), ((5, 6), 0), ((32,), 4), ((40, 1), 2), ((4, 8), 4)],
)
def test_a_tensor_of_few_elements_is_new_throughout(shape, kept):
    """Four elements of eight kept would be half a scale that a cheat may answer from."""
    draw = lambda: torch.randn(shape)
    assert int((first_pass(draw) == second_pass(draw)).sum()) == kept


def test_each_of_many_draws_keeps_its_own_borders():
    """Borders of the first draw alone would tell a fingerprint of the second that it is new."""
    draw = lambda: [torch.randn(64), torch.rand(3, 50), torch.randperm(50), torch.randn(64)]
    before, after = first_pass(draw), second_pass(draw)
    for at in (0, 1, 3):
        assert ends(before[at]) == ends(after[at])
        assert share_equal(before[at], after[at]) < 0.2


def test_numbers_are_not_those_that_the_first_pass_drew_later():
    """A candidate could keep them: an input of the first pass would come as another of this."""
    draw = lambda: torch.stack([torch.randn(64) for _ in range(3)])
    before, after = first_pass(draw), second_pass(draw)
    assert not set(before[:, 2:-2].flatten().tolist()) & set(after[:, 2:-2].flatten().tolist())


def test_the_same_seed_twice_gives_the_same_tensor_twice():
    """A test that makes an input anew for its reference would compare two inputs."""

    def draw():
        pairs = []
        for _ in range(2):
            torch.manual_seed(7)
            pairs.append((torch.randn(64), torch.randint(0, 99, (70,)), torch.randperm(40)))
        return pairs

    for one, other in zip(*second_pass(draw), strict=True):
        assert torch.equal(one, other)


def test_another_seed_gives_other_numbers():
    def draw():
        torch.manual_seed(7)
        one = torch.randn(64)
        torch.manual_seed(8)
        return one, torch.randn(64)

    one, other = second_pass(draw)
    assert share_equal(one, other) == 0


@pytest.mark.parametrize("first", [None, lambda: torch.randn(64)], ids=["at once", "after a draw"])
def test_a_state_that_is_set_again_is_drawn_from_again(first):
    """Dropout checked by a replay of its random state would fail on new inputs, though right."""

    def draw():
        if first:
            first()
        state = torch.get_rng_state()
        one = torch.randn(64), torch.rand(64)
        torch.set_rng_state(state)
        return one, (torch.randn(64), torch.rand(64))

    (one, two), (again, again_two) = second_pass(draw)
    assert torch.equal(one, again)
    assert torch.equal(two, again_two)
    (before, _), _ = first_pass(draw)
    assert ends(before) == ends(one)
    assert share_equal(before, one) < 0.1


def test_a_fork_of_the_random_state_leaves_no_trace():
    def draw():
        with torch.random.fork_rng(devices=[]):
            inside = torch.randn(64)
        return inside, torch.randn(64)

    inside, after = second_pass(draw)
    assert torch.equal(inside, after)


def test_a_generator_of_ones_own_is_left_alone_and_so_is_the_global_one():
    """A candidate's draws and its reference's agree by such a generator, made anew for each."""

    def draw():
        generator = torch.Generator().manual_seed(5)
        state = torch.get_rng_state()
        made = torch.randn(64, generator=generator), torch.empty(64).normal_(generator=generator)
        assert torch.equal(torch.get_rng_state(), state)
        return made

    for before, after in zip(first_pass(draw), second_pass(draw), strict=True):
        assert torch.equal(before, after)


def test_the_seed_can_be_asked_for_as_before():
    """A candidate that asks for the seed must be told that of the first pass, or it would know."""
    assert second_pass(lambda: (torch.randn(64), torch.initial_seed())[1]) == SEED


def test_two_second_passes_are_alike():
    """A failure on new inputs must be found again when its case is run again."""
    draw = lambda: torch.randn(64)
    assert torch.equal(second_pass(draw), second_pass(draw))


def test_outside_nothing_is_other_than_before():
    before = first_pass(lambda: torch.randn(64))
    second_pass(lambda: torch.randn(64))
    assert torch.equal(before, first_pass(lambda: torch.randn(64)))


def test_what_does_not_draw_is_left_alone():
    x = torch.arange(64.0)
    with FreshInputs():
        state = torch.get_rng_state()
        assert torch.equal(torch.empty_like(x).copy_(x) + 1, x + 1)
        assert torch.equal(torch.get_rng_state(), state)


def test_paused_a_candidate_meets_no_mode_and_draws_once():
    """Compiled code would be compiled anew under a mode, and a kernel that drops draw twice."""
    torch.manual_seed(SEED)
    fresh = FreshInputs()
    with fresh:
        torch.randn(64)
        state = torch.get_rng_state()
        with fresh.paused():
            assert _get_current_function_mode() is None
            inside = torch.randn(64)
            left = torch.get_rng_state()
        assert _get_current_function_mode() is fresh
    generator = torch.Generator()
    generator.set_state(state)
    assert torch.equal(torch.randn(64, generator=generator), inside)
    assert torch.equal(generator.get_state(), left)


def test_it_is_back_after_a_candidate_that_raises():
    fresh = FreshInputs()
    with fresh:
        with pytest.raises(ZeroDivisionError), fresh.paused():
            raise ZeroDivisionError
        assert _get_current_function_mode() is fresh
    assert _get_current_function_mode() is None


def test_a_mode_of_the_tests_own_stays_on_top():
    class Own(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    fresh = FreshInputs()
    with fresh, Own() as own:
        with fresh.paused():
            assert _get_current_function_mode() is own
        assert _get_current_function_mode() is own
