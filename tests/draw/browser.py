"""Chromium for tests: pages with their requests and errors."""

from __future__ import annotations

import shutil
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

from graphexec.draw import Recording
from graphexec.draw.page import html

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Dialog, FloatRect, Locator, Page, Request
else:
    # Tests that need no browser run without Playwright.
    Browser = FloatRect = Locator = Page = Request = Any

__all__ = ["Browser", "FloatRect", "Locator", "Page", "Request"]

# First Chromium without its windows, which takes half of the time to open a page.
_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# No background requests, and no screen.
_ARGUMENTS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)
# What the script of a page does at its end.
_USABLE = 'performance.mark("usable")'


@dataclass(frozen=True)
class Opened:
    """A page in the browser, the addresses that it requested, and its errors."""

    page: Page
    requests: list[str] = field(default_factory=list[str])
    faults: list[str] = field(default_factory=list[str])


# What closes the browser that tests of this process share; and that browser, while there is one.
_closing = ExitStack()
_shared: list[Browser] = []


def shared_browser() -> Browser:
    """Return the browser of this process, which `close_shared_browser` closes. Tests have pages of their own in it."""
    if _shared and not _shared[0].is_connected():
        close_shared_browser()
    if not _shared:
        _shared.append(_closing.enter_context(chromium()))
    return _shared[0]


def close_shared_browser() -> None:
    _shared.clear()
    _closing.close()


def shown(page: Page, selector: str) -> str:
    return page.locator(selector).inner_text()


def where(page: Page) -> str:
    """Return the step that the page of a run is at."""
    return shown(page, "#position")


def box_of(element: Locator) -> FloatRect:
    """Return the place of an element that is visible."""
    box = element.bounding_box()
    assert box is not None
    return box


def classes(element: Locator) -> list[str]:
    return (element.get_attribute("class") or "").split()


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def fragment(page: Page) -> str:
    """Return the part of the address after the page's own, which Playwright's `url` learns of later."""
    return str(page.evaluate("decodeURIComponent(location.hash)"))


def sight(page: Page) -> list[float]:
    """Return the part of the drawing that is in sight: x, y, width and height."""
    return [float(one) for one in (page.locator(".view > svg").get_attribute("viewBox") or "").split()]


def wait_for_drawing(page: Page) -> None:
    """Wait until the page has drawn what follows from changes of its size or its theme, which it learns in a frame."""
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def resize(page: Page, width: int, height: int) -> None:
    """Change the size of the window, and wait until the page follows."""
    page.set_viewport_size({"width": width, "height": height})
    page.wait_for_function(f"innerWidth === {width}")
    wait_for_drawing(page)


@contextmanager
def chromium() -> Generator[Browser]:
    """Start the system's Chromium; skip the test if it is not installed."""
    executable = next((path for name in _NAMES if (path := shutil.which(name)) is not None), None)
    if executable is None:
        pytest.skip("there is no Chromium on this system")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=_ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


def refuse(one: Opened, dialog: Dialog) -> None:
    one.faults.append(dialog.message)
    dialog.dismiss()


@contextmanager
def open_page(
    browser: Browser,
    address: str,
    *,
    size: tuple[int, int] = (1440, 900),
    scheme: Literal["light", "dark"] = "light",
    # Any: what Playwright's contexts take, such as `has_touch`.
    **options: Any,
) -> Generator[Opened]:
    """Open a new page; console messages, exceptions and dialogs are errors."""
    page = browser.new_page(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme, **options)
    one = Opened(page)
    page.on("request", lambda request: one.requests.append(request.url))
    page.on("console", lambda message: one.faults.append(message.text))
    page.on("pageerror", lambda error: one.faults.append(str(error)))
    page.on("dialog", lambda dialog: refuse(one, dialog))
    try:
        page.goto(address)
        yield one
    finally:
        page.close()


@contextmanager
def open_text(browser: Browser, folder: Path, text: str, address: str = "", **options: Any) -> Generator[Page]:
    """Open a page from disk, with access to the clipboard; an error of the page, or a request to a server, fails."""
    file = folder / "page.html"
    file.write_text(text, encoding="utf-8")
    with open_page(browser, f"{file.as_uri()}{address}", **options) as one:
        # A page unpacks its records after it is loaded.
        if _USABLE in text:
            one.page.wait_for_function("performance.getEntriesByName('usable').length")
        one.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        yield one.page
        assert one.faults == []
        assert {request.partition("#")[0] for request in one.requests} <= {file.as_uri(), "about:blank"}


def page_of(recording: Recording) -> str:
    """Return the page of a run over its own machine."""
    return html(recording.machine, recording)


class Pages:
    """The pages that a test opens from disk, one after the other: see `open_text`."""

    def __init__(self, browser: Browser, folder: Path) -> None:
        self._browser, self._folder, self._opened = browser, folder, ExitStack()

    def text(self, text: str, address: str = "", **options: Any) -> Page:
        """Close the page before, and open this one."""
        self.close()
        return self._opened.enter_context(open_text(self._browser, self._folder, text, address, **options))

    def run(self, recording: Recording, address: str = "", **options: Any) -> Page:
        """Close the page before, and open that of a run."""
        return self.text(page_of(recording), address, **options)

    def close(self) -> None:
        self._opened.close()
