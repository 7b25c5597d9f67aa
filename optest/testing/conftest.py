"""For task folders whose ``conftest.py`` says ``from optest.testing.conftest import *``.

The plugin comes with the package, so that line is not needed. It does no harm: where the plugin is
not loaded (``PYTEST_DISABLE_PLUGIN_AUTOLOAD``), it loads it, and so does
``-p optest.testing.conftest``; nothing is ever registered twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from optest.testing.options import get_runtime_params_from_argv

if TYPE_CHECKING:
    import pytest

__all__ = ["get_runtime_params_from_argv", "pytest_addoption"]

_NAME = "optest"  # of the entry point


def pytest_addoption(pluginmanager: pytest.PytestPluginManager) -> None:
    """Load the plugin, unless it is there."""
    from optest.testing import plugin

    if not pluginmanager.is_registered(plugin) and not pluginmanager.is_blocked(_NAME):
        pluginmanager.register(plugin, _NAME)
