"""Which rows of a paged pool an input tensor names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from optest.checking.parameters import flag, whole
from optest.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

_UNMAPPED = -1


@dataclass(frozen=True)
class RowMapping:
    """Where the mapping is, and how the pool it names rows of is laid out."""

    name: str
    shape: tuple[int, ...]
    block_size: int
    ranked: bool
    pool: str

    @classmethod
    def of(
        cls, name: str, shape: Sequence[int], block_size: int, ranked: bool, pool: str
    ) -> RowMapping:
        """From a comparator's parameters.

        Raises:
            UsageError: one that can have no meaning.
        """
        for parameter, value in (("mapping_name", name), ("pool_name", pool)):
            if not isinstance(value, str) or not value:
                raise UsageError(f"{parameter}={value!r}: expected a name.")
        if not isinstance(shape, Sequence) or isinstance(shape, str):
            raise UsageError(f"mapping_shape={shape!r}: expected the sizes of the mapping.")
        sizes = tuple(whole("mapping_shape", size, 0) for size in shape)
        flag("leading_rank_axis", ranked)
        if ranked and not sizes:
            raise UsageError(f"mapping_shape={shape!r}: expected the number of ranks first.")
        return cls(name, sizes, whole("block_size", block_size, 1), ranked, pool)

    def __str__(self) -> str:
        return (
            f"{self.pool}, mapping={self.name}, mapping_shape={self.shape}, "
            f"block_size={self.block_size}, leading_rank_axis={self.ranked}"
        )

    def ranks(self, pool: torch.Tensor) -> int:
        """Ranks of the pool, 1 where it has no such axis."""
        return pool.shape[0] if self.ranked else 1

    def refusal(self, pool: torch.Tensor, inputs: Mapping[str, object]) -> str:
        """Why the mapping does not fit the pool; empty where it does."""
        first = int(self.ranked)
        dims = "[ranks, blocks, block_size, ...]" if self.ranked else "[blocks, block_size, ...]"
        if pool.ndim < first + 2 or pool.shape[first + 1] != self.block_size:
            return (
                f"{self.pool} has shape {tuple(pool.shape)}, expected {dims} with "
                f"block_size={self.block_size}"
            )
        mapping = inputs.get(self.name)
        if not isinstance(mapping, torch.Tensor):
            return (
                f"compare_fn misconfigured: mapping_name='{self.name}' is no tensor among the "
                f"inputs (inputs={list(inputs)})"
            )
        if mapping.is_floating_point() or mapping.is_complex() or mapping.dtype == torch.bool:
            return f"mapping '{self.name}' must have an integer dtype, got {mapping.dtype}"
        if tuple(mapping.shape) != self.shape:
            return f"mapping '{self.name}' must have shape {self.shape}, got {tuple(mapping.shape)}"
        if self.ranked and self.shape[0] != pool.shape[0]:
            return f"mapping '{self.name}' has {self.shape[0]} ranks, {self.pool} {pool.shape[0]}"
        return self._bad_rows(mapping, pool)

    def _bad_rows(self, mapping: torch.Tensor, pool: torch.Tensor) -> str:
        rows = self.rows(pool)
        for rank, entries in enumerate(self._entries(mapping, pool)):
            where = f"mapping '{self.name}'" + (f" rank={rank}" if self.ranked else "")
            if not entries.size:
                continue
            least, most = int(entries.min()), int(entries.max())
            if least < _UNMAPPED:
                return f"{where} holds {least}; only -1 is a negative sentinel"
            if most >= rows:
                return f"{where} holds {most}, outside the physical row range [0, {rows})"
            named = entries[entries >= 0] if least < 0 else entries
            if np.count_nonzero(_marked(named, rows)) < named.size:  # counting each costs more
                twice = int(np.bincount(named).argmax())
                return f"{where} names duplicate physical row {twice}"
        return ""

    def _entries(self, mapping: torch.Tensor, pool: torch.Tensor) -> np.ndarray[Any, Any]:
        # In numpy: torch would wake its threads for so little.
        return mapping.to("cpu", torch.int64).reshape(self.ranks(pool), -1).numpy()

    def rows(self, pool: torch.Tensor) -> int:
        """Rows of one rank."""
        return pool.shape[int(self.ranked)] * self.block_size

    def flags(self, mapping: torch.Tensor, pool: torch.Tensor) -> torch.Tensor:
        """uint8 [ranks * rows], 1 where a row is named."""
        rows = self.rows(pool)
        ranks = [_marked(entries[entries >= 0], rows) for entries in self._entries(mapping, pool)]
        return torch.from_numpy(np.concatenate(ranks)).to(pool.device)

    def row(self, row: int, pool: torch.Tensor) -> str:
        """A row of all ranks in words."""
        rank, own = divmod(row, self.rows(pool))
        return f"rank={rank} row={own}" if self.ranked else f"row={own}"


def _marked(named: np.ndarray[Any, Any], rows: int) -> np.ndarray[Any, Any]:
    """uint8 [rows], 1 where a row is named."""
    marks = np.zeros(rows, dtype=np.uint8)
    marks[named] = 1
    return marks
