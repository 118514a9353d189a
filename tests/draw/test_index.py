"""The page of a folder of runs: its table, its filter, its heat map, and the pages of its runs."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from graphexec.draw import Recording, index_runs
from graphexec.errors import InputError
from tests.draw.browser import fragment, open_page, open_text
from tests.draw.debugged import failed_run, sixty_steps, stopped_run, twelve_tools

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytest.importorskip("pygraphviz", reason="the page's machine is laid out with Graphviz")
browser_test = pytest.mark.browser


def with_start(recording: Recording, **fields: Any) -> Recording:
    """Return a run whose start has other fields."""
    first, *others = recording.records
    return Recording(({**first, **fields}, *others))


@cache
def kinds() -> dict[str, Recording]:
    """Return runs of each outcome."""
    return {
        "long": with_start(sixty_steps(), model="openai:gpt-5", began="2026-11-01T10:00:00.000Z"),
        "wide": with_start(twelve_tools(), began="2026-11-03T10:00:00.000Z"),
        "failed": with_start(failed_run(), began="2026-11-02T10:00:00.000Z"),
        "stopped": with_start(stopped_run(), began="2026-10-01T10:00:00.000Z"),
    }


@cache
def fifty() -> str:
    """Return the page of 50 runs, of which 4 were stopped."""
    names = ["stopped" if at % 12 == 5 and at < 48 else ("long", "wide", "failed")[at % 3] for at in range(50)]
    return index_runs([(f"run-{at:02}.jsonl", kinds()[name]) for at, name in enumerate(names)], title="Fifty runs")


def names_in(page: Page) -> list[str]:
    return page.locator("#table-rows th").all_inner_texts()


def matches(page: Page) -> str:
    return page.locator("#matches").inner_text()


def select_runs(page: Page, words: str) -> list[str]:
    """Return the runs that the page lists for a filter."""
    page.locator("#search").fill(words)
    return names_in(page)


@browser_test
def test_filter_selects_runs(pages: Pages) -> None:
    page = pages.text(fifty())
    page.locator("#table-rows tr").nth(49).wait_for()
    assert matches(page) == "50 of 50 runs"
    assert select_runs(page, "outcome:stopped") == [f"run-{at:02}.jsonl" for at in (5, 17, 29, 41)]
    assert matches(page) == "4 of 50 runs"
    assert "q=outcome" in fragment(page)
    page.reload()
    page.locator("#table-rows tr").first.wait_for()
    assert matches(page) == "4 of 50 runs"
    long, wide, failed = ([at for at in range(50) if at % 3 == rest and at not in (5, 17, 29, 41)] for rest in range(3))
    assert len(select_runs(page, "outcome:error")) == len(failed)
    assert len(select_runs(page, "status:error")) == len(long) + len(wide) + len(failed)
    assert len(select_runs(page, "tool:fetch >3.5s")) == len(wide)
    assert len(select_runs(page, "tool:fetch status:error")) == len(long) + len(wide)
    assert len(select_runs(page, "tool:search status:error")) == 0
    assert len(select_runs(page, "node:stopped_response")) == 4
    assert len(select_runs(page, ">40s")) == len(long)
    assert len(select_runs(page, "outcome:LimitReached")) == 4
    assert len(select_runs(page, "twelve SHOPS")) == len(wide)
    assert len(select_runs(page, "gpt-5 status:error")) == len(long)
    page.keyboard.press("Escape")
    assert matches(page) == "50 of 50 runs"


@browser_test
def test_columns_sort(pages: Pages) -> None:
    page = pages.text(index_runs(kinds().items()))
    date = page.locator("th", has_text="date")
    page.locator("#table-rows tr").first.wait_for()
    assert date.get_attribute("aria-sort") == "descending"
    assert names_in(page) == ["wide", "failed", "long", "stopped"]
    page.locator(".sort", has_text="time").click()
    assert date.get_attribute("aria-sort") is None
    assert page.locator("th", has_text="time").get_attribute("aria-sort") == "descending"
    assert names_in(page) == ["long", "stopped", "wide", "failed"]
    page.locator(".sort", has_text="time").click()
    assert page.locator("th", has_text="time").get_attribute("aria-sort") == "ascending"
    assert names_in(page) == ["failed", "wide", "stopped", "long"]
    page.locator(".sort", has_text="run").click()
    assert names_in(page) == ["failed", "long", "stopped", "wide"]
    page.reload()
    page.locator("#table-rows tr").first.wait_for()
    assert names_in(page) == ["failed", "long", "stopped", "wide"]


@browser_test
def test_heat_map_follows_the_filter(pages: Pages) -> None:
    page = pages.text(fifty())
    page.locator("#table-rows tr").first.wait_for()
    assert "in 50 of 50" in (page.locator("#drawing").text_content() or "")
    assert page.locator("[data-node=plan]").get_attribute("class") != ""
    assert page.locator("#drawing .node.failed").count() == 3
    select_runs(page, "outcome:stopped")
    assert "in 4 of 4" in (page.locator("#drawing").text_content() or "")
    assert page.locator("#drawing .node.failed").count() == 0
    select_runs(page, "")
    page.locator(".edge-label.taken", has_text="LimitReached").dispatch_event("click")
    assert matches(page) == "4 of 50 runs"
    assert page.locator("#edge").inner_text() == "took plan → LimitReached ✕"
    page.locator("#edge").click()
    assert matches(page) == "50 of 50 runs"
    page.locator("[data-node=stopped_response]").first.dispatch_event("click")
    assert page.locator("#search").input_value() == "node:stopped_response"
    assert matches(page) == "4 of 50 runs"


@browser_test
def test_row_opens_the_page_of_its_run(pages: Pages) -> None:
    page = pages.text(index_runs(kinds().items()), "#q=fifteen")
    page.locator("#table-rows td", has_text="cheapest").click()
    page.locator("#position").wait_for()
    assert page.locator("#asked").inner_text() == "Which of the fifteen shops is the cheapest?"
    assert page.title() == "long"
    page.keyboard.press("Home")
    page.keyboard.press("e")
    step = page.locator("#position").inner_text()
    assert "run=long" in fragment(page)
    page.reload()
    page.locator("#position", has_text=step).wait_for()
    page.locator(".way-back").click()
    page.locator("#table-rows tr").nth(3).wait_for()
    page.go_back()
    page.locator("#position", has_text=step).wait_for()


@browser_test
def test_two_selected_runs_are_compared(pages: Pages) -> None:
    page = pages.text(index_runs(kinds().items()))
    page.get_by_label("compare stopped").check()
    assert not page.locator("#compare").is_visible()
    assert page.locator("#marked").inner_text() == "1 run selected; select two to compare them"
    page.get_by_label("compare failed").check()
    page.locator("#compare").click()
    page.locator("#compared td").first.wait_for()
    assert page.locator("#compared .file").all_inner_texts() == ["stopped", "failed"]
    assert page.title() == "stopped and failed"


@browser_test
@pytest.mark.parametrize("by", ["trace", "run"])
def test_fork_leads_to_the_comparison(pages: Pages, by: str) -> None:
    parent = sixty_steps()
    run = next(one["run"] for one in parent.records if "run" in one)
    named = {"trace": "kept/first.jsonl"} if by == "trace" else {"run": run}
    fork = with_start(twelve_tools(), parent={**named, "step": 3})
    page = pages.text(index_runs([("first.jsonl", parent), ("second.jsonl", fork)]))
    line = page.locator(".fork")
    assert line.inner_text() == "fork of first.jsonl at step 3 · compare"
    line.locator("a").click()
    page.locator("#compared td").first.wait_for()
    assert page.locator("#compared .file").all_inner_texts() == ["first.jsonl", "second.jsonl"]


@browser_test
def test_damaged_and_unfinished_runs_are_listed(pages: Pages) -> None:
    whole = sixty_steps()
    broken = [dict(record) for record in whole.records]
    moved = next(record for record in broken if record["event"] == "moved")
    moved["target"] = "nowhere"
    runs: list[tuple[str, Recording | str]] = [
        ("whole", whole),
        ("begun", Recording(whole.records[:1])),
        ("half", Recording(whole.records[:30])),
        ("odd", Recording(tuple(broken))),
        ("<b>cut</b>\u202e", "line 3 is not a record"),
    ]
    page = pages.text(index_runs(runs))
    rows = page.locator("#table-rows tr")
    rows.nth(4).wait_for()
    assert select_runs(page, "outcome:unfinished") == ["begun", "half"]
    select_runs(page, "outcome:damaged")
    assert rows.count() == 2
    assert rows.locator("a").count() == 0
    shown = page.locator("#table-rows").inner_text()
    assert "line 3 is not a record" in shown
    assert "<b>cut</b>⟨U+202E⟩" in shown
    assert "which this machine does not have" in shown
    page.goto(f"{page.url.split('#')[0]}#run=half")
    page.locator("#position").wait_for()
    assert page.locator("#status").inner_text() == "not finished"


@browser_test
@pytest.mark.parametrize("runs", [[], [("notes.jsonl", "line 1 is not a record")]])
def test_no_readable_run_is_no_error(pages: Pages, runs: Iterable[tuple[str, str]]) -> None:
    page = pages.text(index_runs(runs))
    assert matches(page).endswith(("0 of 0 runs", "1 of 1 run"))
    assert not page.locator("#machine").is_visible()


@browser_test
def test_machines_are_chosen(pages: Pages) -> None:
    one = kinds()["wide"]
    start = json.loads(json.dumps(one.records[0]).replace("check_return_direct", "check_other"))
    records = json.loads(json.dumps(one.records[1:]).replace("check_return_direct", "check_other"))
    other = Recording((start, *records))
    page = pages.text(index_runs([("a", one), ("b", one), ("c", other)]))
    page.locator("#table-rows tr").nth(2).wait_for()
    assert page.locator("#machines option").all_inner_texts() == [
        "all machines", "from plan, 5 nodes: 2 runs", "from plan, 5 nodes: 1 run",
    ]  # fmt: skip
    assert page.locator("[data-node=check_return_direct]").count() == 1
    page.locator("#machines").select_option("1")
    page.locator("[data-node=check_other]").wait_for()
    assert names_in(page) == ["c"]


@browser_test
def test_names_of_any_characters_lead_to_runs(pages: Pages) -> None:
    name = "größe & +%#=?'\"<x>.jsonl"
    page = pages.text(index_runs([(name, kinds()["wide"])]))
    page.locator("#table-rows a").click()
    page.locator("#position").wait_for()
    assert page.title() == name


@browser_test
def test_old_browser_says_that_it_cannot_show_a_run(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "runs.html"
    file.write_text(index_runs([("a", kinds()["wide"])]), encoding="utf-8")
    with open_page(browser, "about:blank") as one:
        one.page.add_init_script("delete window.DecompressionStream")
        one.page.goto(f"{file.as_uri()}#run=a")
        assert "cannot show the page" in one.page.get_by_role("alert").inner_text()


@browser_test
def test_rows_are_reached_by_keys(pages: Pages) -> None:
    page = pages.text(fifty())
    page.locator("#table-rows tr").first.wait_for()
    page.keyboard.press("/")
    page.keyboard.type("outcome:stopped")
    page.keyboard.press("Escape")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("j")
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    page.locator("#position").wait_for()
    assert "run=" in fragment(page)


@browser_test
@pytest.mark.parametrize("width", [390, 1000, 1440])
def test_index_fits_the_screen(pages: Pages, width: int) -> None:
    page = pages.text(fifty(), size=(width, 844), scheme="dark")
    page.locator("#table-rows tr").first.wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@browser_test
def test_only_some_of_many_rows_are_made(pages: Pages) -> None:
    runs = [(f"{at:04}", f"line {at} is not a record") for at in range(2000)]
    page = pages.text(index_runs(runs))
    rows = page.locator("#table-rows tr")
    rows.first.wait_for()
    assert rows.count() < 500
    assert page.locator("#table").get_attribute("aria-rowcount") == "2001"
    page.locator("#scroll").evaluate("(one) => one.scrollTo(0, one.scrollHeight)")
    page.locator("#table-rows tr").nth(300).wait_for(state="attached")


@pytest.mark.medium
def test_page_is_small() -> None:
    lines = sum(len(json.dumps(record)) for run in kinds().values() for record in run.records)
    pages = [index_runs([(f"{name} {at}", run) for at in range(n) for name, run in kinds().items()]) for n in (1, 9)]
    few, many = map(len, pages)
    assert (many - few) / 8 < lines / 4


def test_runs_have_names_of_their_own() -> None:
    with pytest.raises(InputError, match="two runs have the name a; give each run a name of its own"):
        index_runs([("a", failed_run()), ("b", "damaged"), ("a", "damaged")])


def test_what_is_no_run_is_refused() -> None:
    with pytest.raises(InputError, match="is not a run"):
        index_runs([("a", 1)])  # type: ignore[list-item]
