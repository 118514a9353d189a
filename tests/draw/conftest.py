"""Pages for the tests in a browser."""

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.draw.browser import Browser, Pages

FOLDER = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder that need the browser."""
    for item in items:
        if item.path.parent == FOLDER and "browser" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.browser)


@pytest.fixture
def pages(browser: Browser, tmp_path: Path) -> Generator[Pages]:
    """The pages of a test, whose machines Graphviz lays out; an error of one fails the test."""
    pytest.importorskip("pygraphviz", reason="the page's machine is laid out with Graphviz")
    opened = Pages(browser, tmp_path)
    yield opened
    opened.close()
