"""The browser of the tests of pages."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

import pytest

from tests.draw.browser import chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def browser() -> Generator[Browser]:
    """Start Chromium for the tests of a module."""
    with chromium() as started:
        yield started
