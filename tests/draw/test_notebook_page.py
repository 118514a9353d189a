"""The page of a run in a notebook's cell: its script runs in the sandbox of the frame."""

from __future__ import annotations

import pytest

from graphexec.messages import ModelReply, ToolCall
from tests.draw.browser import Frame, Page, Pages, press
from tests.draw.test_notebook import scripted, shown
from tests.parameters import cases


@pytest.fixture
def cell(pages: Pages) -> Page:
    """Return a page with the output of a notebook's cell, as a saved notebook shows it."""
    result = scripted(ModelReply("", (ToolCall("1", "echo", '{"text": "again"}'),)), "Four.").run("2 + 2?")
    return pages.text(f"<!doctype html><meta charset=utf-8><body>{shown(result)['text/html']}</body>")


@pytest.fixture
def frame(cell: Page) -> Frame:
    frame = cell.frames[1]
    frame.wait_for_selector("#position:not(:empty)")
    return frame


def position(frame: Frame) -> str:
    return frame.locator("#position").inner_text()


def test_page_in_a_cell_shows_the_steps(cell: Page, frame: Frame) -> None:
    assert "2 + 2?" in frame.locator("header").inner_text()
    frame.locator("#first").click()
    assert position(frame) == "start"
    for number in range(1, 4):
        press(cell, "ArrowRight")
        assert position(frame).startswith(f"{number} / ")
    assert frame.evaluate("location.href").startswith("about:srcdoc#step=3")
    # Links to steps stay in the frame.
    frame.locator("#first").click()
    press(cell, "ArrowRight", "ArrowRight")
    frame.locator("#detail a.step").first.click()
    assert position(frame).startswith("1 / ")
    assert cell.evaluate("location.href").endswith("page.html")


@pytest.mark.full
@cases("access", ["parent.document", "localStorage", "document.cookie"])
def test_page_in_a_cell_has_no_access_to_the_notebook(frame: Frame, access: str) -> None:
    assert frame.evaluate("origin") == "null"
    assert frame.evaluate(f"(() => {{ try {{ {access}; return false }} catch {{ return true }} }})()")


@pytest.mark.full
def test_page_in_a_cell_copies_and_changes_its_colours(cell: Page, frame: Frame) -> None:
    frame.get_by_role("button", name="copy records").click()
    frame.get_by_role("button", name="copied", exact=True).wait_for()
    before = frame.locator("html").get_attribute("data-theme")
    frame.locator("#list").focus()
    press(cell, "d")
    assert frame.locator("html").get_attribute("data-theme") != before
