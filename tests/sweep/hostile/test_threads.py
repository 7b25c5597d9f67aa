"""Leaves a thread that never rests."""

import threading

from around import HOSTILE, healthy, sweep

from optest.test_common import benchmark


def work():
    while True:
        pass


@benchmark()
def test_threads(n):
    if n == HOSTILE:
        threading.Thread(target=work, daemon=True, name="restless").start()
    return healthy()


def main():
    sweep(test_threads)


if __name__ == "__main__":
    main()
