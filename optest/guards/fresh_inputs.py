"""New random inputs for a second pass of a case, a few of whose border elements stay as they were.

Inside ``FreshInputs`` a generator that has just been seeded jumps ahead before it is first drawn
from: its seed, which a candidate could ask for, stays the same, and its numbers are others. The
numbers it would have given in the first pass are drawn as well, and the first and last two of each
tensor kept, so that an answer remembered by a look at the corners is the wrong one.

Everything follows from the state of a generator, not from the order of calls: a test that seeds
twice to get the same tensor twice still gets it.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode, _get_current_function_mode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

_JUMP = 1_031
_KEPT = 2
_LEAST = 32
_NAMES = (
    *("rand", "randn", "randint", "normal", "bernoulli", "poisson"),
    *("rand_like", "randn_like", "randint_like"),
    *("normal_", "uniform_", "random_", "exponential_", "cauchy_", "log_normal_", "geometric_"),
    *("bernoulli_", "trunc_normal_"),
    *("xavier_uniform_", "xavier_normal_", "kaiming_uniform_", "kaiming_normal_"),
)
# Their elements depend on one another, so that none may be kept.
_WHOLE = ("randperm", "multinomial", "orthogonal_", "sparse_")
# They may change their argument in place, and so are called once.
_ONCE = (
    *("dropout", "dropout_", "dropout1d", "dropout2d", "dropout3d", "native_dropout"),
    *("alpha_dropout", "alpha_dropout_", "feature_dropout", "feature_dropout_"),
    *("feature_alpha_dropout", "feature_alpha_dropout_", "rrelu", "rrelu_", "gumbel_softmax"),
    *("binomial", "_standard_gamma", "_sample_dirichlet"),
)


def _functions(names: Sequence[str]) -> frozenset[Callable[..., Any]]:
    owners = (torch, torch.Tensor, torch.nn.init, torch.nn.functional)
    found = (getattr(owner, name, None) for owner in owners for name in names)
    return frozenset(function for function in found if function is not None)


_ELEMENTWISE = _functions(_NAMES)
_DRAW_ONCE = _functions(_ONCE)
_DRAWS = _ELEMENTWISE | _functions(_WHOLE) | _DRAW_ONCE


class FreshInputs(TorchFunctionMode):
    """Inside, torch's random functions give other numbers than after the same seed outside."""

    def __init__(self) -> None:
        super().__init__()
        # By a generator's present state: the state it had at this point of the first pass.
        self._first: dict[bytes, torch.Tensor] = {}

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401 - what the function returns
        """Draw twice where ``func`` draws."""
        kwargs = dict(kwargs or {})
        # A generator of one's own may be there to make two draws agree, a candidate's with its
        # reference's: it is left alone.
        own = kwargs.get("generator") not in (None, torch.default_generator)
        if func not in _DRAWS or own:
            return func(*args, **kwargs)
        generator = _default_generator(args, kwargs)

        def draw() -> Any:  # noqa: ANN401
            return func(*args, **kwargs)

        now = generator.get_state()
        before, ahead = self._states(generator, now)
        if func in _DRAW_ONCE:
            result = draw()
            if torch.equal(generator.get_state(), ahead):
                generator.set_state(now)  # it has not drawn
            return result
        generator.set_state(before)
        borders = [part.clone() for part in _borders(draw())]
        after = generator.get_state()
        generator.set_state(ahead)
        result = draw()
        self._first[_key(generator.get_state())] = after
        if func in _ELEMENTWISE:
            for part, held in zip(_borders(result), borders, strict=True):
                part.copy_(held)
        return result

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Inside, it is not there: a candidate draws once, and its compiled code sees no mode."""
        top = _get_current_function_mode()  # type: ignore[no-untyped-call]
        if top is not self:  # under a mode that the test has entered
            yield
            return
        self.__exit__(None, None, None)
        try:
            yield
        finally:
            self.__enter__()

    def _states(
        self, generator: torch.Generator, now: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The state of the first pass and that of this one, whose generator is in state ``now``."""
        first = self._first.get(_key(now))
        if first is not None:
            return first, now
        # Seeded a moment ago, or set to a state that this pass has not seen.
        torch.rand(_JUMP, generator=generator, device=generator.device)
        return now, generator.get_state()


def _key(state: torch.Tensor) -> bytes:
    return state.numpy().tobytes()


def _default_generator(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> torch.Generator:
    named = kwargs.get("device")
    tensors = (value.device for value in args if isinstance(value, torch.Tensor))
    device = torch.device(named) if named is not None else next(tensors, None)
    device = device or torch.get_default_device()
    if device.type != "cuda":
        return torch.default_generator
    index = torch.cuda.current_device() if device.index is None else device.index
    return torch.cuda.default_generators[index]


def _borders(tensor: object) -> Iterator[torch.Tensor]:
    """Views of the first and the last two elements of a tensor that has enough others."""
    if not isinstance(tensor, torch.Tensor) or tensor.numel() < _LEAST or not tensor.dim():
        return
    inner = tensor.detach()
    for at in (0, -1):
        row = inner[(at,) * (inner.dim() - 1)]
        yield row[:_KEPT] if at == 0 else row[-_KEPT:]
