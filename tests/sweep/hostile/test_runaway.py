"""Leaves a process behind that forks and ends, over and over, each time in a session of its own."""

import os

from around import HOSTILE, healthy, sweep

from optest.test_common import benchmark


@benchmark()
def test_runaway(n):
    if n == HOSTILE and os.fork() == 0:
        while True:
            if os.fork():
                os._exit(1)
            os.setsid()
    return healthy()


def main():
    sweep(test_runaway)


if __name__ == "__main__":
    main()
