"""Prints a gigabyte."""

import os

from around import HOSTILE, healthy, sweep

from optest.test_common import benchmark

LINES = (b"x" * 127 + b"\n") * (1 << 13)


@benchmark()
def test_output(n):
    if n == HOSTILE:
        for _ in range(1 << 10):
            os.write(1, LINES)
    return healthy()


def main():
    sweep(test_output)


if __name__ == "__main__":
    main()
