"""Never comes back."""

import time

from around import HOSTILE, healthy, sweep

from optest.test_common import benchmark


@benchmark()
def test_hang(n):
    if n == HOSTILE:
        time.sleep(1000)
    return healthy()


def main():
    sweep(test_hang)


if __name__ == "__main__":
    main()
