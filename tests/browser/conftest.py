"""An empty page in Chromium; tests are skipped if Chromium is missing."""

from collections.abc import Iterator

import pytest

from tests.browser.mermaid import load
from tests.draw.browser import Browser, Page


@pytest.fixture(scope="module")
def page(browser: Browser) -> Iterator[Page]:
    """An empty page."""
    # Larger than any picture, so that nothing is scaled.
    empty = browser.new_page(viewport={"width": 2000, "height": 1500})
    yield empty
    empty.close()


@pytest.fixture(scope="module")
def mermaid_page(page: Page) -> Page:
    """A page with Mermaid loaded."""
    load(page)
    return page
