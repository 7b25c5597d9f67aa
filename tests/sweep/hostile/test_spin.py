"""Never comes back and holds the interpreter."""

import re

from around import HOSTILE, healthy, sweep

from optest.test_common import benchmark


@benchmark()
def test_spin(n):
    if n == HOSTILE:
        re.match(r"(a*)*b", "a" * 40)  # looks for a match until the end of days
    return healthy()


def main():
    sweep(test_spin)


if __name__ == "__main__":
    main()
