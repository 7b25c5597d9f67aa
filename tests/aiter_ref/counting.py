"""How many operations a formula takes: counted as it runs, operation by operation."""

from __future__ import annotations

from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

# One an element of the result.
_EACH = set(
    "abs add sub mul div exp log log2 sqrt rsqrt square erf tanh sigmoid maximum minimum round "
    "reciprocal pow ge gt le lt eq ne where bitwise_and bitwise_or clamp_min clamp_max cos sin "
    "ceil floor".split()
)
# One an element of what goes in.
_REDUCED = set("sum mean amax amin max min cumsum".split())
_BOTH_SIDES = {"clamp"}
# Moved, cast, or a sign.
_FREE = set(
    "neg _to_copy detach view _unsafe_view reshape t transpose permute slice select expand clone "
    "split unsqueeze squeeze full full_like empty empty_like zeros ones zeros_like "
    "ones_like cat stack index index_put_ index_put copy_ gather arange alias as_strided "
    "lift_fresh repeat_interleave unbind fill_ scalar_tensor unfold nonzero".split()
)
_PRODUCTS = set("mm bmm addmm baddbmm".split())


class Counted(TorchDispatchMode):
    """Counts while it is entered; matrix products are FlopCounterMode's to count.

    An operation that is in no list is an error: it would be counted as nothing.
    """

    def __init__(self):
        super().__init__()
        self.operations = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        name = name if name in _FREE else name.removesuffix("_")
        first = made[0] if isinstance(made, (tuple, list)) else made
        if name in _EACH or name in _BOTH_SIDES:
            self.operations += first.numel() * (2 if name in _BOTH_SIDES else 1)
        elif name in _REDUCED:
            self.operations += args[0].numel()
        else:
            assert name in _FREE or name in _PRODUCTS, f"{name}: how many operations is it?"
        return made


def operations(formula, *args):
    """Operations of ``formula(*args)``: a multiply-add of a matrix product counts as two."""
    products = FlopCounterMode(display=False)
    with products, Counted() as counted:
        formula(*args)
    return counted.operations + products.get_total_flops()
