"""The page is used with the keyboard alone: each key does what the dialog of `?` says."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from graphexec.draw import compare_runs, picture_of
from graphexec.draw.page import html
from graphexec.executor import AGENT_EXECUTOR
from tests.draw.browser import fragment, open_text
from tests.draw.debugged import failed_run, sixty_steps

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytest.importorskip("pygraphviz", reason="the page's machine is laid out with Graphviz")
pytestmark = pytest.mark.browser


@pytest.fixture
def page(browser: Browser, tmp_path: Path) -> Generator[Page]:
    """The page of a run of 60 steps, of which 5 failed."""
    recording = sixty_steps()
    with open_text(browser, tmp_path, html(recording.machine, recording)) as opened:
        yield opened


def where(page: Page) -> str:
    return page.locator("#position").inner_text()


def go(page: Page, step: int) -> None:
    """Go to a step by its address, and wait until the page follows."""
    page.goto(f"{page.url.split('#')[0]}#step={step}")
    page.locator(f"#position:has-text('{step} / '), #pair-{step}[aria-selected=true]").first.wait_for()


def focused(page: Page) -> str:
    name: str = page.evaluate("document.activeElement.id || document.activeElement.localName")
    return name


def close_dialog(page: Page) -> None:
    """Close the dialog of the keys, which the browser does a moment after the key."""
    page.keyboard.press("Escape")
    page.locator("#keys").wait_for(state="detached")


def documented(page: Page) -> dict[str, list[str]]:
    """Return the keys that the dialog lists, by the titles of their groups."""
    page.keyboard.press("?")
    found = {
        group.locator("h3").inner_text(): [str(key.get_attribute("data-key")) for key in group.locator("kbd").all()]
        for group in page.locator("#keys section").all()
    }
    close_dialog(page)
    return found


# What a key does from step 30: in which place it is pressed, and what can be seen then.
def position_after(key: str, place: str = "#detail", start: int = 30) -> Callable[[Page], str]:
    def press(page: Page) -> str:
        go(page, start)
        page.locator(place).focus()
        page.keyboard.press(key)
        return where(page)

    return press


def matches_after(*keys: str) -> Callable[[Page], str]:
    def press(page: Page) -> str:
        position_after("Home")(page)
        page.locator("#search").fill("503")
        for key in keys:
            page.locator("#search").focus()
            page.keyboard.press(key)
        shown = f"{page.locator('#matches').inner_text()}, {page.locator('#search').input_value()}, {focused(page)}"
        page.locator("#search").fill("")
        return shown

    return press


def theme_after(page: Page) -> str:
    position_after("d")(page)
    return str(page.locator("html").get_attribute("data-theme"))


def dialog_after(page: Page) -> str:
    position_after("?")(page)
    shown = page.locator("#keys h2").inner_text()
    close_dialog(page)
    return shown


def playing_after(page: Page) -> str:
    position_after("Space")(page)
    shown = page.locator("#play").inner_text()
    page.keyboard.press("Space")
    return f"{shown}, {page.locator('#play').inner_text()}"


def waterfall_after(page: Page) -> str:
    position_after("w")(page)
    hidden = page.locator("#waterfall").is_hidden()
    page.keyboard.press("w")
    return str(hidden)


def rows_after(*keys: str) -> Callable[[Page], str]:
    """Return the number of open rows after some keys in the list."""

    def press(page: Page) -> str:
        position_after("ArrowRight", "#list")(page)
        for key in keys:
            page.keyboard.press(key)
        shown = str(page.locator('[aria-level="2"]').count())
        if keys == ("p",):
            page.keyboard.press("p")
        return shown

    return press


def focus_after(key: str) -> Callable[[Page], str]:
    def press(page: Page) -> str:
        position_after(key)(page)
        return focused(page)

    return press


def copied_after(page: Page) -> str:
    """Copy the reply of the model's second step."""
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    go(page, 5)
    page.locator("#detail .part.reply [tabindex='0']").first.focus()
    page.keyboard.press("c")
    page.wait_for_function("navigator.clipboard.readText()")
    return str(page.evaluate("navigator.clipboard.readText()"))


def drawing_after(*keys: str, start: int = 30) -> Callable[[Page], str]:
    """Return the focused part and the part of the drawing that is in sight, after keys in the drawing."""

    def press(page: Page) -> str:
        go(page, start)
        page.locator("#fit").click()
        page.locator("[data-node=parse]").focus()
        whole = view(page)
        for key in keys[:-1]:
            page.keyboard.press(key)
        before = view(page)
        page.keyboard.press(keys[-1])
        after = view(page)
        if after != before:
            names = (("left", "right"), ("up", "down"), ("in", "out"), ("in", "out"))
            moved = [
                pair[new > old] for pair, old, new in zip(names, before, after, strict=True) if abs(new - old) > 0.01
            ]
            return "whole" if after == whole else " ".join(moved)
        label = page.evaluate("document.activeElement.getAttribute('aria-label')").split(",")[0]
        return f"{label}, {where(page)}"

    return press


