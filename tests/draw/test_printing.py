"""The page on paper: its header, its whole drawing, and all steps in order, without cut boxes."""

import re
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager

import pytest

from graphexec.draw import Recording
from tests.draw.browser import Page, Pages, shown
from tests.draw.debugged import answering, calling, failed_run, record, sixty_steps
from tests.parameters import read_tables

SCRIPTS = read_tables(__file__)

# A4 paper without its margins, in pixels.
PAPER = (688, 1020)


Print = Callable[..., AbstractContextManager[Page]]


@pytest.fixture
def printed(pages: Pages) -> Print:
    """Return a function that opens the page of a run as it is printed, and checks that nothing is left behind."""

    @contextmanager
    def open_printed(recording: Recording, address: str = "") -> Generator[Page]:
        page = pages.run(recording, address, size=PAPER, scheme="dark")
        view = page.evaluate(SCRIPTS["view"])
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        page.emulate_media(media="print")
        yield page
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        page.emulate_media(media="screen")
        assert page.locator("#printed").count() == 0
        assert page.locator("html").get_attribute("data-theme") == "dark"
        assert page.evaluate(SCRIPTS["view"]) == view

    return open_printed


def headings(page: Page) -> list[str]:
    return page.locator("#printed .where").all_inner_texts()


def test_all_steps_tracebacks_and_data_are_printed(printed: Print) -> None:
    with printed(sixty_steps()) as page:
        steps = [re.match(r"step (\d+)", heading) for heading in headings(page)]
        assert [int(found[1]) for found in steps if found] == [*range(1, 61)]
        assert headings(page)[0] == "before step 1"
        assert headings(page)[-1] == "after 60 steps"
        text = shown(page, "body")
        assert "Which of the fifteen shops is the cheapest?" in text
        assert "Proved: every run ends" in text
        assert text.count("HTTP 503 for https://bad") >= 6
        assert not page.locator("#player, #steps, .zoom, #detail").first.is_visible()
        assert page.locator("html").get_attribute("data-theme") == "light"
    with printed(failed_run()) as page:
        text = shown(page, "#printed")
        assert "connection reset by peer" in text
        assert text.count("Traceback") == 2
        assert "3 hits for first" in text
        assert page.locator("#printed .part.outcome details:not([open])").count() == 0


@pytest.mark.full
def test_printed_boxes_are_not_cut(printed: Print) -> None:
    long = "\n".join(f"line {number} " + "word " * 30 for number in range(300))
    recording = record([(1.0, calling(("search", {"query": "elms"}), text=long)), (1.0, answering("Done."))], "Why?")
    with printed(recording) as page:
        cut = page.evaluate(
            "[...document.querySelectorAll('#printed *, .view')].filter(one => one.clientHeight > 0 && "
            "getComputedStyle(one).display !== 'inline' && (one.scrollHeight > one.clientHeight + 2 || "
            "one.scrollWidth > one.clientWidth + 2)).map(one => one.className)"
        )
        assert cut == []
        text = shown(page, "#printed")
        assert "line 100 word" in text
        assert f"the first of {len(long):,} characters" in text


@pytest.mark.full
def test_many_steps_are_printed_in_part(printed: Print) -> None:
    start, *records, end = sixty_steps().records
    recording = Recording((start, *records * 9, end))
    with printed(recording) as page:
        assert len(headings(page)) == 400
        note = shown(page, "#printed > p")
        assert note == "The first 400 of 542 steps; a search on the page chooses others."
    with printed(recording, "#q=status:error") as page:
        assert len(headings(page)) == 45
        assert shown(page, "#printed > p") == "45 steps that the search finds"


@pytest.mark.full
def test_browser_prints_all_pages(pages: Pages) -> None:
    page = pages.run(sixty_steps())
    document = page.pdf(format="A4")
    assert len(re.findall(rb"/Type\s*/Page\b", document)) > 10
    assert page.locator("#printed").count() == 0
