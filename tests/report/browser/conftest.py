"""A Chromium of the system's, and pages of a report opened in it."""

from __future__ import annotations

import importlib.util
import os
import shutil

import pytest
import report_examples as examples

from optest.report import chosen, document
from optest.store import Store

HOW_TO_INSTALL = (
    "no Chromium on PATH: apt-get install chromium, or run .ci/run, which does; its driver: "
    "scripts/setup test"
)


def program():
    """The path of a Chromium, or None."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next(filter(None, map(shutil.which, names)), None)


@pytest.fixture(scope="session")
def browser():
    """Left out where there is none, saying how to install it; fails in CI."""
    if program() is None or importlib.util.find_spec("playwright") is None:
        if os.environ.get("CI"):
            pytest.fail(HOW_TO_INSTALL, pytrace=False)
        pytest.skip(HOW_TO_INSTALL)
    from playwright.sync_api import sync_playwright

    # As root Chromium refuses its sandbox; the pages are the tests' own.
    words = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=program(), args=words)
        yield opened
        opened.close()


class Watched:
    """A tab and what it did beside showing the page."""

    def __init__(self, tab):
        self.tab = tab
        self.requests, self.errors = [], []
        tab.on("request", lambda request: self.requests.append(request.url))
        tab.on("pageerror", lambda error: self.errors.append(str(error)))
        tab.on("console", lambda message: self.errors.append(message.text))
        tab.on("dialog", self._refuse)

    def _refuse(self, dialog):
        self.errors.append(f"a dialog: {dialog.message}")
        dialog.dismiss()


@pytest.fixture
def open_page(browser):
    """``open_page(path, **context)`` gives a ``Watched`` tab; errors of the page fail the test."""
    contexts, opened = [], []

    def go(path, **context):
        contexts.append(browser.new_context(**context))
        watched = Watched(contexts[-1].new_page())
        opened.append(watched)
        watched.tab.goto(path.as_uri())
        return watched

    yield go
    for watched in opened:
        watched.tab.wait_for_timeout(50)  # what a page does late is seen too
    errors = [error for watched in opened for error in watched.errors]
    for context in contexts:
        context.close()
    assert errors == []


@pytest.fixture(scope="session")
def pages(tmp_path_factory):
    """Reports of a small store: ``history`` of its newest run, ``two`` of its first and last."""
    folder = tmp_path_factory.mktemp("report")
    with Store.open(f"sqlite:///{folder / 'results.sqlite'}") as store:
        examples.with_peaks(store)
        first, *_ = (
            examples.keep(store, examples.sweep(slower=slower))
            for slower in (1.0, 1.002, 0.998, 1.0, 1.2, 1.201)
        )
        last = examples.keep(store, [*examples.sweep(slower=1.199), *examples.failing()])
        out = {}
        for name, refs in (("history", [last]), ("two", [first, last])):
            out[name] = folder / f"{name}.html"
            out[name].write_text(document.page(chosen.read(store, refs, 30)), "utf-8")
    return out


@pytest.fixture
def tab(open_page, pages):
    """A tab on the report of one run, its pictures drawn."""
    opened = open_page(pages["history"], viewport={"width": 1280, "height": 900}).tab
    opened.locator("section.function").scroll_into_view_if_needed()
    opened.wait_for_selector("svg.plot .mark")
    return opened
