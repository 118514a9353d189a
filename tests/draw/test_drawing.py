"""The drawing on the page: readable labels, a view that moves, an overview, and one stop of the tab key."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import pytest

from graphexec.draw import picture_of
from graphexec.draw.page import html
from tests.draw.browser import Page, Pages, box_of, page_of, press, resize, sight, where
from tests.draw.machines import MANY, plugged, ring
from tests.draw.recorded import failed_node, sixty_steps, two_agents
from tests.parameters import mark_except, read_tables

SCRIPTS = read_tables(__file__)

SIZES = [(1440, 900), (1280, 720), (1024, 768), (390, 844), (3840, 2160)]


PAGES: Mapping[str, Callable[[], str]] = {
    "five nodes": lambda: page_of(sixty_steps()),
    "two agents": lambda: page_of(two_agents()),
    "pieces": lambda: html(picture_of(plugged(*MANY))),
    "60 nodes": lambda: html(ring(tuple(f"graph{number // 6}.node_{number}" for number in range(60)))),
}


@cache
def page_text(name: str) -> str:
    return PAGES[name]()


def smallest_text(page: Page) -> float:
    """Return the height of the smallest text of the drawing: its font size on the screen."""
    size: float = page.evaluate(SCRIPTS["smallest"])
    return size


# Whether all of an element is visible in the drawing, and under none of its buttons.
IN_SIGHT: str = SCRIPTS["in_sight"]
# The last of so many positions from the start, and those at which an element is not in sight.
UNSEEN: str = SCRIPTS["unseen"].replace("IN_SIGHT", IN_SIGHT)


def is_in_sight(page: Page, selector: str) -> bool:
    return bool(page.evaluate(IN_SIGHT, selector))


def by_size(*quick: tuple[int, int]) -> pytest.MarkDecorator:
    sizes = mark_except(SIZES, *quick, mark=pytest.mark.full)
    return pytest.mark.parametrize("size", sizes, ids=[f"{wide}x{high}" for wide, high in SIZES])


@by_size((390, 844))
@pytest.mark.parametrize("name", mark_except(PAGES, "60 nodes", "two agents", mark=pytest.mark.full))
def test_labels_are_readable(pages: Pages, name: str, size: tuple[int, int]) -> None:
    assert 9 <= smallest_text(pages.text(page_text(name), size=size)) + 0.01 <= 18


@by_size((1280, 720))
@pytest.mark.parametrize("name", mark_except(["five nodes", "two agents"], "two agents", mark=pytest.mark.full))
def test_current_node_stays_in_sight(pages: Pages, name: str, size: tuple[int, int]) -> None:
    page = pages.text(page_text(name), size=size)
    assert is_in_sight(page, "[data-node].current")
    last, unseen = page.evaluate(UNSEEN, ["[data-node].current", 30])
    assert unseen == []
    assert last.startswith("30 / ") or last == "end"


@by_size((390, 844))
def test_first_node_is_in_sight_at_the_start(pages: Pages, size: tuple[int, int]) -> None:
    page = pages.text(page_text("five nodes"), size=size)
    press(page, "End", "Home")
    assert page.locator("#position").text_content() == "start"
    assert is_in_sight(page, "[data-node=plan]")


def test_overview_moves_the_view(pages: Pages) -> None:
    page = pages.text(page_text("60 nodes"), size=(1280, 720))
    before, box = sight(page), box_of(page.locator("#minimap"))
    corners = [(box["x"] + 3, box["y"] + 3), (box["x"] + box["width"] - 3, box["y"] + box["height"] - 3)]
    page.mouse.click(*corners[0])
    first = sight(page)
    page.mouse.click(*corners[1])
    last = sight(page)
    assert first[0] < before[0] or first[1] < before[1]
    assert last[0] > first[0]
    assert last[1] > first[1]
    page.mouse.move(*corners[1])
    page.mouse.down()
    page.mouse.move(*corners[0], steps=3)
    page.mouse.up()
    assert sight(page) == first
    part = page.locator("#minimap .sight")
    assert [float(part.get_attribute(name) or "") for name in ("x", "y", "width", "height")] == first
    # So do the pointer and the wheel.
    page.mouse.move(640, 360)
    begin = sight(page)
    page.mouse.wheel(200, 150)
    page.wait_for_function(f"document.querySelector('.view > svg').getAttribute('viewBox') !== '{begin}'")
    page.mouse.down()
    page.mouse.move(580, 260, steps=3)
    page.mouse.up()
    after = sight(page)
    scale = 1280 / begin[2]
    assert after[0] - begin[0] > 60 / scale
    assert after[1] - begin[1] > 100 / scale - 1
    assert page.locator(".view.moved").count() == 1


@pytest.mark.full
def test_overview_is_there_when_it_is_needed(pages: Pages) -> None:
    page = pages.text(page_text("two agents"), size=(1024, 768))
    minimap = page.locator("#minimap")
    assert minimap.is_visible()
    assert minimap.locator(".is-current").count() == 1
    hidden = minimap.locator(".is-hidden").count()
    press(page, "f")
    assert minimap.locator(".is-hidden").count() > hidden
    assert minimap.locator(".box.is-folded").count() == 2
    page.locator("#fit").click()
    assert not minimap.is_visible()
    # It covers nothing of what nearly fits.
    page = pages.run(failed_node(), size=(1400, 900))
    whole = page.locator(".view > svg").evaluate("one => one.querySelector('g').getBBox().height")
    # The labels are as small as they may be.
    assert whole * 0.9 < sight(page)[3]
    assert smallest_text(page) == pytest.approx(9, abs=0.2)
    assert not page.locator("#minimap").is_visible()
    page.locator("#zoom-in").click(click_count=2)
    assert page.locator("#minimap").is_visible()
    # A small machine has none.
    page = pages.text(page_text("five nodes"))
    assert not page.locator("#minimap").is_visible()
    before = sight(page)
    page.locator("#drawing").hover()
    page.mouse.wheel(0, 100)
    page.mouse.down()
    page.mouse.move(300, 300, steps=2)
    page.mouse.up()
    assert sight(page) == before
    # The view follows the window.
    for width, height in ((390, 844), (1440, 900)):
        resize(page, width, height)
        assert smallest_text(page) >= 8.99
    assert not page.locator("#minimap").is_visible()


def focused_label(page: Page) -> str:
    return str(page.evaluate("document.activeElement.getAttribute('aria-label')"))


def test_drawing_is_one_stop(pages: Pages) -> None:
    page = pages.text(page_text("two agents"))
    assert page.locator("#drawing [tabindex='0']").count() == 1
    stop = "document.activeElement.closest('#drawing') ? 'drawing' : document.activeElement.id"
    stops: list[str] = []
    for _ in range(9):
        press(page, "Tab")
        stops.append(page.evaluate(stop))
    assert stops == ["skip", "help", "theme", "zoom-in", "zoom-out", "fit", "fold-all", "unfold-all", "drawing"]
    assert focused_label(page) == "END"
    press(page, "Tab")
    assert page.evaluate("document.activeElement.id") == "search"
    # The focus leaves a folded box.
    page.locator("[data-node='research.parse']").focus()
    press(page, "f")
    assert page.evaluate("document.activeElement.closest('.hidden, body') !== document.body") is False
    assert page.evaluate("document.activeElement.closest('#drawing') !== null")
    assert page.locator("#drawing [tabindex='0']").count() == 1


def test_arrow_keys_follow_the_named_parts(pages: Pages) -> None:
    page = pages.text(page_text("five nodes"))
    # The first stop leads to the steps.
    press(page, "Tab")
    assert page.locator("#skip").bounding_box() != {"x": 8, "y": 8, "width": 1, "height": 1}
    press(page, "Enter")
    assert page.evaluate("document.activeElement.id") == "list"
    page.locator("[data-node='plan']").focus()
    seen: list[str] = []
    for key in ("ArrowDown", "ArrowRight", "ArrowDown", "ArrowUp"):
        press(page, key)
        seen.append(focused_label(page).split(",")[0])
    assert seen == ["Ready ×1", "Replied ×16", "parse", "Replied ×16"]
    press(page, "Home")
    assert where(page) == "start"
    page.locator("[data-node='parse']").focus()
    press(page, "Enter")
    assert where(page) == "2 / 60"
    # Parts have names.
    page = pages.text(page_text("five nodes"))

    def names() -> list[Any]:
        return [one.get_attribute("aria-label") for one in page.locator("#drawing [role=button]").all()]

    assert None not in names()
    assert {"parse, failed", "Replied ×16, from plan to parse"} <= {*names()}
    assert page.locator("[aria-current=step]").get_attribute("aria-label") == "END"
    press(page, "Home")
    assert {"parse", "Replied, from plan to parse"} <= {*names()}


# Steps along the arrow keys from the focused part; returns the labels of the parts that were never reached.
REACH: str = SCRIPTS["reach"]


@pytest.mark.parametrize("name", mark_except(PAGES, "pieces", mark=pytest.mark.full))
def test_arrow_keys_reach_every_part(pages: Pages, name: str) -> None:
    assert pages.text(page_text(name)).evaluate(REACH) == []


@pytest.mark.full
def test_machine_alone_is_read_with_the_keyboard(pages: Pages) -> None:
    page = pages.text(page_text("pieces"), size=(1024, 768))
    stop = page.locator("#drawing [tabindex='0']")
    assert stop.get_attribute("role") == "img"
    stop.focus()
    for _ in range(12):
        press(page, "ArrowDown")
        assert is_in_sight(page, "[tabindex]:focus")
