"""The page of a run in a notebook's cell: its script runs in the sandbox of the frame."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from graphexec import AgentExecutor, create_tool_calling_agent
from graphexec.messages import ModelReply, ToolCall
from graphexec.models import ScriptedModel
from tests.draw.browser import Opened, open_page
from tests.draw.test_notebook import shown
from tests.executor.actors import echo

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Frame

pytestmark = pytest.mark.browser


@pytest.fixture
def cell(browser: Browser, tmp_path: Path) -> Generator[Opened]:
    """Return a page with the output of a notebook's cell, as a saved notebook shows it."""
    pytest.importorskip("pygraphviz", reason="pictures are laid out with Graphviz")
    call = ModelReply("", (ToolCall("1", "echo", '{"text": "again"}'),))
    model = ScriptedModel([call, "Four."])
    result = AgentExecutor(agent=create_tool_calling_agent(model, [echo]), tools=[echo]).run("2 + 2?")
    file = tmp_path / "notebook.html"
    output = shown(result)["text/html"]
    file.write_text(f"<!doctype html><meta charset=utf-8><body>{output}</body>", encoding="utf-8")
    with open_page(browser, file.as_uri()) as opened:
        yield opened


def frame_of(cell: Opened) -> Frame:
    """Return the frame of the cell, which must be quiet: no errors, and no requests."""
    frame = cell.page.frames[1]
    frame.wait_for_selector("#position:not(:empty)")
    return frame


def position(frame: Frame) -> str:
    return frame.locator("#position").inner_text()


def test_page_in_a_cell_shows_the_steps(cell: Opened) -> None:
    frame = frame_of(cell)
    assert "2 + 2?" in frame.locator("header").inner_text()
    frame.locator("#first").click()
    assert position(frame) == "start"
    for number in range(1, 4):
        cell.page.keyboard.press("ArrowRight")
        assert position(frame).startswith(f"{number} / ")
    assert frame.evaluate("location.href").startswith("about:srcdoc#step=3")
    assert (cell.faults, cell.requests) == ([], [cell.page.url])


def test_links_to_steps_stay_in_the_frame(cell: Opened) -> None:
    frame = frame_of(cell)
    frame.locator("#first").click()
    cell.page.keyboard.press("ArrowRight")
    cell.page.keyboard.press("ArrowRight")
    frame.locator("#detail a.step").first.click()
    assert position(frame).startswith("1 / ")
    assert cell.page.evaluate("location.href").endswith("notebook.html")
    assert (cell.faults, cell.requests) == ([], [cell.page.url])


def test_page_in_a_cell_copies(cell: Opened) -> None:
    frame = frame_of(cell)
    frame.get_by_role("button", name="copy records").click()
    frame.get_by_role("button", name="copied", exact=True).wait_for()
    assert cell.faults == []


def test_page_in_a_cell_has_no_access_to_the_notebook(cell: Opened) -> None:
    frame = frame_of(cell)
    assert frame.evaluate("origin") == "null"
    for access in ("parent.document", "localStorage", "document.cookie"):
        assert frame.evaluate(f"(() => {{ try {{ {access}; return false }} catch {{ return true }} }})()"), access


def test_page_in_a_cell_changes_its_colours(cell: Opened) -> None:
    frame = frame_of(cell)
    before = frame.locator("html").get_attribute("data-theme")
    frame.locator("#list").focus()
    cell.page.keyboard.press("d")
    assert frame.locator("html").get_attribute("data-theme") != before
    assert cell.faults == []
