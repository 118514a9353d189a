"""The list of a run's steps in a browser: iterations that open, and equal ones in a row."""

import pytest

from graphexec.draw import Recording
from tests.draw import debugged
from tests.draw.browser import Locator, Page, Pages, box_of, classes, press, shown, where
from tests.draw.debugged import answering, calling, record
from tests.draw.recorded import three_entries
from tests.parameters import read_tables


def iterations(page: Page) -> Locator:
    return page.locator('[aria-level="1"]')


def steps(page: Page) -> Locator:
    return page.locator('[aria-level="2"]')


def levels(page: Page) -> list[int]:
    return [int(row.get_attribute("aria-level") or 0) for row in page.locator(".row").all()]


def test_rows_of_iterations_open_and_close(pages: Pages) -> None:
    page = pages.run(debugged.sixty_steps())
    assert iterations(page).count() == 16
    assert levels(page) == [0, *[1] * 16, 0]
    row = iterations(page).nth(3)
    assert (row.get_attribute("aria-posinset"), row.get_attribute("aria-setsize")) == ("4", "16")
    assert "bad" in classes(row)
    assert row.locator(".gist").inner_text().startswith("fetch failed: ValueError: HTTP 503")
    row.click()
    assert row.get_attribute("aria-expanded") == "false"
    page.locator("#list").focus()
    press(page, "Enter")
    assert steps(page).count() == 4
    press(page, "ArrowDown")
    assert shown(page, ".row.current b") == "plan"
    press(page, "Enter")
    assert steps(page).count() == 0
    # Arrows open and leave rows.
    page = pages.run(debugged.sixty_steps())
    row = iterations(page).nth(3)
    row.click()
    press(page, "ArrowRight")
    assert row.get_attribute("aria-expanded") == "true"
    assert "current" in classes(row)
    press(page, "ArrowRight")
    assert page.locator(".row.current").get_attribute("aria-level") == "2"
    press(page, "ArrowDown", "ArrowRight")
    assert (where(page), shown(page, ".row.current b")) == ("14 / 60", "parse")
    press(page, "ArrowLeft")
    assert "current" in classes(row)
    press(page, "ArrowLeft")
    assert steps(page).count() == 0
    press(page, "ArrowLeft")
    # Neither the row of the iteration nor closing it leads away from the step.
    assert where(page) == "14 / 60"


def test_row_leads_to_its_failed_step(pages: Pages) -> None:
    page = pages.run(debugged.sixty_steps())
    iterations(page).nth(3).locator(".name").click()
    assert (where(page), shown(page, "#detail h2")) == ("15 / 60", "dispatch_tools")
    assert "current" in classes(iterations(page).nth(3))
    iterations(page).nth(4).locator(".name").click()
    assert where(page) == "17 / 60"
    page.locator("#list").focus()
    press(page, "ArrowUp")
    assert where(page) == "15 / 60"
    # The iteration of the step gone to is open.
    page = pages.run(debugged.sixty_steps(), "#step=15")
    assert steps(page).count() == 4
    assert page.locator(".row.current").get_attribute("data-position") == "15"
    press(page, "End")
    assert steps(page).count() == 0


@pytest.mark.full
def test_rows_open_and_leave_out_steps_on_demand(pages: Pages) -> None:
    page = pages.run(debugged.sixty_steps(), "#step=14")
    for index, opened in ((3, 0), (0, 4), (3, 8)):
        iterations(page).nth(index).locator(".opens").click()
        assert (where(page), steps(page).count()) == ("14 / 60", opened)
    assert shown(page, ".row.current b") == "parse"
    # Steps without calls are left out on demand.
    page = pages.run(debugged.sixty_steps(), "#step=1")
    page.locator("#quiet").click()
    assert steps(page).locator("b").all_inner_texts() == ["plan", "dispatch_tools"]
    page.locator("#list").focus()
    press(page, "p")
    assert steps(page).count() == 4


def test_failed_node_is_named_and_not_the_calls_before(pages: Pages) -> None:
    page = pages.run(debugged.failed_node())
    row = iterations(page).last
    assert "bad" in classes(row)
    assert row.locator(".name").inner_text() == "search(price)"
    error = "convert_prices failed: ValueError: could not convert string to float: '3 hits for price'"
    assert row.locator(".bad").all_inner_texts() == [error]
    row.locator(".name").click()
    assert shown(page, "#detail h2") == "convert_prices"
    press(page, "ArrowRight")
    assert steps(page).locator(".name").last.inner_text() == "convert_prices failed"
    press(page, "f")
    box = page.locator(".toggle")
    assert "failed" in classes(box)
    assert (box.get_attribute("aria-label") or "").endswith("visited 2 times, failed")
    press(page, "Home")
    assert "failed" not in classes(box)


def test_equal_iterations_are_one_row(pages: Pages) -> None:
    page = pages.run(debugged.stopped_run())
    row = iterations(page).first
    assert row.locator(".name").inner_text() == "search(again) ×4"
    assert row.locator(".number").inner_text() == "1–4"
    row.locator(".opens").click()
    assert levels(page) == [0, 1, 2, 2, 2, 2, 1, 0]
    steps(page).locator(".opens").nth(1).click()
    assert levels(page) == [0, 1, 2, 2, 3, 3, 3, 3, 2, 2, 1, 0]
    # The list is headed by what it has.
    assert page.get_by_role("tree", name="Iterations").count() == 1
    page.locator("#search").fill("node:plan")
    assert page.locator("#list-title").text_content() == "Steps found"
    page = pages.run(Recording(debugged.stopped_run().records[:1]))
    assert page.locator("#list-title").text_content() == "Steps"


