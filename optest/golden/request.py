"""What the caller of ``run`` asked for, checked before anything is compiled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optest.checking import Tolerance
from optest.checking.distribution import error_distribution
from optest.checking.pool import mapped_pool_ratio_allclose, mapped_pool_ratio_reldiff
from optest.checking.ratio import ratio_allclose, ratio_reldiff
from optest.checking.topk import topk_pair_compare
from optest.errors import UsageError
from optest.golden.scalar import ScalarSpec
from optest.golden.spec import TensorSpec

if TYPE_CHECKING:
    from optest.checking import Comparator
    from optest.golden.config import Config
    from optest.golden.kernel import Spec

_FACTORIES: dict[str, object] = {
    "error_distribution": error_distribution,
    "mapped_pool_ratio_allclose": mapped_pool_ratio_allclose,
    "mapped_pool_ratio_reldiff": mapped_pool_ratio_reldiff,
    "ratio_allclose": ratio_allclose,
    "ratio_reldiff": ratio_reldiff,
    "topk_pair_compare": topk_pair_compare,
}


@dataclass(frozen=True)
class Request:
    """The arguments of ``run``; it documents them."""

    fn: Any
    specs: Sequence[Spec]
    golden_fn: Callable[[dict[str, Any]], object] | None
    golden_data: Path | None
    config: Config
    rtol: float
    atol: float
    compare_fn: Mapping[str, Comparator] = field(default_factory=dict)
    compile_only: bool = False
    runtime_dir: Path | None = None
    save_data: bool = False

    @property
    def validates(self) -> bool:
        """Whether there is anything to hold the outputs against."""
        return self.golden_fn is not None or self.golden_data is not None

    @property
    def tensors(self) -> list[TensorSpec]:
        """The tensor specs, in order."""
        return [spec for spec in self.specs if isinstance(spec, TensorSpec)]

    @property
    def scalars(self) -> list[ScalarSpec]:
        """The scalar specs, in order."""
        return [spec for spec in self.specs if isinstance(spec, ScalarSpec)]

    @property
    def stepped(self) -> list[ScalarSpec]:
        """Scalars that change from dispatch to dispatch of a benchmark."""
        return [spec for spec in self.scalars if spec.has_benchmark_step]

    def check(self) -> None:
        """Refuse what no kernel is needed to refuse.

        Raises:
            UsageError: (a ValueError) arguments that exclude each other, no list of specs, a name
                given twice, comparators or a golden function that cannot be called.
        """
        if self.compile_only and self.runtime_dir is not None:
            raise UsageError("runtime_dir is incompatible with compile_only")
        self._check_specs()
        Tolerance(self.rtol, self.atol)  # refuses what is no tolerance
        if self.golden_fn is not None and not callable(self.golden_fn):
            raise UsageError(
                f"golden_fn is a {type(self.golden_fn).__name__}: expected a function that takes "
                "a dict of tensors and numbers by name and fills its outputs"
            )
        if self.stepped and self.config.enable_chip_swimlane:
            raise UsageError(
                "benchmark_step is incompatible with enable_chip_swimlane, whose timeline calls "
                f"the kernel again with the same scalars: {sorted(s.name for s in self.stepped)}"
            )
        self._check_comparators([spec.name for spec in self.specs], "spec")

    def check_comparators(self) -> None:
        """Refuse a comparator for what is no output; after the directions are known.

        Raises:
            UsageError: naming it, and the outputs.
        """
        self._check_comparators([spec.name for spec in self.tensors if spec.is_output], "output")

    def _check_specs(self) -> None:
        for at, spec in enumerate(self.specs):
            if not isinstance(spec, (TensorSpec, ScalarSpec)):
                raise UsageError(
                    f"specs[{at}] is a {type(spec).__name__}: expected a TensorSpec or a ScalarSpec"
                )
        counts = Counter(spec.name for spec in self.specs)
        if twice := sorted(name for name, count in counts.items() if count > 1):
            raise UsageError(f"duplicate spec names: {twice}")

    def _check_comparators(self, names: list[str], what: str) -> None:
        if unknown := sorted(str(name) for name in self.compare_fn if name not in names):
            raise UsageError(
                f"compare_fn has {', '.join(map(repr, unknown))}, which names no {what}: "
                f"expected {', '.join(names) or 'none, since there is none'}"
            )
        for name, comparator in self.compare_fn.items():
            if not callable(comparator):
                raise UsageError(
                    f"compare_fn[{name!r}] is a {type(comparator).__name__}: expected a comparator"
                )
            for made, factory in _FACTORIES.items():
                if comparator is factory:
                    raise UsageError(
                        f"compare_fn[{name!r}] is {made} itself: call it, as {made}(), which gives "
                        "a comparator"
                    )