def view(page: Page) -> list[float]:
    return [float(one) for one in (page.locator(".view > svg").get_attribute("viewBox") or "").split()]


EFFECTS: Mapping[str, Mapping[str, tuple[Callable[[Page], str], str]]] = {
    "Steps": {
        "ArrowRight": (position_after("ArrowRight"), "31 / 60"),
        "j": (position_after("j"), "31 / 60"),
        "ArrowLeft": (position_after("ArrowLeft"), "29 / 60"),
        "k": (position_after("k"), "29 / 60"),
        "Home": (position_after("Home"), "start"),
        "End": (position_after("End"), "end"),
        "e": (position_after("e"), "33 / 60"),
        "E": (position_after("E"), "29 / 60"),
        "Space": (playing_after, "pause, play"),
        "c": (copied_after, '{"url": "https://site1.example"}'),
        "w": (waterfall_after, "True"),
        "/": (focus_after("/"), "search"),
    },
    "In the search": {
        "Enter": (matches_after("Enter", "Enter"), "2 of 6, 503, search"),
        "Shift+Enter": (matches_after("Enter", "Shift+Enter"), "6 of 6, 503, search"),
        "Escape": (matches_after("Escape"), ", , body"),
    },
    "In the list of steps": {
        # The row of an iteration leads to its failed step.
        "ArrowDown": (position_after("ArrowDown", "#list"), "33 / 60"),
        "ArrowUp": (position_after("ArrowUp", "#list"), "29 / 60"),
        "ArrowRight": (rows_after("ArrowLeft", "ArrowLeft", "ArrowRight"), "4"),
        "ArrowLeft": (rows_after("ArrowLeft", "ArrowLeft"), "0"),
        "Enter": (rows_after("Enter"), "0"),
        "p": (rows_after("p"), "2"),
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
    "Page": {"f": (position_after("f"), "30 / 60"), "d": (theme_after, "dark"), "?": (dialog_after, "Keyboard")},
}


def test_every_documented_key_works(page: Page) -> None:
    assert documented(page) == {title: [*keys] for title, keys in EFFECTS.items()}
    shown = {title: {key: act(page) for key, (act, _) in keys.items()} for title, keys in EFFECTS.items()}
    assert shown == {title: {key: effect for key, (_, effect) in keys.items()} for title, keys in EFFECTS.items()}


def test_dialog_gives_the_focus_back(page: Page) -> None:
    page.locator("#help").click()
    assert page.locator("#keys").evaluate("dialog => dialog.contains(document.activeElement)")
    page.keyboard.press("ArrowLeft")
    assert where(page) == "end"
    close_dialog(page)
    assert focused(page) == "help"
    page.locator("#help").press("Enter")
    page.locator("#keys .close").click()
    assert focused(page) == "help"
    page.keyboard.press("?")
    page.mouse.click(5, 5)
    page.locator("#keys").wait_for(state="detached")


def test_machine_alone_has_no_keys_of_steps(pages: Pages) -> None:
    page = pages.text(html(picture_of(AGENT_EXECUTOR)))
    assert [*documented(page)] == ["In the drawing", "Page"]
    page.keyboard.press("ArrowRight")
    page.keyboard.press("d")
    assert page.locator("html").get_attribute("data-theme") == "dark"


def test_keys_of_two_runs_select_pairs(pages: Pages) -> None:
    page = pages.text(compare_runs(sixty_steps(), failed_run()))
    listed = documented(page)
    assert listed.pop("Page") == ["f", "d", "?"]
    assert listed.pop("In the drawing") == [*EFFECTS["In the drawing"]]
    [keys] = listed.values()
    shown: dict[str, str] = {}
    for key in keys:
        go(page, 2)
        page.keyboard.press(key)
        shown[key] = fragment(page).partition("step=")[2]
    assert {key: int(at) - 2 for key, at in shown.items() if key.startswith("Arrow") or key in "jk"} == {
        "ArrowRight": 1, "ArrowDown": 1, "j": 1, "ArrowLeft": -1, "ArrowUp": -1, "k": -1,
    }  # fmt: skip
    assert shown["Home"] == "0"
    assert len({shown[key] for key in ("Home", "End", "n", "N", "e", "E")}) > 3
    assert "2" not in shown.values()
