"""Leaves a process behind that belongs to nobody."""

import subprocess
import sys

from around import HOSTILE, healthy, sweep

from optest.test_common import benchmark

DAEMON = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(1000)
    os._exit(0)
os.wait()
"""


@benchmark()
def test_daemon(n):
    if n == HOSTILE:
        subprocess.run([sys.executable, "-c", DAEMON], check=True)
    return healthy()


def main():
    sweep(test_daemon)


if __name__ == "__main__":
    main()
