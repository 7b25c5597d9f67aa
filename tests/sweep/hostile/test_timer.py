"""Sets an alarm that kills its process later."""

import signal

from around import HOSTILE, healthy, sweep

from optest.test_common import benchmark


@benchmark()
def test_timer(n):
    if n == HOSTILE:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, 1.0)
    return healthy()


def main():
    sweep(test_timer)


if __name__ == "__main__":
    main()
