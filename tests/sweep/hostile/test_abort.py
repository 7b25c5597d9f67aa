"""Gives up as a C++ library does."""

import os

from around import HOSTILE, healthy, sweep

from optest.test_common import benchmark


@benchmark()
def test_abort(n):
    if n == HOSTILE:
        os.abort()
    return healthy()


def main():
    sweep(test_abort)


if __name__ == "__main__":
    main()
