"""Puts other modules before those of the interpreter, and counts no garbage."""

import gc
import sys

from around import HOSTILE, healthy, sweep

from optest.test_common import benchmark


@benchmark()
def test_paths(n):
    if n == HOSTILE:
        sys.path.insert(0, "/nowhere")
        gc.disable()
    return healthy()


def main():
    sweep(test_paths)


if __name__ == "__main__":
    main()
