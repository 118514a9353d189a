"""An empty page in Chromium; where it is missing, a test is skipped and says why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.browser.mermaid import load
from tests.draw.browser import chromium

if TYPE_CHECKING:
    from playwright.sync_api import Page


# Of a module: Playwright's event loop runs as long as it is there, and other tests run loops of their own.
@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    """An empty page."""
    with chromium() as browser:
        # Larger than any picture: nothing is scaled.
        yield browser.new_page(viewport={"width": 2000, "height": 1500})


@pytest.fixture(scope="module")
def mermaid_page(page: Page) -> Page:
    """A page in which there is Mermaid."""
    load(page)
    return page
