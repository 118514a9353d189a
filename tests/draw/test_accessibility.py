"""The page is for everyone: used with the keyboard alone, within the rules of axe, with targets for fingers."""

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
from tests.draw import recorded
from tests.draw.browser import Browser, Page, Pages, page_of, press, shown, sight, where
from tests.draw.machines import EVERY_LOOK, plugged, with_marks, with_run
from tests.draw.recorded import sixty_steps
from tests.draw.test_page import open_live
from tests.parameters import cases, mark_except


@pytest.fixture
def page(pages: Pages) -> Page:
    """The page of a run of 60 steps, of which 5 failed."""
    return pages.run(sixty_steps())


def go(page: Page, step: int) -> None:
    """Go to a step by its address, and wait until the page follows."""
    page.goto(f"{page.url.split('#')[0]}#step={step}")
    page.locator(f"#position:has-text('{step} / ')").wait_for()


def focused(page: Page) -> str:
    return str(page.evaluate("document.activeElement.id || document.activeElement.localName"))


def close_dialog(page: Page) -> None:
    """Close the dialog of the keys, which the browser does a moment after the key."""
    press(page, "Escape")
    page.locator("#keys").wait_for(state="detached")


def documented(page: Page) -> dict[str, list[str]]:
    """Return the keys that the dialog lists, by the titles of their groups."""
    press(page, "?")
    found = {
        group.locator("h3").inner_text(): [str(key.get_attribute("data-key")) for key in group.locator("kbd").all()]
        for group in page.locator("#keys section").all()
    }
    close_dialog(page)
    return found


# What a key does from step 30, in a place of the page: what can be seen then.
Act = Callable[[Page], str]


def after(look: Act, *keys: str, place: str = "#detail") -> Act:
    """Return a function that presses the keys in a place of the page at step 30, and looks."""

    def act(page: Page) -> str:
        go(page, 30)
        page.locator(place).focus()
        press(page, *keys)
        return look(page)

    return act


def matches_after(*keys: str) -> Act:
    def act(page: Page) -> str:
        after(where, "Home")(page)
        page.locator("#search").fill("503")
        for key in keys:
            page.locator("#search").focus()
            press(page, key)
        found = f"{shown(page, '#matches')}, {page.locator('#search').input_value()}, {focused(page)}"
        page.locator("#search").fill("")
        return found

    return act


def theme(page: Page) -> str:
    return str(page.locator("html").get_attribute("data-theme"))


def open_rows(page: Page) -> str:
    return str(page.locator('[aria-level="2"]').count())


# These take back what the key has done.
def dialog(page: Page) -> str:
    title = shown(page, "#keys h2")
    close_dialog(page)
    return title


def playing(page: Page) -> str:
    before = shown(page, "#play")
    press(page, "Space")
    return f"{before}, {shown(page, '#play')}"


def hidden_waterfall(page: Page) -> str:
    hidden = page.locator("#waterfall").is_hidden()
    press(page, "w")
    return str(hidden)


def rows_with_calls(page: Page) -> str:
    rows = open_rows(page)
    press(page, "p")
    return rows


def copied_after(page: Page) -> str:
    """Copy the reply of the model's second step."""
    go(page, 5)
    page.locator("#detail .part.reply [tabindex='0']").first.focus()
    press(page, "c")
    page.wait_for_function("navigator.clipboard.readText()")
    return str(page.evaluate("navigator.clipboard.readText()"))


def drawing_after(*keys: str) -> Act:
    """Return the focused part and the part of the drawing that is in sight, after keys in the drawing."""

    def act(page: Page) -> str:
        go(page, 30)
        page.locator("#fit").click()
        page.locator("[data-node=parse]").focus()
        whole = sight(page)
        press(page, *keys[:-1])
        before = sight(page)
        press(page, keys[-1])
        after = sight(page)
        if after != before:
            names = (("left", "right"), ("up", "down"), ("in", "out"), ("in", "out"))
            changes = zip(names, before, after, strict=True)
            moved = [pair[new > old] for pair, old, new in changes if abs(new - old) > 0.01]
            return "whole" if after == whole else " ".join(moved)
        label = page.evaluate("document.activeElement.getAttribute('aria-label')").split(",")[0]
        return f"{label}, {where(page)}"

    return act


