"""The page is for everyone: the rules of axe, targets for fingers, reduced motion, and text from right to left."""

import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal

import pytest

import graphexec.draw.page
from graphexec import draw, executor
from graphexec.draw.formats.svg import svg
from graphexec.draw.page import html
from tests.draw import debugged
from tests.draw.browser import Browser, Page, Pages, page_of, press
from tests.draw.machines import EVERY_LOOK, plugged, with_marks, with_run
from tests.draw.test_page import open_live
from tests.parameters import mark_except

pytest.importorskip("pygraphviz", reason="the page's machine is laid out with Graphviz")

_AXE = Path(__file__).parents[1] / "browser" / "node_modules" / "axe-core" / "axe.min.js"
# Rules that are not on by default: of experiments, those about names, and large targets.
_MORE = ("label-content-name-mismatch", "target-size")
# Any: options of `open_page`.
PHONE: Mapping[str, Any] = {"size": (390, 844), "has_touch": True, "is_mobile": True}


def violations(page: Page) -> list[str]:
    """Return the serious and critical violations of axe's rules, with the elements that violate them."""
    if not _AXE.exists():
        pytest.skip("axe is missing: npm ci in tests/browser")
    if not page.evaluate("'axe' in window"):
        page.evaluate(_AXE.read_text("utf-8"))
    # Any: JSON, from axe.
    found: Any = page.evaluate(
        # The elements that violate nothing are not listed, which would take a part of the time.
        """more => axe.run(document, {
            resultTypes: ["violations"],
            rules: Object.fromEntries(more.map(rule => [rule, {enabled: true}])),
        })""",
        _MORE,
    )
    return [
        f"{one['id']}: {node['html'][:160]} {node['failureSummary']}"
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]


PAGES: Mapping[str, Callable[[], str]] = {
    "machine": lambda: html(draw.picture_of(executor.AGENT_EXECUTOR.verify())),
    "marks": lambda: html(with_marks(EVERY_LOOK)),
    "pieces": lambda: html(draw.picture_of(plugged("output_type", "critic"))),
    "60 steps": lambda: page_of(debugged.sixty_steps()),
    "12 tools": lambda: page_of(debugged.twelve_tools()),
    "two agents": lambda: page_of(debugged.two_agents()),
    "failed run": lambda: page_of(debugged.failed_run()),
    "stopped run": lambda: page_of(debugged.stopped_run()),
}
full = pytest.mark.full
by_page = pytest.mark.parametrize("name", mark_except(PAGES, "60 steps", mark=full))


@cache
def page_text(name: str) -> str:
    return PAGES[name]()


@pytest.mark.parametrize("scheme", mark_except(["light", "dark"], "dark", mark=full))
@pytest.mark.parametrize("name", mark_except(PAGES, "pieces", "60 steps", mark=full))
def test_page_violates_no_rule(pages: Pages, name: str, scheme: Literal["light", "dark"]) -> None:
    page = pages.text(page_text(name), scheme=scheme)
    found = violations(page)
    for keys in (["Home"], ["ArrowRight"] * 3, ["e", "f"], ["?"]):
        press(page, *keys)
        found += violations(page)
    assert found == []


@pytest.mark.parametrize("name", mark_except(PAGES, mark=full))
def test_page_on_a_phone_violates_no_rule(pages: Pages, name: str) -> None:
    assert violations(pages.text(page_text(name), **PHONE)) == []


@pytest.mark.parametrize("part", mark_except([0.0, 0.5], 0.5, mark=full))
def test_live_page_violates_no_rule(browser: Browser, part: float) -> None:
    recording = debugged.sixty_steps()
    count = int(len(recording.records) * part)
    with open_live(browser, recording, count, []) as (page, _):
        assert violations(page) == []


@full
def test_svg_violates_no_rule(pages: Pages) -> None:
    main = f"<main><h1>Picture</h1>{svg(with_run(EVERY_LOOK))}</main>"
    page = pages.text(f"<!doctype html><html lang=en><title>A picture</title>{main}</html>")
    assert violations(page) == []
    assert page.get_by_role("img", name="State machine that starts at ask_model").count() == 1


