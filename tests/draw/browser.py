"""Chromium for tests: pages that tell every request they made and everything that went wrong in them."""

from __future__ import annotations

import shutil
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Dialog, Page

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# It asks nobody for anything of its own, and needs no screen.
_ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@dataclass(frozen=True)
class Opened:
    """A page in the browser, the addresses that it asked for, and the faults that it told."""

    page: Page
    requests: list[str] = field(default_factory=list[str])
    faults: list[str] = field(default_factory=list[str])


@contextmanager
def chromium() -> Generator[Browser]:
    """Start the system's Chromium; skip the test where there is none."""
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
    """A dialog is a fault, and must not hold the page."""
    one.faults.append(dialog.message)
    dialog.dismiss()


@contextmanager
def opened(
    browser: Browser, address: str, *, size: tuple[int, int] = (1440, 900), scheme: Literal["light", "dark"] = "light"
) -> Generator[Opened]:
    """Open a page of its own; what it says on the console, what it throws, and the dialogs it opens are faults."""
    page = browser.new_page(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)
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
