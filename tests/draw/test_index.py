"""The page of a folder of runs: its table, its filter, its heat map, and the pages of its runs."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from graphexec.draw import Recording, index_runs
from graphexec.errors import InputError
from tests.draw.browser import Browser, Page, Pages, fragment, open_page, press, shown, where
from tests.draw.debugged import failed_run, sixty_steps, stopped_run, twelve_tools
from tests.parameters import cases, mark_except


def with_start(recording: Recording, **fields: Any) -> Recording:
    first, *others = recording.records
    return Recording(({**first, **fields}, *others))


@cache
def kinds() -> dict[str, Recording]:
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


def open_index(pages: Pages, text: str, address: str = "", **options: Any) -> Page:
    page = pages.text(text, address, **options)
    page.locator("#table-rows tr").first.wait_for()
    return page


def names_in(page: Page) -> list[str]:
    return page.locator("#table-rows th").all_inner_texts()


def matches(page: Page) -> str:
    return shown(page, "#matches")


def select_runs(page: Page, words: str) -> list[str]:
    page.locator("#search").fill(words)
    return names_in(page)


@pytest.fixture
def fifty_runs(pages: Pages) -> Page:
    return open_index(pages, fifty())


STOPPED = (5, 17, 29, 41)
LONG, WIDE, FAILED = (len([at for at in range(50) if at % 3 == rest and at not in STOPPED]) for rest in range(3))


@cases(
    "words, count",
    ("outcome:error", FAILED),
    ("status:error", LONG + WIDE + FAILED),
    ("tool:fetch >3.5s", WIDE),
    ("tool:fetch status:error", LONG + WIDE),
    ("tool:search status:error", 0),
    ("node:stopped_response", 4),
    (">40s", LONG),
    ("outcome:LimitReached", 4),
    ("twelve SHOPS", WIDE),
    ("gpt-5 status:error", LONG),
)
def test_filter_selects_runs(fifty_runs: Page, words: str, count: int) -> None:
    assert len(select_runs(fifty_runs, words)) == count


def test_filter_is_in_the_address(fifty_runs: Page) -> None:
    page = fifty_runs
    page.locator("#table-rows tr").nth(49).wait_for()
    assert matches(page) == "50 of 50 runs"
    assert select_runs(page, "outcome:stopped") == [f"run-{at:02}.jsonl" for at in STOPPED]
    assert matches(page) == "4 of 50 runs"
    assert "q=outcome" in fragment(page)
    page.reload()
    page.locator("#table-rows tr").first.wait_for()
    assert matches(page) == "4 of 50 runs"
    page.locator("#search").focus()
    press(page, "Escape")
    assert matches(page) == "50 of 50 runs"
    # Rows are reached by keys.
    press(page, "/")
    page.keyboard.type("outcome:stopped")
    press(page, "Escape", "ArrowDown", "j", "k", "Enter")
    page.locator("#position").wait_for()
    assert "run=" in fragment(page)


def test_columns_sort(pages: Pages) -> None:
    page = open_index(pages, index_runs(kinds().items()))

    def order(column: str) -> str | None:
        return page.locator("th", has_text=column).get_attribute("aria-sort")

    assert order("date") == "descending"
    assert names_in(page) == ["wide", "failed", "long", "stopped"]
    for column, direction, names in (
        ("time", "descending", ["long", "stopped", "wide", "failed"]),
        ("time", "ascending", ["failed", "wide", "stopped", "long"]),
        ("run", "ascending", ["failed", "long", "stopped", "wide"]),
    ):
        page.locator(".sort", has_text=column).click()
        assert (order("date"), order(column)) == (None, direction)
        assert names_in(page) == names
    page.reload()
    page.locator("#table-rows tr").first.wait_for()
    assert names_in(page) == ["failed", "long", "stopped", "wide"]


def test_heat_map_follows_the_filter(fifty_runs: Page) -> None:
    page, drawing = fifty_runs, fifty_runs.locator("#drawing")
    assert "in 50 of 50" in (drawing.text_content() or "")
    assert page.locator("[data-node=plan]").get_attribute("class") != ""
    assert drawing.locator(".node.failed").count() == 3
    select_runs(page, "outcome:stopped")
    assert "in 4 of 4" in (drawing.text_content() or "")
    assert drawing.locator(".node.failed").count() == 0
    select_runs(page, "")
    page.locator(".edge-label.taken", has_text="LimitReached").dispatch_event("click")
    assert matches(page) == "4 of 50 runs"
    assert shown(page, "#edge") == "took plan → LimitReached ✕"
    page.locator("#edge").click()
    assert matches(page) == "50 of 50 runs"
    page.locator("[data-node=stopped_response]").first.dispatch_event("click")
    assert page.locator("#search").input_value() == "node:stopped_response"
    assert matches(page) == "4 of 50 runs"


def test_rows_open_their_runs_and_compare_two(pages: Pages) -> None:
    page = pages.text(index_runs(kinds().items()), "#q=fifteen")
    page.locator("#table-rows td", has_text="cheapest").click()
    page.locator("#position").wait_for()
    assert shown(page, "#asked") == "Which of the fifteen shops is the cheapest?"
    assert page.title() == "long"
    press(page, "Home", "e")
    step = where(page)
    assert "run=long" in fragment(page)
    page.reload()
    page.locator("#position", has_text=step).wait_for()
    page.locator(".way-back").click()
    page.locator("#table-rows tr").nth(3).wait_for()
    page.go_back()
    page.locator("#position", has_text=step).wait_for()
    # Two selected runs are compared.
    page = pages.text(index_runs(kinds().items()))
    page.get_by_label("compare stopped").check()
    assert not page.locator("#compare").is_visible()
    assert shown(page, "#marked") == "1 run selected; select two to compare them"
    page.get_by_label("compare failed").check()
    page.locator("#compare").click()
    page.locator("#compared td").first.wait_for()
    assert page.locator("#compared .file").all_inner_texts() == ["stopped", "failed"]
    assert page.title() == "stopped and failed"


@pytest.mark.parametrize("by", mark_except(["trace", "run"], "trace", mark=pytest.mark.full))
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


@pytest.mark.full
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
    page = open_index(pages, index_runs(runs))
    rows = page.locator("#table-rows tr")
    assert select_runs(page, "outcome:unfinished") == ["begun", "half"]
    select_runs(page, "outcome:damaged")
    assert rows.count() == 2
    assert rows.locator("a").count() == 0
    for fact in ("line 3 is not a record", "<b>cut</b>⟨U+202E⟩", "which this machine does not have"):
        assert fact in shown(page, "#table-rows")
    page.goto(f"{page.url.split('#')[0]}#run=half")
    page.locator("#position").wait_for()
    assert shown(page, "#status") == "not finished"


@pytest.mark.full
@cases("runs", [], [("notes.jsonl", "line 1 is not a record")])
def test_no_readable_run_is_no_error(pages: Pages, runs: list[tuple[str, str]]) -> None:
    page = pages.text(index_runs(runs))
    assert matches(page).endswith(("0 of 0 runs", "1 of 1 run"))
    assert not page.locator("#machine").is_visible()


@pytest.mark.full
def test_any_names_many_rows_and_several_machines(pages: Pages) -> None:
    name = "größe & +%#=?'\"<x>.jsonl"
    page = open_index(pages, index_runs([(name, kinds()["wide"])]))
    page.locator("#table-rows a").click()
    page.locator("#position").wait_for()
    assert page.title() == name
    # Only some of many rows are made.
    page = open_index(pages, index_runs([(f"{at:04}", f"line {at} is not a record") for at in range(2000)]))
    assert page.locator("#table-rows tr").count() < 500
    assert page.locator("#table").get_attribute("aria-rowcount") == "2001"
    page.locator("#scroll").evaluate("(one) => one.scrollTo(0, one.scrollHeight)")
    page.locator("#table-rows tr").nth(300).wait_for(state="attached")
    # Machines are chosen.
    one = kinds()["wide"]
    renamed = json.dumps([*one.records]).replace("check_return_direct", "check_other")
    other = Recording(json.loads(renamed))
    page = open_index(pages, index_runs([("a", one), ("b", one), ("c", other)]))
    options = ["all machines", "from plan, 5 nodes: 2 runs", "from plan, 5 nodes: 1 run"]
    assert page.locator("#machines option").all_inner_texts() == options
    assert page.locator("[data-node=check_return_direct]").count() == 1
    page.locator("#machines").select_option("1")
    page.locator("[data-node=check_other]").wait_for()
    assert names_in(page) == ["c"]


@pytest.mark.full
def test_old_browser_says_that_it_cannot_show_a_run(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "runs.html"
    file.write_text(index_runs([("a", kinds()["wide"])]), encoding="utf-8")
    with open_page(browser, "about:blank") as one:
        one.page.add_init_script("delete window.DecompressionStream")
        one.page.goto(f"{file.as_uri()}#run=a")
        assert "cannot show the page" in one.page.get_by_role("alert").inner_text()


@pytest.mark.parametrize("width", mark_except([390, 1000, 1440], 390, mark=pytest.mark.full))
def test_index_fits_the_screen(pages: Pages, width: int) -> None:
    page = open_index(pages, fifty(), size=(width, 844), scheme="dark")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.medium
def test_page_is_small() -> None:
    lines = sum(len(json.dumps(record)) for run in kinds().values() for record in run.records)
    pages = [index_runs([(f"{name} {at}", run) for at in range(n) for name, run in kinds().items()]) for n in (1, 9)]
    few, many = map(len, pages)
    assert (many - few) / 8 < lines / 6


@cases(
    "runs, message",
    (
        [("a", failed_run()), ("b", "damaged"), ("a", "damaged")],
        "two runs have the name a; give each run a name of its own",
    ),
    ([("a", 1)], "is not a run"),
)
def test_wrong_runs_are_refused(runs: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        index_runs(runs)
