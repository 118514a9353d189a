"""An empty page in Chromium; tests are skipped if Chromium is missing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.browser.mermaid import load
from tests.draw.browser import chromium

if TYPE_CHECKING:
    from playwright.sync_api import Page


# Scope "module": Playwright's event loop runs until it is closed, and other tests run loops of their own.
@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    """An empty page."""
    with chromium() as browser:
        # Larger than any picture, so that nothing is scaled.
        yield browser.new_page(viewport={"width": 2000, "height": 1500})


@pytest.fixture(scope="module")
def mermaid_page(page: Page) -> Page:
    """A page with Mermaid loaded."""
    load(page)
    return page
