"""The fixtures of a task. ``kernel``, ``device`` and ``data`` are the task's own."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from optest import settings
from optest.errors import OptestError
from optest.testing import clocks
from optest.testing.options import template_params
from optest.testing.profiler import LABEL
from optest.testing.store import ProfileStore

if TYPE_CHECKING:
    from collections.abc import Callable

    _Function = Callable[..., Any]

STORE: pytest.StashKey[ProfileStore] = pytest.StashKey()
NAMES = frozenset(
    "use_reference profile_store template_args_wrapper profiler_test_label measure_runtime "
    "measure_runtime_torch torch_profile".split()
)


def store_of(config: pytest.Config) -> ProfileStore:
    """The one store of a run."""
    if STORE not in config.stash:
        config.stash[STORE] = ProfileStore()
    return config.stash[STORE]


@pytest.fixture(scope="session")
def use_reference(request: pytest.FixtureRequest) -> bool:
    """Whether ``--ref`` was given: the task's ``kernel`` is then to be its reference."""
    return bool(request.config.getoption("--ref"))


@pytest.fixture(scope="session")
def profile_store(request: pytest.FixtureRequest) -> ProfileStore:
    """Where a benchmark records its runtimes: ``profile_store[request.node.nodeid] = [ms, …]``.

    A dict of test ids. The timed trials belong inside ``profiler_session``; runtimes recorded
    without one are refused.
    """
    return store_of(request.config)


@pytest.fixture(scope="session")
def template_args_wrapper(request: pytest.FixtureRequest) -> Callable[[_Function], _Function]:
    """Gives a function that calls the kernel with ``--template_params`` behind its own arguments.

    Without ``--is_templated`` it gives the kernel itself.
    """
    config = request.config
    text = config.getoption("--template_params")
    if not config.getoption("--is_templated") or text is None:
        return lambda function: function
    appended = template_params(text)

    def wrap(function: _Function) -> _Function:
        def call(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the kernel's own
            return function(*args, *appended, **kwargs)

        return call

    return wrap


@pytest.fixture
def profiler_test_label(request: pytest.FixtureRequest) -> str:
    """What ``KERNELFOUNDRY_PROFILE_LABEL`` holds while the test runs: its id."""
    return os.environ.get(LABEL, str(request.node.nodeid))


@pytest.fixture
def measure_runtime(request: pytest.FixtureRequest, profile_store: ProfileStore) -> _Function:
    """``optest.testing.measure_runtime``, recording in ``profile_store``."""

    def measure(target: _Function, *args: Any, **kwargs: Any) -> list[float]:  # noqa: ANN401
        from optest.testing import measuring

        return _recorded(request, profile_store, measuring.measure_runtime, target, args, kwargs)

    return measure


@pytest.fixture
def measure_runtime_torch(request: pytest.FixtureRequest, profile_store: ProfileStore) -> _Function:
    """``optest.testing.measure_runtime_torch``, recording in ``profile_store``."""

    def measure(target: _Function, *args: Any, **kwargs: Any) -> list[float]:  # noqa: ANN401
        from optest.testing import measuring

        how = measuring.measure_runtime_torch
        return _recorded(request, profile_store, how, target, args, kwargs)

    return measure


@pytest.fixture
def torch_profile(measure_runtime_torch: _Function) -> _Function:
    """The old name of ``measure_runtime_torch``, deprecated upstream too."""
    return measure_runtime_torch


def _recorded(  # noqa: PLR0913, PLR0917 - a call and where it belongs
    request: pytest.FixtureRequest,
    store: ProfileStore,
    how: _Function,
    target: _Function,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> list[float]:
    """Measure and record; a refusal is remembered, so that no test can pass over it."""
    mode = settings.get_str("OPTEST_MODE")
    if mode != "run":
        pytest.skip(f"OPTEST_MODE={mode}: nothing is timed")
    try:
        clocks.check_all()
        runtimes: list[float] = how(target, *args, **kwargs)
    except OptestError as error:
        store.refused = str(error)
        raise
    store.of(request.node.nodeid).extend(runtimes)
    return runtimes
