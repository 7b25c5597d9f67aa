"""Raises with ten megabytes of text."""

from around import HOSTILE, healthy, sweep

from optest.test_common import benchmark


@benchmark()
def test_long_text(n):
    if n == HOSTILE:
        raise RuntimeError("word " * 2_000_000)
    return healthy()


def main():
    sweep(test_long_text)


if __name__ == "__main__":
    main()
