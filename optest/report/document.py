"""The page: one file that needs no other, and asks for none."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import time
from importlib import resources
from typing import Any

from optest import __version__
from optest.report import section
from optest.report.chosen import Chosen
from optest.report.compared import compared
from optest.report.failures import failures
from optest.store.records import Peaks, Run

# In this order: each uses what stands before it.
_SCRIPTS = (
    "build",
    "data",
    "scale",
    "marks",
    "plot",
    "roofline",
    "axis",
    "samples",
    "history",
    "query",
    "table",
    "panel",
    "section",
    "failures",
    "compare",
    "main",
)
# What would end a script element, begin a tag or an entity; json.dumps has left no letter beyond
# ASCII, so U+2028 and half surrogate pairs are escaped already.
_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<a class="skip" href="#main">Skip to the results</a>
<main id="main" tabindex="-1"></main>
<noscript>This page draws its tables and pictures with JavaScript, which is switched off.</noscript>
<script type="application/json" id="data">{data}</script>
<script>{script}</script>
</body>
</html>
"""


def page(chosen: Chosen) -> str:
    """The whole document of the chosen runs."""
    return filled(data(chosen))


def data(chosen: Chosen) -> dict[str, Any]:
    """What the page shows, as JSON types."""
    found = section.sections(chosen)
    most = section.samples_each(found)
    return {
        "made": time.time(),
        "optest": __version__,
        "runs": [_run(run) for run in chosen.runs],
        "failures": failures(chosen),
        "compare": compared(chosen),
        "sections": [section.as_json(each, chosen, most) for each in found],
        "peaks": {section.card(each.place): _peaks(each) for each in chosen.peaks.values()},
        "history": {
            "runs": [_run(run) for run in chosen.history.runs],
            "left_out": chosen.history.left_out,
        },
        "thinned": most if most < section.ALL_SAMPLES else 0,
    }


def filled(shown: dict[str, Any]) -> str:
    """The page around its data, which runs no script but its own and opens no connection."""
    style = _asset("page.css")
    script = "\n".join(_asset(f"{name}.js") for name in _SCRIPTS)
    script = f'(() => {{\n"use strict";\n{script}\n}})();\n'
    ids = " ".join(run["id"] for run in shown["runs"])
    return _PAGE.format(
        policy=f"default-src 'none'; script-src {_digest(script)}; style-src {_digest(style)}; "
        "base-uri 'none'; form-action 'none'",
        title=html.escape(f"optest report {ids}"),
        style=style,
        data=embedded(shown),
        script=script,
    )


def embedded(value: object) -> str:
    """JSON that an HTML parser takes for text to its end."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    for letter, escape in _ESCAPES.items():
        text = text.replace(letter, escape)
    return text


def _asset(name: str) -> str:
    return (resources.files("optest.report") / "page" / name).read_text("utf-8")


def _digest(text: str) -> str:
    """What a policy names an inline script or style by."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _run(run: Run) -> dict[str, Any]:
    facts = run.facts
    return {
        "id": run.id,
        "state": run.state,
        "started": run.started,
        "commit": facts.commit,
        "branch": facts.branch,
        "dirty": facts.dirty,
        "mode": facts.mode,
        "host": facts.place.host,
        "gfx": facts.place.gfx,
        "device": facts.place.device,
        "driver": facts.place.driver,
        "versions": facts.place.versions,
        "environment": facts.environment,
        "totals": run.totals,
    }


def _peaks(peaks: Peaks) -> dict[str, Any]:
    ceilings = [
        {"kind": each.kind, "name": each.name, "value": each.value} for each in peaks.ceilings
    ]
    return {"host": peaks.place.host, "measured": peaks.measured, "ceilings": ceilings}
