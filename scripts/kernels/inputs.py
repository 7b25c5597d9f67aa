"""Inputs of a size that no cache holds."""

from __future__ import annotations

import torch


def rows_of(mib: int, length: int, fraction: float = 1.0) -> int:
    """How many rows of ``length`` numbers of 16 bits fill ``fraction`` of ``mib`` MiB."""
    return int(mib * 2**20 * fraction) // (2 * length)


def repeated(block: torch.Tensor, rows: int) -> torch.Tensor:
    """``block`` again and again, [rows, ...]: drawing all of it would take longest."""
    return block.repeat(-(-rows // len(block)), 1)[:rows].contiguous()


def random_rows(rows: int, length: int) -> torch.Tensor:
    """Rows [rows, length] bf16: a block repeated."""
    return repeated(torch.randn(min(rows, 512), length).bfloat16(), rows)
