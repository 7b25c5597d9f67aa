"""Asks to leave and says that all is well."""

from around import HOSTILE, healthy, sweep

from optest.test_common import benchmark


@benchmark()
def test_system_exit(n):
    if n == HOSTILE:
        raise SystemExit(0)
    return healthy()


def main():
    sweep(test_system_exit)


if __name__ == "__main__":
    main()
