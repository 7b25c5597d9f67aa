"""A kernel raises what Ctrl-C raises."""

from around import HOSTILE, healthy, sweep

from optest.test_common import benchmark, run_perftest


def kernel():
    raise KeyboardInterrupt


@benchmark()
def test_interrupt(n):
    if n == HOSTILE:
        run_perftest(kernel)
    return healthy()


def main():
    sweep(test_interrupt)


if __name__ == "__main__":
    main()
