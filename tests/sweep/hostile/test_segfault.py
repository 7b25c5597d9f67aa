"""Reads memory at address zero."""

import ctypes

from around import HOSTILE, healthy, sweep

from optest.test_common import benchmark


@benchmark()
def test_segfault(n):
    if n == HOSTILE:
        ctypes.string_at(0)
    return healthy()


def main():
    sweep(test_segfault)


if __name__ == "__main__":
    main()
