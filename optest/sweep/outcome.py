"""From what a worker or a script told, the result of a unit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optest.store.records import BAD, GOOD, Place, Planned, Result

if TYPE_CHECKING:
    from optest.sweep.death import Death
    from optest.sweep.wire import Message

_LONGEST_TEXT = 60_000  # two tails, and what stands above them
_LONGEST_REASON = 2_000


def finished(planned: Planned, event: Message, output: str = "") -> Result:
    """Of a case that came to its end; ``output`` is what it printed, kept where it is not good."""
    status = str(event.get("status"))
    reason = str(event.get("reason", ""))
    if status not in (*GOOD, *BAD):
        status, reason = "error", f"its status is {status!r}"
    good = status in GOOD
    if status == "error" and reason == "interrupted":  # nobody outside can: it has its own session
        reason = "KeyboardInterrupt: raised inside the case"
    seconds = _number(event.get("seconds"))
    return Result(
        planned=planned,
        status=status,
        reason=reason[:_LONGEST_REASON],
        text="" if good else output[-_LONGEST_TEXT:],
        seconds=seconds,
        row=_mapping(event.get("row")),
        checks=_list(event.get("checks")),
        findings=_list(event.get("findings")),
        unguarded=_list(event.get("unguarded")),
        left=_list(event.get("left")),
        started=_number(event.get("time")) - seconds,
    )


def died(planned: Planned, death: Death, seconds: float, started: float) -> Result:
    """Of a unit whose process ended."""
    return Result(
        planned=planned,
        status=death.result,
        reason=death.reason[:_LONGEST_REASON],
        text=death.text[-_LONGEST_TEXT:],
        seconds=seconds,
        started=started,
    )


def of_script(file: Planned, event: Message) -> Planned:
    """The case of a script that is run whole, as its events name it."""
    return Planned(
        id=str(event.get("id")),
        file=file.file,
        function=str(event.get("function", "")),
        arguments=_mapping(event.get("arguments")),
        where=file.where,
        position=file.position,
    )


def place_of(message: Message) -> Place:
    """A place as a child told it."""
    told = _mapping(message.get("place"))
    words = {name: str(told.get(name, "")) for name in ("host", "gfx", "device", "driver")}
    versions = {str(k): str(v) for k, v in _mapping(told.get("versions")).items()}
    return Place(**words, versions=versions)


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0