SMALL = """() => [...document.querySelectorAll("button, a[href], summary, input, select, textarea")]
    .filter(one => one.checkVisibility({visibilityProperty: true}) && one.id !== "skip")
    .map(one => [one, one.getBoundingClientRect()])
    .filter(([, box]) => box.width > 0 && (box.width < 43.9 || box.height < 43.9))
    .map(([one, box]) => `${one.outerHTML.slice(0, 120)} ${box.width.toFixed(1)} x ${box.height.toFixed(1)}`)"""


@by_page
def test_targets_on_a_phone_fit_a_finger(pages: Pages, name: str) -> None:
    page = pages.text(page_text(name), **PHONE)
    small: list[str] = page.evaluate(SMALL)
    for key in ("Home", "ArrowRight", "ArrowRight", "ArrowRight", "e", "?"):
        press(page, key)
        small += page.evaluate(SMALL)
    assert small == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


MOVING = """[...document.querySelectorAll("*")].filter(one => {
    const style = getComputedStyle(one);
    return style.transitionDuration !== "0s" || style.animationName !== "none" || style.scrollBehavior !== "auto";
}).map(one => one.outerHTML.slice(0, 100))"""


@by_page
def test_reduced_motion_stops_all_motion(pages: Pages, name: str) -> None:
    page = pages.text(page_text(name), reduced_motion="reduce")
    for key in ("Home", "ArrowRight", "f", "?"):
        press(page, key)
        assert page.evaluate("document.getAnimations().length") == 0
    assert page.evaluate(MOVING) == []


ARABIC, HEBREW = "تحقق من الطقس في القاهرة من فضلك", "מה מזג האוויר בקהיר?"


# The distances of the text of an element from its left and from its right side.
SIDES = """one => {
    const range = document.createRange();
    range.selectNodeContents(one);
    const [text, box] = [range.getBoundingClientRect(), one.getBoundingClientRect()];
    return [text.left - box.left, box.right - text.right];
}"""


def test_text_from_right_to_left_is_aligned_so(pages: Pages) -> None:
    call = debugged.calling(("search", {"query": ARABIC}), text=HEBREW)
    turns = [(1.0, call), (1.0, debugged.answering(f"{ARABIC} 32°C."))]
    page = pages.run(debugged.record(turns, ARABIC), "#step=1")
    for selector in (".row[data-position='0'] .gist", "#detail .part.reply pre"):
        left, right = page.locator(selector).first.evaluate(SIDES)
        assert right < left
    page.locator("#search").fill("search")
    left, right = page.locator("#detail h2").first.evaluate(SIDES)
    assert left <= right


@by_page
def test_layout_mirrors_for_a_page_from_right_to_left(pages: Pages, name: str) -> None:
    page = pages.text(page_text(name))
    page.evaluate("document.documentElement.dir = 'rtl'")
    assert page.evaluate("document.documentElement.scrollWidth") == 1440
    for inner, outer in (("#theme", "#header"), (".zoom", "#machine"), ("#minimap", ".view")):
        near = page.locator(inner).first.bounding_box()
        around = page.locator(outer).first.bounding_box()
        if near is not None and around is not None:
            assert near["x"] - around["x"] < around["width"] / 3


def test_styles_name_no_side() -> None:
    """Left and right are sides of the screen; text has a start and an end, which its direction decides."""
    named = re.compile(
        r"(?:[{;]|^)((?:margin|padding|border)-(?:left|right)(?:-\w+)?|left|right|(?:text-align|float):(?:left|right))\b"
    )
    folder = Path(graphexec.draw.page.__file__).parent / "styles"
    found = {
        sheet.name: [match[1] for line in sheet.read_text("utf-8").splitlines() for match in named.finditer(line)]
        for sheet in sorted(folder.glob("*.css"))
    }
    assert {name: sides for name, sides in found.items() if sides} == {}
