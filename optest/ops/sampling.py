"""Drawing the next token (``aiter_ref.sampling``): csrc on the CPU, Triton on a GPU."""

from __future__ import annotations

import torch

from optest.ops.dispatch import kernels


def sampling(  # noqa: PLR0913 - a draw has these numbers
    logits: torch.Tensor,
    top_k: torch.Tensor,
    top_p: torch.Tensor,
    min_p: torch.Tensor,
    uniform: torch.Tensor,
    *,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Draw a token from each row of logits [m, n] bf16/fp16/fp32, rows of any stride.

    top_k [m] int32 (0 keeps all), top_p [m] fp32 (1 keeps all), min_p [m] fp32 (0 keeps all),
    uniform [m] fp32 in [0, 1): the same numbers draw the same tokens.

    Returns:
        [m] int32 (``out``, where it is given); -1 where a row has no token.
    """
    if out is None:
        out = torch.empty(len(logits), dtype=torch.int32, device=logits.device)
    kernels(logits, "sampling").sampling(out, logits, top_k, top_p, min_p, uniform)
    return out
