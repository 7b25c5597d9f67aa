"""Closes every descriptor it can."""

import os

from around import HOSTILE, healthy, sweep

from optest.test_common import benchmark


@benchmark()
def test_descriptors(n):
    if n == HOSTILE:
        os.closerange(0, 1000)
    return healthy()


def main():
    sweep(test_descriptors)


if __name__ == "__main__":
    main()
