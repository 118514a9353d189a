"""Chromium with an empty page; where it is missing, a test is skipped and says why."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.browser.mermaid import load

if TYPE_CHECKING:
    from playwright.sync_api import Page

_NAMES = ("chromium", "chromium-browser", "google-chrome")
# As root, in a container, and without a word to anywhere.
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


# Of a module: Playwright's event loop runs as long as it is there, and other tests run loops of their own.
@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    """An empty page."""
    program = next(filter(None, map(shutil.which, _NAMES)), None)
    if program is None:
        pytest.skip("Chromium is missing: apt-get install chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is missing: pip install playwright")
    with playwright.sync_playwright() as drivers:
        browser = drivers.chromium.launch(executable_path=program, args=[*_FLAGS])
        # Larger than any picture: nothing is scaled.
        yield browser.new_page(viewport={"width": 2000, "height": 1500})
        browser.close()


@pytest.fixture(scope="module")
def mermaid_page(page: Page) -> Page:
    """A page in which there is Mermaid."""
    load(page)
    return page
