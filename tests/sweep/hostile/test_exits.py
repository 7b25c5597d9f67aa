"""Ends its process and says that all is well."""

import os

from around import HOSTILE, healthy, sweep

from optest.test_common import benchmark


@benchmark()
def test_exits(n):
    if n == HOSTILE:
        os._exit(0)
    return healthy()


def main():
    sweep(test_exits)


if __name__ == "__main__":
    main()
