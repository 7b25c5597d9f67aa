"""Three cases of a test function: the one in the middle is hostile."""

import torch

from optest.test_common import checkAllclose, get_gfx, summarize

HOSTILE = 1


def healthy():
    x = torch.randn(8)
    return {"gfx": get_gfx(), "copy err": checkAllclose(x, x.clone())}


def sweep(test):
    summarize(test.__name__, [test(n) for n in range(3)])
