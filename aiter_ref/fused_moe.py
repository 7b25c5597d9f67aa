"""The experts of a mixture: each token through the gated layers of those that its router chose.

    h_e(x) = silu(x @ gate_e.T) * (x @ up_e.T),  silu(v) = v / (1 + exp(-v))
    y      = sum over a token's experts e of weight_e * (h_e(x) @ down_e.T)

Source: Jiang et al., Mixtral of Experts, 2024, section 2.1; DeepSeek-V3 Technical Report, 2024,
equation 12. Everything is fp64 inside. Pairs whose id lies outside of 0 to experts - 1 (those of
another rank under expert parallelism) add nothing.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from aiter_ref import quant
from aiter_ref.cost import Cost

_ACTIVATION = 4  # a power, a sum, a division, the product with the other half
_QUANTISATION = 5  # magnitude, largest, division, both sides of a clamp
_SCALING = 2  # one scale a row, one a column


def fused_moe(
    x: torch.Tensor,
    w_gate_up: torch.Tensor,
    w_down: torch.Tensor,
    weights: torch.Tensor,
    ids: torch.Tensor,
) -> torch.Tensor:
    """Experts in x's own dtype.

    x [m, hidden], w_gate_up [experts, 2 * inter, hidden], w_down [experts, hidden, inter]
    bf16/fp16/fp32, weights [m, topk] fp32, ids [m, topk] int32 -> [m, hidden] of x's dtype.
    """

    def expert(at: int, tokens: torch.Tensor) -> torch.Tensor:
        hidden = _gated(x[tokens].double() @ w_gate_up[at].double().t())
        return hidden @ w_down[at].double().t()

    return _combined(expert, x.shape[-1], weights, ids, len(w_down)).to(x.dtype)


def fused_moe_a8w8(  # noqa: PLR0917 - two weights with their scales
    x: torch.Tensor,
    x_scale: torch.Tensor,
    w_gate_up: torch.Tensor,
    gate_up_scale: torch.Tensor,
    w_down: torch.Tensor,
    down_scale: torch.Tensor,
    weights: torch.Tensor,
    ids: torch.Tensor,
    dtype: torch.dtype,
) -> torch.Tensor:
    """Experts of 8 bits: one scale a token, one an output channel; h is quantised a token too.

    x [m, hidden], w_gate_up [experts, 2 * inter, hidden], w_down [experts, hidden, inter] int8 or
    fp8, x_scale [m, 1], gate_up_scale [experts, 2 * inter, 1], down_scale [experts, hidden, 1],
    weights [m, topk] fp32, ids [m, topk] int32 -> [m, hidden] ``dtype``. Between the products h is
    rounded to fp32 and quantised by the convention of ``aiter_ref.quant``.
    """

    def expert(at: int, tokens: torch.Tensor) -> torch.Tensor:
        made = _scaled(x[tokens], w_gate_up[at], x_scale[tokens], gate_up_scale[at])
        q, scales = quant.dynamic_per_token_quant(_gated(made).float(), x.dtype)
        return _scaled(q, w_down[at], scales, down_scale[at])

    return _combined(expert, x.shape[-1], weights, ids, len(w_down)).to(dtype)


def _gated(gate_up: torch.Tensor) -> torch.Tensor:
    gate, up = gate_up.chunk(2, dim=-1)
    return gate / (1 + torch.exp(-gate)) * up


def _scaled(
    x: torch.Tensor, w: torch.Tensor, x_scale: torch.Tensor, w_scale: torch.Tensor
) -> torch.Tensor:
    return (x.double() @ w.double().t()) * x_scale.double() * w_scale.double().t()


def _combined(
    expert: Callable[[int, torch.Tensor], torch.Tensor],
    hidden: int,
    weights: torch.Tensor,
    ids: torch.Tensor,
    experts: int,
) -> torch.Tensor:
    parts = torch.zeros(*ids.shape, hidden, dtype=torch.float64, device=ids.device)
    for at in range(experts):
        tokens, slots = (ids == at).nonzero(as_tuple=True)
        if len(tokens):
            parts[tokens, slots] = expert(at, tokens)
    return (parts * weights.double().unsqueeze(-1)).sum(1)


def fused_moe_cost(  # noqa: PLR0917 - the sizes of one shape, in order
    m: int, topk: int, hidden: int, inter: int, used: int, itemsize: int
) -> Cost:
    """Of ``fused_moe`` where all pairs have an expert: 6 * hidden * inter a pair, as BLAS counts.

    And the activation's 4 an element of h, a product and a sum an element of what is added up. Of
    the experts the ``used`` ones are read, those that some token has.
    """
    pairs = m * topk
    flops = pairs * (6 * hidden * inter + _ACTIVATION * inter + 2 * hidden)
    nbytes = itemsize * (2 * m * hidden + used * 3 * hidden * inter) + 8 * pairs
    return Cost(flops, nbytes)


def fused_moe_a8w8_cost(  # noqa: PLR0917 - the sizes of one shape, in order
    m: int, topk: int, hidden: int, inter: int, used: int, itemsize: int
) -> Cost:
    """Of ``fused_moe_a8w8`` to results of ``itemsize`` bytes: ``fused_moe_cost`` and its scales.

    Two products by scales an element of either product, the quantisation's 5 an element of h.
    """
    pairs = m * topk
    scaling = _SCALING * (2 * inter + hidden) + _QUANTISATION * inter
    flops = fused_moe_cost(m, topk, hidden, inter, used, 1).flops + pairs * scaling
    operands = m * (hidden + 4) + used * (3 * hidden * inter + 4 * (2 * inter + hidden))
    return Cost(flops, operands + m * hidden * itemsize + 8 * pairs)
