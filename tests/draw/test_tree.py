"""The list of a run's steps in a browser: iterations that open, and equal ones in a row."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from graphexec.draw import Recording
from tests.draw import debugged
from tests.draw.browser import open_run
from tests.draw.test_timeline import three_entries

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytest.importorskip("pygraphviz", reason="the page's machine is laid out with Graphviz")
pytestmark = pytest.mark.browser


def where(page: Page) -> str:
    return page.locator("#position").inner_text()


def levels(page: Page) -> list[int]:
    return [int(row.get_attribute("aria-level") or 0) for row in page.locator(".row").all()]


def test_run_is_a_row_for_each_iteration(pages: Pages) -> None:
    page = pages.run(debugged.sixty_steps())
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


def test_arrows_open_and_leave_rows(pages: Pages) -> None:
    page = pages.run(debugged.sixty_steps())
    rows = page.locator('[aria-level="1"]')
    rows.nth(3).click()
    page.keyboard.press("ArrowRight")
    assert rows.nth(3).get_attribute("aria-expanded") == "true"
    assert "current" in (rows.nth(3).get_attribute("class") or "").split()
    page.keyboard.press("ArrowRight")
    assert page.locator(".row.current").get_attribute("aria-level") == "2"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    assert (where(page), page.locator(".row.current b").inner_text()) == ("14 / 60", "parse")
    page.keyboard.press("ArrowLeft")
    assert "current" in (rows.nth(3).get_attribute("class") or "").split()
    page.keyboard.press("ArrowLeft")
    assert page.locator('[aria-level="2"]').count() == 0
    page.keyboard.press("ArrowLeft")
    # Neither the row of the iteration nor closing it leads away from the step.
    assert where(page) == "14 / 60"


def test_row_leads_to_its_failed_step(pages: Pages) -> None:
    page = pages.run(debugged.sixty_steps())
    rows = page.locator('[aria-level="1"]')
    rows.nth(3).locator(".name").click()
    assert (where(page), page.locator("#detail h2").inner_text()) == ("15 / 60", "dispatch_tools")
    assert "current" in (rows.nth(3).get_attribute("class") or "").split()
    rows.nth(4).locator(".name").click()
    assert where(page) == "17 / 60"
    page.locator("#list").focus()
    page.keyboard.press("ArrowUp")
    assert where(page) == "15 / 60"


def test_marker_of_a_row_keeps_the_place(pages: Pages) -> None:
    page = pages.run(debugged.sixty_steps(), "#step=14")
    rows = page.locator('[aria-level="1"]')
    for index, opened in ((3, 0), (0, 4), (3, 8)):
        rows.nth(index).locator(".opens").click()
        assert (where(page), page.locator('[aria-level="2"]').count()) == ("14 / 60", opened)
    assert page.locator(".row.current b").inner_text() == "parse"


def test_failed_node_is_named_and_not_the_calls_before(pages: Pages) -> None:
    page = pages.run(debugged.failed_node())
    row = page.locator('[aria-level="1"]').last
    assert "bad" in (row.get_attribute("class") or "").split()
    assert row.locator(".name").inner_text() == "search(price)"
    assert row.locator(".bad").all_inner_texts() == [
        "convert_prices failed: ValueError: could not convert string to float: '3 hits for price'"
    ]
    row.locator(".name").click()
    assert page.locator("#detail h2").inner_text() == "convert_prices"
    page.keyboard.press("ArrowRight")
    assert page.locator('[aria-level="2"] .name').last.inner_text() == "convert_prices failed"


def test_iteration_of_the_step_gone_to_is_open(pages: Pages) -> None:
    page = pages.run(debugged.sixty_steps(), "#step=15")
    assert page.locator('[aria-level="2"]').count() == 4
    assert page.locator(".row.current").get_attribute("data-position") == "15"
    page.keyboard.press("End")
    assert page.locator('[aria-level="2"]').count() == 0


def test_equal_iterations_are_one_row(pages: Pages) -> None:
    page = pages.run(debugged.stopped_run())
    row = page.locator('[aria-level="1"]').first
    assert row.locator(".name").inner_text() == "search(again) ×4"
    assert row.locator(".number").inner_text() == "1–4"
    row.locator(".opens").click()
    assert levels(page) == [0, 1, 2, 2, 2, 2, 1, 0]
    page.locator('[aria-level="2"] .opens').nth(1).click()
    assert levels(page) == [0, 1, 2, 2, 3, 3, 3, 3, 2, 2, 1, 0]


def test_equal_failures_are_one_row(pages: Pages) -> None:
    turns = [(1.0, debugged.calling(("fetch", {"url": "https://bad.example"}))) for _ in range(3)]
    page = pages.run(debugged.record([*turns, (1.0, debugged.answering("No."))], "Insist."))
    row = page.locator('[aria-level="1"]').first
    assert row.locator(".name").inner_text() == "fetch(https://bad.example) ×3"
    assert row.locator(".gist.bad").count() == 1


def test_number_of_equal_iterations_is_in_sight(pages: Pages) -> None:
    turns = [(1.0, debugged.calling(("fetch", {"url": f"https://{'long.' * 20}example"}))) for _ in range(3)]
    page = pages.run(debugged.record(turns, "q", max_iterations=3))
    count = page.locator(".row.group .times")
    inner, outer = count.bounding_box(), page.locator(".row.group .name").bounding_box()
    assert inner is not None
    assert outer is not None
    assert count.inner_text().strip() == "×3"
    assert inner["x"] + inner["width"] <= outer["x"] + outer["width"]


def test_list_is_headed_by_what_it_has(pages: Pages) -> None:
    page = pages.run(debugged.stopped_run())
    assert page.get_by_role("tree", name="Iterations").count() == 1
    page.locator("#search").fill("node:plan")
    assert page.locator("#list-title").text_content() == "Steps found"
    page = pages.run(Recording(debugged.stopped_run().records[:1]))
    assert page.locator("#list-title").text_content() == "Steps"


def test_iteration_of_one_step_is_its_row(pages: Pages) -> None:
    page = pages.run(three_entries())
    rows = page.locator('[aria-level="1"]')
    assert [row.get_attribute("aria-expanded") for row in rows.all()] == [None] * rows.count()
    assert [row.get_attribute("data-position") for row in rows.all()] == ["1", "2", "3"]


def test_ten_thousand_steps_make_few_rows(pages: Pages) -> None:
    turns = [(0.1, debugged.calling(("fetch", {"url": f"https://{at}.example", "seconds": 0.1}))) for at in range(2500)]
    page = pages.run(debugged.record(turns, "All?", max_iterations=2500))
    rows = page.locator('[aria-level="1"]')
    assert rows.last.get_attribute("aria-setsize") == "2501"
    assert page.locator(".row").count() < 60
    width = page.locator("#moment").evaluate("element => element.clientWidth")
    # Models, tools and tokens.
    assert page.locator("#lanes .call, #lanes .used").count() <= 3 * (width + 1)
    moved: float = page.evaluate(
        """() => {
              let least = Infinity;
              for (let time = 0; time < 3; time += 1) {
                const began = performance.now();
                for (let at = 0; at < 10; at += 1)
                  document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowLeft", bubbles: true }));
                least = Math.min(least, performance.now() - began);
              }
              return least;
            }"""
    )
    assert where(page) == "9,973 / 10,002"
    # A tenth of this, but for a busy machine.
    assert moved < 3000


def test_steps_without_calls_are_left_out_on_demand(pages: Pages) -> None:
    page = pages.run(debugged.sixty_steps(), "#step=1")
    page.locator("#quiet").click()
    names = page.locator('[aria-level="2"] b').all_inner_texts()
    assert names == ["plan", "dispatch_tools"]
    page.locator("#list").focus()
    page.keyboard.press("p")
    assert page.locator('[aria-level="2"]').count() == 4


def test_many_calls_are_folded_to_lines(pages: Pages) -> None:
    page = pages.run(debugged.twelve_tools(), "#step=3")
    folded = page.locator(".pair > details")
    assert folded.count() == 12
    assert [one.get_attribute("open") is not None for one in folded.all()].count(True) == 2
    page.locator("button.bar").nth(1).click()
    assert page.locator(".pair.selected > details").get_attribute("open") is not None
    assert "shop1.example" in page.locator(".pair.selected").inner_text()


def test_failed_iteration_shows_its_error(pages: Pages) -> None:
    page = pages.run(debugged.failed_run())
    row = page.locator('[aria-level="1"]').last
    assert "bad" in (row.get_attribute("class") or "").split()
    assert "connection reset by peer" in row.inner_text()


def test_embedded_agents_show_their_tasks_budgets_and_calls(pages: Pages) -> None:
    page = pages.run(debugged.two_agents(), "#step=7")
    assert "elm trees" in page.locator(".row.current .gist").inner_text()
    assert "INPUT OF RESEARCH" in page.locator("#detail").inner_text().upper()
    page.keyboard.press("ArrowRight")
    assert page.locator(".row.current .number").inner_text() == "1"
    bar = page.locator("#detail .bar", has_text="research.iterations")
    assert bar.locator(".count").inner_text() == "1 of 3"
    assert "iteration 2 · research.iterations 1" in page.locator("#detail .where").inner_text()
    page.keyboard.press("End")
    names = page.locator('[aria-level="1"] .name').all_inner_texts()
    assert names == ["parse → Ready", "research(elm trees)", "write(about the fungus)", "parse → AgentFinish"]
    answers = page.locator('[aria-level="1"] .gist').all_inner_texts()[1:]
    assert answers == ["Fungus.", "Elms die of a fungus.", "Elms die of a fungus."]
    shown = page.locator("#detail").inner_text()
    assert "RESEARCH: 1 TOOL CALL" in shown.upper()
    assert "3 hits for elms" in shown


def test_folded_box_hides_its_nodes_and_counts_visits(pages: Pages) -> None:
    page = pages.run(debugged.two_agents())
    box = page.locator(".toggle[aria-label^='research']")
    box.focus()
    page.keyboard.press("Enter")
    assert page.locator('[data-node="research.plan"]').is_hidden()
    assert page.locator('[data-node="write.plan"]').is_visible()
    # Each call of a tool passes it, and one is for the other agent.
    assert "visited 2 times" in (box.get_attribute("aria-label") or "")
    assert box.locator(".count").text_content() == "×2"
    assert page.locator(".count[textLength], .notes[textLength]").count() == 0


def test_folded_box_shows_that_its_node_failed(pages: Pages) -> None:
    page = pages.run(debugged.failed_node())
    page.keyboard.press("f")
    box = page.locator(".toggle")
    assert "failed" in (box.get_attribute("class") or "").split()
    assert (box.get_attribute("aria-label") or "").endswith("visited 2 times, failed")
    page.keyboard.press("Home")
    assert "failed" not in (box.get_attribute("class") or "").split()


def test_calls_are_written_in_one_way(pages: Pages) -> None:
    calls: list[tuple[str, dict[str, Any]]] = [
        ("fetch", {"url": "https://a.example", "seconds": 0.5}),
        ("search", {"query": "elms"}),
    ]
    turns = [(1.0, debugged.calling(call)) for call in calls]
    page = pages.run(debugged.record([*turns, (1.0, debugged.answering("Elms."))], "Which?"), "#step=1")
    names = page.locator('[aria-level="1"] .name').all_inner_texts()
    assert names == ["fetch(url=https://a.example, seconds=0.5)", "search(elms)", "parse → AgentFinish"]
    steps = page.locator('[aria-level="2"] .gist').all_inner_texts()
    assert steps[:2] == ["fetch(url=https://a.example, seconds=0.5)"] * 2
