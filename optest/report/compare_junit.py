"""A comparison as JUnit XML: a suite an op test, a test case a candidate of a case."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from optest.compare.comparison import Comparison, Line
from optest.compare.verdict import Verdict
from optest.compare.words import interval, percent
from optest.report.junit import legal, sum_up, whole

_NO_FILE = "optest compare"


def document(comparison: Comparison) -> str:
    """The whole document; what makes ``optest compare`` exit 1 is a failure in it."""
    root = ET.Element("testsuites", name="optest compare")
    suites: dict[str, list[Line]] = {}
    for line in comparison.lines:
        suites.setdefault(line.file or _NO_FILE, []).append(line)
    for file, lines in suites.items():
        suite = ET.SubElement(root, "testsuite", name=legal(file))
        suite.extend(_case(line) for line in lines)
        sum_up(suite, list(suite))
    return whole(root)


def _case(line: Line) -> ET.Element:
    element = ET.Element(
        "testcase",
        classname=legal(line.candidate or _NO_FILE),
        name=legal(f"{line.case} {line.candidate}".strip()),
        time=f"{line.head_us / 1e6:.9f}" if line.head_us > 0.0 else "0",
    )
    words = legal(_words(line))
    if line.bad:
        ET.SubElement(element, "failure", message=words, type=str(line.verdict)).text = words
    elif line.verdict is Verdict.GONE:
        ET.SubElement(element, "skipped", message=words)
    else:
        ET.SubElement(element, "system-out").text = words
    return element


def _words(line: Line) -> str:
    change = f"{percent(line.ratio)} ({interval(line.low, line.high)})" if line.ratio > 0.0 else ""
    parts = [str(line.verdict), change, line.reason, *line.notes]
    return ": ".join(part for part in parts if part)
