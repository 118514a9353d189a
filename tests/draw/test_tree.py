"""The list of a run's steps in a browser: iterations that open and group, and the calls on the run's time."""

from __future__ import annotations

import runpy
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from graphexec.draw import Recording, recording_of
from tests.draw.browser import chromium, open_run
from tests.draw.debugged import answering, calling, failed_run, record, sixty_steps, stopped_run, twelve_tools

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytest.importorskip("pygraphviz", reason="the page's machine is laid out with Graphviz")
pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def browser() -> Generator[Browser]:
    with chromium() as started:
        yield started


def delegation() -> Recording:
    """Record a run with an embedded agent."""
    path = Path(__file__).parents[2] / "examples" / "delegation.py"
    return recording_of(runpy.run_path(str(path))["executor"].run("Why do elms die?"))


def levels(page: Page) -> list[int]:
    return [int(row.get_attribute("aria-level") or 0) for row in page.locator(".row").all()]


def test_run_is_a_row_for_each_iteration(browser: Browser, tmp_path: Path) -> None:
    with open_run(browser, tmp_path, sixty_steps()) as page:
        assert page.locator('[aria-level="1"]').count() == 16
        assert levels(page) == [0, *[1] * 16, 0]
        row = page.locator('[aria-level="1"]').nth(3)
        assert (row.get_attribute("aria-posinset"), row.get_attribute("aria-setsize")) == ("4", "16")
        assert "bad" in (row.get_attribute("class") or "").split()
        assert row.locator(".gist").inner_text().startswith("fetch failed: ValueError: HTTP 503")
        row.click()
        assert row.get_attribute("aria-expanded") == "false"
        page.locator("#list").focus()
        page.keyboard.press("Enter")
        assert page.locator('[aria-level="2"]').count() == 4
        page.keyboard.press("ArrowDown")
        assert page.locator(".row.current b").inner_text() == "plan"
        page.keyboard.press("Enter")
        assert page.locator('[aria-level="2"]').count() == 0


def test_iteration_of_the_step_gone_to_is_open(browser: Browser, tmp_path: Path) -> None:
    with open_run(browser, tmp_path, sixty_steps(), "#step=15") as page:
        assert page.locator('[aria-level="2"]').count() == 4
        assert page.locator(".row.current").get_attribute("data-position") == "15"
        page.keyboard.press("End")
        assert page.locator('[aria-level="2"]').count() == 0


def test_equal_iterations_are_one_row(browser: Browser, tmp_path: Path) -> None:
    with open_run(browser, tmp_path, stopped_run()) as page:
        row = page.locator('[aria-level="1"]').first
        assert row.locator(".name").inner_text() == "search(again) ×4"
        assert row.locator(".number").inner_text() == "1–4"
        row.locator(".opens").click()
        assert levels(page) == [0, 1, 2, 2, 2, 2, 1, 0]
        page.locator('[aria-level="2"] .opens').nth(1).click()
        assert levels(page) == [0, 1, 2, 2, 3, 3, 3, 3, 2, 2, 1, 0]


def test_steps_that_ask_for_nothing_are_left_out_on_demand(browser: Browser, tmp_path: Path) -> None:
    with open_run(browser, tmp_path, sixty_steps(), "#step=1") as page:
        page.locator("#quiet").click()
        names = page.locator('[aria-level="2"] b').all_inner_texts()
        assert names == ["plan", "dispatch_tools"]
        page.locator("#list").focus()
        page.keyboard.press("p")
        assert page.locator('[aria-level="2"]').count() == 4


def test_many_calls_are_folded_to_lines(browser: Browser, tmp_path: Path) -> None:
    with open_run(browser, tmp_path, twelve_tools(), "#step=3") as page:
        folded = page.locator(".pair > details")
        assert folded.count() == 12
        assert [one.get_attribute("open") is not None for one in folded.all()].count(True) == 2
        page.locator("button.bar").nth(1).click()
        assert page.locator(".pair.selected > details").get_attribute("open") is not None
        assert "shop1.example" in page.locator(".pair.selected").inner_text()


def test_rows_have_bars_on_the_time_of_the_run(browser: Browser, tmp_path: Path) -> None:
    calls = [("fetch", {"url": f"https://{seconds}.example", "seconds": seconds}) for seconds in (1, 2, 3)]
    recording = record([(2.0, calling(*calls)), (1.0, answering("done"))], "Fetch three.")
    with open_run(browser, tmp_path, recording, "#step=3") as page:
        row = page.locator(".row.current")
        whole = row.locator(".when").bounding_box()
        boxes = [bar.bounding_box() for bar in row.locator(".when span").all()]
        assert whole is not None
        known = [box for box in boxes if box is not None]
        assert [round(6 * box["width"] / whole["width"], 1) for box in known] == [1.0, 2.0, 3.0]
        assert [round(6 * (box["x"] - whole["x"]) / whole["width"], 1) for box in known] == [2.0, 2.0, 2.0]
        assert len({box["y"] for box in known}) == 3


def test_click_on_the_waterfall_selects_the_call(browser: Browser, tmp_path: Path) -> None:
    with open_run(browser, tmp_path, twelve_tools()) as page:
        lanes = page.locator("#calls").bounding_box()
        assert lanes is not None
        # The fifth lane, 2 of 6.2 seconds after the start.
        page.mouse.click(lanes["x"] + lanes["width"] * 2 / 6.2, lanes["y"] + 4.5 * 6)
        assert page.evaluate("location.hash") == "#step=3&call=4"
        assert "shop4.example/bad" in page.locator(".pair.selected").inner_text()
        assert page.locator("#calls").get_attribute("aria-label") == (
            "2 model calls and 12 other calls in 6.20 s, 744 tokens below"
        )


def test_failed_iteration_shows_its_error(browser: Browser, tmp_path: Path) -> None:
    with open_run(browser, tmp_path, failed_run()) as page:
        row = page.locator('[aria-level="1"]').last
        assert "bad" in (row.get_attribute("class") or "").split()
        assert "connection reset by peer" in row.inner_text()


def test_embedded_agent_shows_its_task_budget_and_calls(browser: Browser, tmp_path: Path) -> None:
    with open_run(browser, tmp_path, delegation(), "#step=4") as page:
        row = page.locator('[data-position="3"]')
        assert "elm trees" in row.inner_text()
        assert page.locator(".row.current .number").inner_text() == "1"
        bar = page.locator("#detail .bar", has_text="delegate.iterations")
        assert bar.locator(".count").inner_text() == "1 of 2"
        page.keyboard.press("End")
        shown = page.locator("#detail").inner_text()
        assert "DELEGATE: 1 TOOL CALL" in shown.upper()
        assert "Nothing about elm" in shown


def test_folded_box_hides_its_nodes_and_counts_visits(browser: Browser, tmp_path: Path) -> None:
    with open_run(browser, tmp_path, delegation()) as page:
        box = page.locator(".toggle")
        box.focus()
        page.keyboard.press("Enter")
        assert page.locator('[data-node="delegate.plan"]').is_hidden()
        assert "visited 1 time" in (box.get_attribute("aria-label") or "")
