"""Closes standard output, Python's and the system's."""

import os
import sys

from around import HOSTILE, healthy, sweep

from optest.test_common import benchmark


@benchmark()
def test_stdout(n):
    if n == HOSTILE:
        sys.stdout.close()
        os.close(1)
    return healthy()


def main():
    sweep(test_stdout)


if __name__ == "__main__":
    main()