@pytest.mark.full
def test_rows_of_failures_and_of_single_steps(pages: Pages) -> None:
    turns: list[debugged.Turn] = [(1.0, calling(("fetch", {"url": "https://bad.example"})))] * 3
    row = iterations(pages.run(record([*turns, (1.0, answering("No."))], "Insist."))).first
    assert row.locator(".name").inner_text() == "fetch(https://bad.example) ×3"
    assert row.locator(".gist.bad").count() == 1
    # Their number is in sight.
    turns = [(1.0, calling(("fetch", {"url": f"https://{'long.' * 20}example"})))] * 3
    page = pages.run(record(turns, "q", max_iterations=3))
    count = page.locator(".row.group .times")
    inner, outer = box_of(count), box_of(page.locator(".row.group .name"))
    assert count.inner_text().strip() == "×3"
    assert inner["x"] + inner["width"] <= outer["x"] + outer["width"]
    # A failed iteration shows its error.
    row = iterations(pages.run(debugged.failed_run())).last
    assert "bad" in classes(row)
    assert "connection reset by peer" in row.inner_text()
    # An iteration of one step is its row.
    rows = iterations(pages.run(three_entries())).all()
    found = [(row.get_attribute("aria-expanded"), row.get_attribute("data-position")) for row in rows]
    assert found == [(None, "1"), (None, "2"), (None, "3")]
    # Calls are written in one way.
    first = (1.0, calling(("fetch", {"url": "https://a.example", "seconds": 0.5})))
    second = (1.0, calling(("search", {"query": "elms"})))
    page = pages.run(record([first, second, (1.0, answering("Elms."))], "Which?"), "#step=1")
    names = iterations(page).locator(".name").all_inner_texts()
    assert names == ["fetch(url=https://a.example, seconds=0.5)", "search(elms)", "parse → AgentFinish"]
    assert steps(page).locator(".gist").all_inner_texts()[:2] == ["fetch(url=https://a.example, seconds=0.5)"] * 2


@pytest.mark.full
def test_ten_thousand_steps_make_few_rows(pages: Pages) -> None:
    turns = [(0.1, calling(("fetch", {"url": f"https://{at}.example", "seconds": 0.1}))) for at in range(2500)]
    page = pages.run(record(turns, "All?", max_iterations=2500))
    assert iterations(page).last.get_attribute("aria-setsize") == "2501"
    assert page.locator(".row").count() < 60
    width = page.locator("#moment").evaluate("element => element.clientWidth")
    # Models, tools and tokens.
    assert page.locator("#lanes .call, #lanes .used").count() <= 3 * (width + 1)
    moved: float = page.evaluate(read_tables(__file__)["moved"])
    assert where(page) == "9,973 / 10,002"
    # A tenth of this, but for a busy machine.
    assert moved < 3000


@pytest.mark.full
def test_many_calls_are_folded_to_lines(pages: Pages) -> None:
    page = pages.run(debugged.twelve_tools(), "#step=3")
    folded = page.locator(".pair > details")
    assert folded.count() == 12
    assert [one.get_attribute("open") is not None for one in folded.all()].count(True) == 2
    page.locator("button.bar").nth(1).click()
    assert page.locator(".pair.selected > details").get_attribute("open") is not None
    assert "shop1.example" in shown(page, ".pair.selected")


def test_embedded_agents_show_their_tasks_budgets_and_calls(pages: Pages) -> None:
    page = pages.run(debugged.two_agents(), "#step=7")
    assert "elm trees" in shown(page, ".row.current .gist")
    assert "INPUT OF RESEARCH" in shown(page, "#detail").upper()
    press(page, "ArrowRight")
    assert shown(page, ".row.current .number") == "1"
    assert page.locator("#detail .bar", has_text="research.iterations").locator(".count").inner_text() == "1 of 3"
    assert "iteration 2 · research.iterations 1" in shown(page, "#detail .where")
    press(page, "End")
    names = iterations(page).locator(".name").all_inner_texts()
    assert names == ["parse → Ready", "research(elm trees)", "write(about the fungus)", "parse → AgentFinish"]
    answers = iterations(page).locator(".gist").all_inner_texts()[1:]
    assert answers == ["Fungus.", "Elms die of a fungus.", "Elms die of a fungus."]
    assert "RESEARCH: 1 TOOL CALL" in shown(page, "#detail").upper()
    assert "3 hits for elms" in shown(page, "#detail")
    # A folded box hides its nodes and counts its visits.
    box = page.locator(".toggle[aria-label^='research']")
    box.focus()
    press(page, "Enter")
    assert page.locator('[data-node="research.plan"]').is_hidden()
    assert page.locator('[data-node="write.plan"]').is_visible()
    # Each call of a tool passes it, and one is for the other agent.
    assert "visited 2 times" in (box.get_attribute("aria-label") or "")
    assert box.locator(".count").text_content() == "×2"
    assert page.locator(".count[textLength], .notes[textLength]").count() == 0
