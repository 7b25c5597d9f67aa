"""Two forks: three processes come back from a case that one has entered."""

import os

from around import HOSTILE, healthy, sweep

from optest.test_common import benchmark


@benchmark()
def test_forks(n):
    if n == HOSTILE:
        os.fork()
        os.fork()
    return healthy()


def main():
    sweep(test_forks)


if __name__ == "__main__":
    main()
