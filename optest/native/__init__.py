"""Native code: the kernels of csrc and users' own sources, built on first use and cached.

Building needs a C++ compiler and torch 2.10 or later (its stable ABI). Without either, or with
``OPTEST_NATIVE=off``, ``available()`` is False and ``why_not()`` says which.
"""

from __future__ import annotations

from optest.native.library import (
    available,
    csrc,
    csrc_or_none,
    library_path,
    load,
    settle,
    why_not,
)

__all__ = ["available", "csrc", "csrc_or_none", "library_path", "load", "settle", "why_not"]
