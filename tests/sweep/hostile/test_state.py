"""Changes what torch calculates with."""

import torch
from around import HOSTILE, healthy, sweep

from optest.test_common import benchmark


@benchmark()
def test_state(n):
    if n == HOSTILE:
        torch.set_default_dtype(torch.float64)
        torch.set_num_threads(torch.get_num_threads() + 1)
    return healthy()


def main():
    sweep(test_state)


if __name__ == "__main__":
    main()