EFFECTS: Mapping[str, Mapping[str, tuple[Act, str]]] = {
    "Steps": {
        "ArrowRight": (after(where, "ArrowRight"), "31 / 60"),
        "j": (after(where, "j"), "31 / 60"),
        "ArrowLeft": (after(where, "ArrowLeft"), "29 / 60"),
        "k": (after(where, "k"), "29 / 60"),
        "Home": (after(where, "Home"), "start"),
        "End": (after(where, "End"), "end"),
        "e": (after(where, "e"), "33 / 60"),
        "E": (after(where, "E"), "29 / 60"),
        "Space": (after(playing, "Space"), "pause, play"),
        "c": (copied_after, '{"url": "https://site1.example"}'),
        "w": (after(hidden_waterfall, "w"), "True"),
        "/": (after(focused, "/"), "search"),
    },
    "In the search": {
        "Enter": (matches_after("Enter", "Enter"), "2 of 6, 503, search"),
        "Shift+Enter": (matches_after("Enter", "Shift+Enter"), "6 of 6, 503, search"),
        "Escape": (matches_after("Escape"), ", , body"),
    },
    "In the list of steps": {
        # The row of an iteration leads to its failed step.
        "ArrowDown": (after(where, "ArrowDown", place="#list"), "33 / 60"),
        "ArrowUp": (after(where, "ArrowUp", place="#list"), "29 / 60"),
        "ArrowRight": (after(open_rows, "ArrowRight", "ArrowLeft", "ArrowLeft", "ArrowRight", place="#list"), "4"),
        "ArrowLeft": (after(open_rows, "ArrowRight", "ArrowLeft", "ArrowLeft", place="#list"), "0"),
        "Enter": (after(open_rows, "ArrowRight", "Enter", place="#list"), "0"),
        "p": (after(rows_with_calls, "ArrowRight", "p", place="#list"), "2"),
    },
    "In the drawing": {
        "ArrowUp": (drawing_after("ArrowUp"), "Replied ×8, 30 / 60"),
        "ArrowDown": (drawing_after("ArrowDown"), "Acted ×7, 30 / 60"),
        "ArrowLeft": (drawing_after("ArrowLeft"), "Ready ×1, 30 / 60"),
        "ArrowRight": (drawing_after("ArrowRight"), "Replied ×8, 30 / 60"),
        "Enter": (drawing_after("Enter"), "parse, 32 / 60"),
        "Space": (drawing_after("Space"), "parse, 32 / 60"),
        "Shift+ArrowUp": (drawing_after("+", "+", "+", "Shift+ArrowUp"), "up"),
        "Shift+ArrowDown": (drawing_after("+", "+", "+", "Shift+ArrowUp", "Shift+ArrowDown"), "down"),
        "Shift+ArrowLeft": (drawing_after("+", "+", "+", "Shift+ArrowLeft"), "left"),
        "Shift+ArrowRight": (drawing_after("+", "+", "+", "Shift+ArrowRight"), "right"),
        "+": (drawing_after("+"), "right down in in"),
        "-": (drawing_after("+", "+", "-"), "left up out out"),
        "0": (drawing_after("+", "0"), "whole"),
    },
    "Page": {
        "f": (after(where, "f"), "30 / 60"),
        "d": (after(theme, "d"), "dark"),
        "?": (after(dialog, "?"), "Keyboard"),
    },
}


def test_dialog_documents_keys_and_gives_the_focus_back(page: Page) -> None:
    assert documented(page) == {title: [*keys] for title, keys in EFFECTS.items()}
    page.locator("#help").click()
    assert page.locator("#keys").evaluate("dialog => dialog.contains(document.activeElement)")
    press(page, "ArrowLeft")
    assert where(page) == "end"
    close_dialog(page)
    assert focused(page) == "help"
    page.locator("#help").press("Enter")
    page.locator("#keys .close").click()
    assert focused(page) == "help"
    press(page, "?")
    page.mouse.click(5, 5)
    page.locator("#keys").wait_for(state="detached")


@cases("act, effect", *[one for keys in EFFECTS.values() for one in keys.values()])
def test_every_documented_key_works(page: Page, act: Act, effect: str) -> None:
    assert act(page) == effect


def test_page_without_a_run_has_the_keys_of_the_drawing(pages: Pages) -> None:
    page = pages.text(html(draw.picture_of(executor.AGENT_EXECUTOR)))
    assert [*documented(page)] == ["In the drawing", "Page"]
    press(page, "ArrowRight", "d")
    assert page.locator("html").get_attribute("data-theme") == "dark"


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
    "60 steps": lambda: page_of(recorded.sixty_steps()),
    "12 tools": lambda: page_of(recorded.twelve_tools()),
    "two agents": lambda: page_of(recorded.two_agents()),
    "failed run": lambda: page_of(recorded.failed_run()),
    "stopped run": lambda: page_of(recorded.stopped_run()),
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
    recording = recorded.sixty_steps()
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
    call = recorded.calling(("search", {"query": ARABIC}), text=HEBREW)
    turns = [(1.0, call), (1.0, recorded.answering(f"{ARABIC} 32°C."))]
    page = pages.run(recorded.record(turns, ARABIC), "#step=1")
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
