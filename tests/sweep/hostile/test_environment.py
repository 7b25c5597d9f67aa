"""Changes the environment."""

import os

from around import HOSTILE, healthy, sweep

from optest.test_common import benchmark


@benchmark()
def test_environment(n):
    if n == HOSTILE:
        os.environ["LEFT_BY_A_CASE"] = "1"
    return healthy()


def main():
    sweep(test_environment)


if __name__ == "__main__":
    main()
