"""JUnit XML, as the readers of Jenkins, GitLab and GitHub understand it."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from xml.etree import ElementTree as ET

from optest.store.records import Planned, Result
from optest.store.text import bounded
from optest.sweep.executor import Collection
from optest.sweep.sweep_outcome import Outcome

# What XML 1.0 cannot hold, not even as an entity.
_ILLEGAL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]")
_LONGEST = 64 << 10  # characters of one text; readers refuse files of gigabytes
_TAGS = {"failed": "failure", "error": "error", "crashed": "error", "hung": "error"}
_COUNTED = {"failure": "failures", "error": "errors", "skipped": "skipped"}


def document(outcome: Outcome) -> str:
    """The whole document: a suite a file, a test case a case."""
    root = ET.Element("testsuites", name="optest")
    for file in _files(outcome):
        root.append(_suite(file, outcome))
    return whole(root)


def whole(root: ET.Element) -> str:
    """The document of these suites, summed up."""
    sum_up(root, root.iter("testcase"))
    del root.attrib["skipped"]  # Jenkins' schema has it of suites alone
    ET.indent(root)
    body = ET.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{body}\n'


def _files(outcome: Outcome) -> list[str]:
    of_units = (unit.file for unit in outcome.planned)
    return list(dict.fromkeys([*(each.file for each in outcome.collections), *of_units]))


def _suite(file: str, outcome: Outcome) -> ET.Element:
    results = _shown(outcome, file)
    not_run = [unit for unit in outcome.not_run if unit.file == file]
    started = min((result.started for result in results if result.started), default=time.time())
    suite = ET.Element(
        "testsuite",
        name=legal(file),
        timestamp=time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(started)),
        hostname=legal(outcome.facts.place.host),
    )
    suite.extend(_case(result) for result in results)
    suite.extend(_missing(unit) for unit in not_run)
    suite.extend(
        _of_file(each) for each in outcome.collections if each.file == file and _told(each)
    )
    sum_up(suite, list(suite))
    return suite


def _shown(outcome: Outcome, file: str) -> list[Result]:
    """The cases; a script that ran whole where its cases do not say what became of it."""
    of_file = [result for result in outcome.results if result.planned.file == file]
    cases = [result for result in of_file if not result.planned.whole]
    told = {result.planned.key for result in outcome.bad} if cases else None
    return [r for r in of_file if not r.planned.whole or told is None or r.planned.key in told]


def sum_up(element: ET.Element, cases: Iterable[ET.Element]) -> None:
    """Say on a suite, or on all of them, how many of its cases failed."""
    cases = list(cases)
    element.set("tests", str(len(cases)))
    for tag, name in _COUNTED.items():
        element.set(name, str(sum(case.find(tag) is not None for case in cases)))
    element.set("time", f"{sum(float(case.get('time', 0)) for case in cases):.3f}")


def _case(result: Result) -> ET.Element:
    element = _element(result.planned, result.seconds)
    tag = "skipped" if result.status == "skipped" else _TAGS.get(result.status)
    if tag is not None:
        reason = legal(result.reason or result.status)
        child = ET.SubElement(element, tag, message=reason)
        if tag != "skipped":
            child.set("type", result.status)
            child.text = reason
    if result.text:
        ET.SubElement(element, "system-out").text = legal(result.text)
    return element


def _missing(unit: Planned) -> ET.Element:
    element = _element(unit, 0.0)
    ET.SubElement(element, "skipped", message="not run: the sweep ended before")
    return element


def _told(collection: Collection) -> bool:
    return bool(collection.fault or collection.gated)


def _of_file(collection: Collection) -> ET.Element:
    """A file that has no case of its own to stand for it."""
    element = _element(Planned(collection.file, collection.file, where=collection.where), 0.0)
    if collection.fault:
        reason = legal(collection.fault)
        ET.SubElement(element, "error", message=reason, type="fault").text = reason
    else:
        ET.SubElement(element, "skipped", message=legal(collection.gated))
    return element


def _element(unit: Planned, seconds: float) -> ET.Element:
    where = f" on {unit.where}" if unit.where else ""
    return ET.Element(
        "testcase",
        classname=legal(unit.function or unit.file),
        name=legal(unit.id + where),
        file=legal(unit.file),
        time=f"{seconds:.3f}",
    )


def legal(text: str) -> str:
    """``text`` as XML can hold it, without its middle where it is too long."""
    return _ILLEGAL.sub(lambda found: ascii(found[0])[1:-1], bounded(text, _LONGEST))
