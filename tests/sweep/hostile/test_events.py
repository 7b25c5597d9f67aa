"""Puts a folder where its events file was. It cannot be collected: it is run whole."""

import os
from pathlib import Path

from around import HOSTILE, healthy

from optest.test_common import benchmark


@benchmark()
def test_events(n):
    if n == HOSTILE:
        events = Path(os.environ["OPTEST_EVENTS"])
        events.unlink()
        events.mkdir()
    return healthy()


def main():
    rows = [test_events(n) for n in range(3)]
    assert rows[0]["copy err"] == 0  # rows of collecting have no such column


if __name__ == "__main__":
    main()
