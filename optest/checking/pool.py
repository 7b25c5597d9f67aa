"""Comparators for a paged pool: rows that a mapping names are compared, no other row may change."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from optest.checking import gate_engines, gate_look
from optest.checking.allowance import Allowance, illegal, indented, refused, unlike, weigh
from optest.checking.comparators import Detail
from optest.checking.domain import domain_of
from optest.checking.gate import Allclose, Gate, RelativeDifference, Rows
from optest.checking.mapping import RowMapping
from optest.checking.pair import Pair, pack_of
from optest.checking.parameters import limit, number, share
from optest.checking.ratio import OfRun, rule_for

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optest.checking.comparators import Comparator
    from optest.checking.gate import GateTable

_SHOWN_ROWS = 10


def mapped_pool_ratio_allclose(  # noqa: PLR0913 - upstream's signature
    mapping_name: str,
    *,
    mapping_shape: Sequence[int],
    block_size: int,
    leading_rank_axis: bool = False,
    pool_name: str = "pool",
    atol: float | None = None,
    rtol: float | None = None,
    max_error_ratio: float = 0.005,
) -> Comparator:
    """A comparator for a paged pool [blocks, block_size, ...] whose rows an input tensor names.

    Row ``b * block_size + i`` is entry i of block b. Rows that the mapping names must be finite and
    are compared as ``ratio_allclose`` does, all together; every other row must equal the golden's
    in every bit, NaN included. Of the mapping, -1 names no row; other negative entries, rows beyond
    the pool, a row named twice, a dtype that is no integer or another shape fail.

    Args:
        mapping_name: the input that holds the mapping.
        mapping_shape: its whole shape, ranks included.
        block_size: rows in one block, the pool's dimension of that name.
        leading_rank_axis: the pool is [ranks, blocks, block_size, ...] and the mapping
            [ranks, ...]; rows count anew in every rank, where a row may be named once each.
        pool_name: what messages call the pool.
        atol: as in ``ratio_allclose``.
        rtol: as in ``ratio_allclose``.
        max_error_ratio: as in ``ratio_allclose``, of the elements in mapped rows.

    Returns:
        A comparator of the protocol in ``optest.checking.comparators``.

    Raises:
        UsageError: (a ``ValueError``) a parameter that can have no meaning.
    """
    rule = OfRun.of(atol, rtol)
    mapping = RowMapping.of(mapping_name, mapping_shape, block_size, leading_rank_axis, pool_name)
    allowance = Allowance("mapped_pool_ratio_allclose", share("max_error_ratio", max_error_ratio))
    return _MappedPool(mapping, rule, allowance, f"{rule}, max_error_ratio={allowance.ratio}")


def mapped_pool_ratio_reldiff(  # noqa: PLR0913 - upstream's signature
    mapping_name: str,
    *,
    mapping_shape: Sequence[int],
    block_size: int,
    leading_rank_axis: bool = False,
    pool_name: str = "pool",
    diff_thd: float = 0.01,
    pct_thd: float = 0.05,
    max_diff_hd: float = math.inf,
) -> Comparator:
    """``mapped_pool_ratio_allclose`` with the rule of ``ratio_reldiff`` for mapped rows.

    Args:
        mapping_name: as there.
        mapping_shape: as there.
        block_size: as there.
        leading_rank_axis: as there.
        pool_name: as there.
        diff_thd: as in ``ratio_reldiff``.
        pct_thd: as in ``ratio_reldiff``, of the elements in mapped rows.
        max_diff_hd: as in ``ratio_reldiff``.

    Returns:
        A comparator of the protocol in ``optest.checking.comparators``.

    Raises:
        UsageError: (a ``ValueError``) a parameter that can have no meaning.
    """
    mapping = RowMapping.of(mapping_name, mapping_shape, block_size, leading_rank_axis, pool_name)
    rule = RelativeDifference(number("diff_thd", diff_thd, above=True))
    kind = "mapped_pool_ratio_reldiff"
    allowance = Allowance(kind, share("pct_thd", pct_thd), limit("max_diff_hd", max_diff_hd))
    words = f"diff_thd={rule.threshold}, pct_thd={allowance.ratio}, max_diff_hd={allowance.cap}"
    return _MappedPool(mapping, rule, allowance, words)


@dataclass(frozen=True)
class _MappedPool:
    mapping: RowMapping
    rule: OfRun | RelativeDifference
    allowance: Allowance
    words: str

    @property
    def __name__(self) -> str:
        return f"{self.allowance.kind}({self.mapping}, {self.words})"

    def __call__(  # noqa: PLR0913 - the protocol
        self,
        actual: torch.Tensor,
        expected: torch.Tensor,
        *,
        actual_outputs: Mapping[str, torch.Tensor],  # noqa: ARG002
        expected_outputs: Mapping[str, torch.Tensor],  # noqa: ARG002
        inputs: Mapping[str, object],
        rtol: float,
        atol: float,
    ) -> tuple[bool, str]:
        rule = rule_for(self.rule, expected, rtol=rtol, atol=atol)
        return _judge(actual, expected, inputs, self.mapping, rule, self.allowance)


@torch.no_grad()
def _judge(  # noqa: PLR0913, PLR0917 - a comparator's parameters and the pair
    actual: torch.Tensor,
    expected: torch.Tensor,
    inputs: Mapping[str, object],
    mapping: RowMapping,
    rule: Allclose | RelativeDifference,
    allowance: Allowance,
) -> tuple[bool, str]:
    if reason := unlike(actual, expected) or mapping.refusal(actual, inputs):
        return refused(f"{allowance.kind} fail: {reason}", expected.numel())
    if not actual.numel():
        return True, Detail("nothing to compare", mismatched=0, compared=0)
    named = inputs[mapping.name]
    assert isinstance(named, torch.Tensor)
    flags = mapping.flags(named, actual)
    gate = _gate(actual, expected, rule, flags)
    table = gate_engines.scan(gate)
    if changed := table.count("changed"):
        rows = _changed_rows(gate, table, mapping, actual)
        text = f"unmapped physical pool row changed: {rows} ({changed} elements in all)"
        return _failed(f"{allowance.kind} fail: {text}", changed, gate.pair.values)
    compared = np.count_nonzero(flags.cpu().numpy()) * (gate.pair.values // len(flags))
    if not compared:
        return True, Detail("no row is mapped, none changed", mismatched=0, compared=0)
    if table.illegal:
        text = f"{mapping.pool} mapped rows hold non-finite values: {illegal(table)}"
        return _failed(f"{allowance.kind} fail: {text}", table.illegal, compared)
    return weigh(gate, table, allowance, compared)


def _gate(
    actual: torch.Tensor,
    expected: torch.Tensor,
    rule: Allclose | RelativeDifference,
    flags: torch.Tensor,
) -> Gate:
    # A view wherever rows can be one: a pool whose rows are scattered in memory is copied.
    a, b = (side.detach().reshape(len(flags), -1) for side in (expected, actual))
    order = tuple(range(actual.ndim))
    pair = Pair(a, b, tuple(actual.shape), order, pack_of(actual.dtype))
    return Gate(pair, domain_of(a.dtype, b.dtype), rule, rows=Rows(flags, a.shape[1]))


def _changed_rows(gate: Gate, table: GateTable, mapping: RowMapping, pool: torch.Tensor) -> str:
    sizes = pool.shape[: int(mapping.ranked) + 2]
    rows: dict[str, None] = {}
    for coordinates in gate_look.changed_blocks(gate, table):
        for row in sorted(set(_row_numbers(coordinates, sizes).tolist())):
            rows.setdefault(mapping.row(row, pool))
            if len(rows) > _SHOWN_ROWS:
                return ", ".join(list(rows)[:_SHOWN_ROWS]) + ", ..."
    return ", ".join(rows)


def _row_numbers(coordinates: torch.Tensor, sizes: Sequence[int]) -> torch.Tensor:
    row = torch.zeros(len(coordinates), dtype=torch.int64, device="cpu")
    for dim, size in enumerate(sizes):
        row = row * size + coordinates[:, dim]
    return row


def _failed(text: str, mismatched: int, compared: int) -> tuple[bool, Detail]:
    return False, Detail(indented(text), mismatched=min(mismatched, compared), compared=compared)
