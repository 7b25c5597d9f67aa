"""Leaves two children behind that wait for ever."""

import os
import time

from around import HOSTILE, healthy, sweep

from optest.test_common import benchmark


@benchmark()
def test_children(n):
    if n == HOSTILE:
        for _ in range(2):
            if os.fork() == 0:
                time.sleep(1000)
    return healthy()


def main():
    sweep(test_children)


if __name__ == "__main__":
    main()
