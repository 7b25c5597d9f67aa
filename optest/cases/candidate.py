"""A candidate with its arguments, as one call of ``run_perftest`` has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optest.tensors import tensors_in

if TYPE_CHECKING:
    from collections.abc import Callable


class Candidate:
    """A function and what to call it with; calling this calls it.

    Attributes:
        reachable: the tensors that the call can reach.
    """

    def __init__(
        self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self.func, self.args, self.kwargs = func, args, kwargs
        self.reachable = tensors_in(func, args, kwargs)

    def __call__(self) -> Any:  # noqa: ANN401 - what a kernel returns
        """Call the function; whatever it raises comes through."""
        return self.func(*self.args, **self.kwargs)

    @property
    def name(self) -> str:
        """What to call it in a sentence."""
        return getattr(self.func, "__name__", type(self.func).__name__)
