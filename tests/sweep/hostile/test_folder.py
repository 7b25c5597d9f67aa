"""Deletes the folder it works in."""

import os
import tempfile
from pathlib import Path

from around import HOSTILE, healthy, sweep

from optest.test_common import benchmark


@benchmark()
def test_folder(n):
    if n == HOSTILE:
        gone = tempfile.mkdtemp()
        os.chdir(gone)
        Path(gone).rmdir()
    return healthy()


def main():
    sweep(test_folder)


if __name__ == "__main__":
    main()
