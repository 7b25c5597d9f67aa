"""The k largest of each row (``aiter_ref.topk``): csrc on the CPU, Triton on a GPU."""

from __future__ import annotations

import torch

from optest.ops.dispatch import kernels


def topk_per_row(
    scores: torch.Tensor, lengths: torch.Tensor, k: int, *, out: torch.Tensor | None = None
) -> torch.Tensor:
    """Columns of the ``k`` largest of the first ``lengths[i]`` scores of row i, in any order.

    scores [m, n] bf16/fp16/fp32 with rows of any stride, lengths [m] int32.

    Returns:
        [m, k] int32 (``out``, where it is given); -1 behind the columns of a row shorter than k.
    """
    if out is None:
        out = torch.empty(len(scores), k, dtype=torch.int32, device=scores.device)
    kernels(scores, "topk").topk_per_row(out, scores, lengths)
    return out
