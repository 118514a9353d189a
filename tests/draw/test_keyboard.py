"""The page is used with the keyboard alone: each key does what the dialog of `?` says."""

from collections.abc import Callable, Mapping

import pytest

from graphexec import draw, executor
from graphexec.draw.page import html
from tests.draw.browser import Page, Pages, press, shown, sight, where
from tests.draw.debugged import sixty_steps
from tests.parameters import cases


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
