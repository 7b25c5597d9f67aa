"""What a saved run was: specs, seed and the source of its golden function, as JSON beside it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from optest.errors import UsageError
from optest.golden import source
from optest.golden.scalar import ScalarSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from optest.golden.kernel import Spec

FILE = "fingerprint.json"
_FORMAT = 1


def write(
    folder: Path, specs: Sequence[Spec], seed: int, golden_fn: Callable[..., object] | None
) -> None:
    """Write ``fingerprint.json``; last of all, so that a folder without it is not complete."""
    record = {
        "format": _FORMAT,
        "specs": [_described(spec) for spec in specs],
        "seed": seed,
        "golden": getattr(golden_fn, "__name__", None),
        "golden_sha256": _source_of(golden_fn),
    }
    (folder / FILE).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def check(folder: Path, specs: Sequence[Spec], golden_fn: Callable[..., object] | None) -> bool:
    """Hold what was saved against what is asked for; False where nothing says what it was.

    Raises:
        UsageError: (a ValueError) other specs, a golden function that was edited since, or a file
            that is no fingerprint; it names the file and says what differs.
    """
    path = folder / FILE
    if not path.exists():
        return False
    record = _read(path)
    found = _differences(record["specs"], [_described(spec) for spec in specs])
    if found:
        raise UsageError(
            f"{path}: saved for other specs: {'; '.join(found)}. Save the run anew (save_data)."
        )
    now = _source_of(golden_fn)
    then = record["golden_sha256"]
    if now is not None and then is not None and now != then:
        raise UsageError(
            f"{path}: the source of golden_fn ({record['golden']}) changed since this was saved, "
            "so what lies there is not what it computes. Save the run anew (save_data), or pass "
            "golden_fn=None to compare with what was saved as it is."
        )
    return True


def _source_of(golden_fn: Callable[..., object] | None) -> str | None:
    return None if golden_fn is None else source.fingerprint(golden_fn, constants=True)


def _described(spec: Spec) -> dict[str, Any]:
    dtype = str(spec.dtype).removeprefix("torch.")
    if isinstance(spec, ScalarSpec):
        return {"name": spec.name, "kind": "scalar", "dtype": dtype}
    return {
        "name": spec.name,
        "kind": "tensor",
        "dtype": dtype,
        "shape": list(spec.shape),
        "direction": spec.direction,
    }


def _read(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from None
    good = isinstance(record, dict) and record.get("format") == _FORMAT
    good = good and isinstance(record.get("specs"), list) and "golden_sha256" in record
    if not good or not all(isinstance(spec, dict) for spec in record["specs"]):
        raise UsageError(f"{path}: expected a fingerprint of format {_FORMAT} that optest wrote")
    return record  # type: ignore[no-any-return]


def _differences(saved: list[dict[str, Any]], now: list[dict[str, Any]]) -> list[str]:
    then_names, names = [str(s.get("name")) for s in saved], [str(s["name"]) for s in now]
    if then_names != names:
        return [f"names {then_names}, now {names}"]
    return [
        f"{new['name']} {key} {old.get(key)}, now {new.get(key)}"
        for old, new in zip(saved, now, strict=True)
        for key in ("kind", "dtype", "shape", "direction")
        if old.get(key) != new.get(key)
    ]
