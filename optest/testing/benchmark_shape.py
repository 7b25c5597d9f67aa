"""Whether the shape that is timed was checked: the document's warning, made a rule.

A kernel that is right on small inputs and wrong on the ones it is timed on must not get a speedup.
A test speaks for the benchmark if it passed and

- every tensor that the benchmark hands to the kernel has its like, in shape and dtype, among the
  tensors that the test's variables held when it compared, and
- every tensor that the kernel returns has one of as many elements among those compared (one that
  returns none writes an argument: then one of the arguments has).

A test marked ``benchmark_shape(holds=K)`` keeps the dimension over which errors add up, of size K,
and shrinks others: its tensors need only have as many dimensions, none longer, and K where the
benchmark's have K. ``benchmark_shape`` without ``holds`` is its author's word that it speaks for
the benchmark, for tests that compare or time in a way that cannot be seen.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from optest.testing.witness import Outcome, Seen, Shape

_SHOWN = 6


def unchecked(benchmark: Seen | None, tests: Iterable[Outcome], seen: Mapping[str, Seen]) -> str:
    """Why no test speaks for a benchmark; empty where one does.

    Args:
        benchmark: what the benchmark gave to its kernel and got; None where nothing is known.
        tests: the correctness tests of the same run.
        seen: by the test's id, what it compared.
    """
    passed = [test for test in tests if test.outcome == "passed"]
    if any(test.stands and not test.holds for test in passed):
        return ""
    if benchmark is None or not benchmark.given:
        return (
            "what it hands to the kernel is not known (it calls neither measure_runtime nor "
            "measure_runtime_torch with tensors). If a correctness test checks the same shape, "
            "mark it @pytest.mark.benchmark_shape"
        )
    for test in passed:
        own = seen.get(test.id)
        if own is not None and (_same(own, benchmark) or _held(own, benchmark, test.holds)):
            return ""
    checked = {shape for test in passed if test.id in seen for shape in seen[test.id].compared}
    told = f"; they compared {_listed(checked)}" if checked else ": they compared no tensor"
    returned = f" and returns {_listed(benchmark.returned)}" if benchmark.returned else ""
    return (
        f"it times the kernel on {_listed(benchmark.given)}{returned}, and no correctness test did "
        f"so{told}. Check that shape too, or, where it is dear, hold the dimension that errors "
        "add up over and mark the test @pytest.mark.benchmark_shape(holds=<its size>)"
    )


def _same(own: Seen, benchmark: Seen) -> bool:
    given = benchmark.given or set()
    if not given <= own.near:
        return False
    counts = {math.prod(shape.size) for shape in own.compared}
    if benchmark.returned:
        return all(math.prod(shape.size) in counts for shape in benchmark.returned)
    return any(math.prod(shape.size) in counts for shape in given)


def _held(own: Seen, benchmark: Seen, holds: tuple[int, ...]) -> bool:
    """Whether the test keeps the sizes of its mark and only shrinks others."""
    given = benchmark.given or set()
    if not holds or not own.compared:
        return False
    kept = {size for shape in given for size in shape.size}
    return set(holds) <= kept and all(
        any(_shrunk(near, shape, holds) for near in own.near) for shape in given
    )


def _shrunk(near: Shape, shape: Shape, holds: tuple[int, ...]) -> bool:
    return (
        near.dtype == shape.dtype
        and len(near.size) == len(shape.size)
        and all(
            small == large if large in holds else 0 < small <= large
            for small, large in zip(near.size, shape.size, strict=True)
        )
    )


def _listed(shapes: Iterable[Shape]) -> str:
    names = sorted(map(str, shapes))
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
