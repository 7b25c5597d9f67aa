"""What came of lowering: one entry for each kernel, specialisation and card."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from importlib import metadata
from pathlib import Path
from typing import Any

from optest.errors import UsageError
from optest.lowering.unit import Cache, Unit

FORM = 1
SUFFIX = ".json"


@dataclass
class Record:
    """A run of ``optest compile``.

    Attributes:
        kernels: ``kernel``, ``target``, ``specialisation``, ``case`` (the first that launches it),
            then the facts, or ``error``; ``excess`` names the card's limits that are exceeded.
        gated: op tests that do not run on a card, with the reason.
        faults: what kept launches from being seen.
        notes: candidates that asked for values that are not known.
        remarks: the same of tests around them.
        compiled: how many kernels were compiled in this run; the others came from the cache.
        cases: that were followed.
    """

    kernels: list[dict[str, Any]] = field(default_factory=list)
    gated: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    compiled: int = 0
    cases: int = 0
    seconds: float = 0.0
    smoke: bool = False
    words: list[str] = field(default_factory=list)
    triton: str = ""
    when: str = ""
    form: int = FORM

    @property
    def failed(self) -> list[dict[str, Any]]:
        """What does not lower, or does not fit the card."""
        return [entry for entry in self.kernels if "error" in entry or entry["excess"]]

    def to_text(self) -> str:
        """As JSON."""
        return json.dumps(asdict(self), indent=1) + "\n"


def assembled(
    found: Mapping[Unit, dict[str, Any] | None], cache: Cache, faults: Mapping[Unit, str]
) -> Record:
    """One record of many units: a kernel that several launch stands there once."""
    record = Record(
        faults=[f"{_name(unit)}: {words}" for unit, words in faults.items()],
        triton=metadata.version("triton"),
        when=time.strftime("%Y-%m-%dT%H:%M:%S"),
    )
    seen: set[str] = set()
    for unit, collected in found.items():
        if collected is None:
            record.faults.append(f"{_name(unit)}: its files changed meanwhile, run again")
            continue
        record.cases += collected["cases"]
        if collected["gated"]:
            record.gated.append(f"{_name(unit)}: {collected['gated']}")
        record.faults += [f"{unit.target}: {words}" for words in collected["faults"]]
        record.notes += [f"{unit.target}: {words}" for words in collected["notes"]]
        record.remarks += [f"{unit.target}: {words}" for words in collected["remarks"]]
        for launch in collected["launches"]:
            made = cache.kernel(launch["key"])
            if launch["key"] in seen:
                continue
            seen.add(launch["key"])
            facts = {"error": "the process that compiled it was ended"} if made is None else made
            record.kernels.append({**launch, "target": unit.target, **facts})
    return record


def load(path: Path) -> Record:
    """A record that was saved.

    Raises:
        UsageError: there is none, or it is none of this form.
    """
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: expected a record of optest compile ({error})") from None
    known = {each.name for each in fields(Record)}
    if not isinstance(found, dict) or found.get("form") != FORM or not known.issuperset(found):
        raise UsageError(f"{path}: expected a record of optest compile, form {FORM}")
    return Record(**found)


def _name(unit: Unit) -> str:
    return f"{Path(unit.path).name} for {unit.target}"
