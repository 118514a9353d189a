"""The page of two runs: their alignment, the differences of their texts, and the keys."""

import random
from collections.abc import Callable, Sequence
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from graphexec.draw import Recording, compare_runs
from graphexec.draw.page.bundle import bundle
from graphexec.errors import InputError
from graphexec.messages import ModelReply, Reasoning
from tests.draw.browser import Browser, Page, Pages, fragment, press, shown
from tests.draw.debugged import Turn, answering, calling, failed_run, record, sixty_steps
from tests.parameters import cases, mark_except

Compare = Callable[..., Page]


@pytest.fixture
def compared(pages: Pages) -> Compare:
    """Return a function that opens the page of two runs."""

    def open_runs(left: Recording, right: Recording, address: str = "", **options: Any) -> Page:
        return pages.text(compare_runs(left, right, names=("a.jsonl", "b.jsonl")), address, **options)

    return open_runs


def shopping(second: str = "I look at shop 1.", *, slower: float = 0.0, shops: Sequence[int] = range(3)) -> Recording:
    """Record a run that fetches the pages of shops; the text of its second reply is at step 5."""
    turns: list[Turn] = []
    for at, shop in enumerate(shops):
        text = second if at == 1 else f"I look at shop {shop}."
        turns.append((1.0 + slower, calling(("fetch", {"url": f"https://shop{shop}.example"}), text=text)))
    return record([*turns, (2.0, answering("Shop 2."))], "Which shop is the cheapest?")


def known(page: Page) -> str:
    return shown(page, "#known")


def selected(page: Page) -> str:
    return shown(page, "#detail .where")


def test_first_difference_but_of_ids_and_times_is_selected(compared: Compare) -> None:
    texts = [f"I look at the {word} shop 1." for word in ("first", "second")]
    page = compared(*map(shopping, texts))
    assert selected(page) == "step 5 in A · step 5 in B"
    assert shown(page, "#detail h2") == "plan"
    assert page.locator("del, ins").all_inner_texts() == ["first", "second"]
    assert page.locator(".side-text .text").all_inner_texts() == texts
    assert page.locator(".row.current.differs").get_attribute("data-position") == "5"
    # Ids and times are no difference.
    page = compared(shopping(), shopping(slower=0.5))
    assert known(page) == "The runs do not differ, except in ids, times and tokens."
    assert page.locator(".row.differs").count() == 0
    assert shown(page, 'tr:has-text("difference") [data-total=time]') == "+1.50 s"
    press(page, "n")
    assert shown(page, "#position") == "0 differences"


def test_keys_visit_the_differences(compared: Compare) -> None:
    page = compared(shopping("Shop 1?"), shopping("Shop 1!"))
    assert known(page) == "2 steps differ"
    assert shown(page, "#position") == "difference 1 of 2"
    press(page, "n")
    # The reply is in the prompt of the next request.
    assert selected(page) == "step 9 in A · step 9 in B"
    assert "PROMPT: ASSISTANT" in shown(page, "#detail")
    assert "step=9" in fragment(page)
    page.reload()
    assert selected(page) == "step 9 in A · step 9 in B"
    for key, address in (("n", "step=5"), ("N", "step=9")):
        press(page, key)
        assert address in fragment(page)
    press(page, "Home")
    assert shown(page, "#detail h2") == "start"
    press(page, "ArrowRight")
    assert selected(page) == "step 1 in A · step 1 in B"
    press(page, "End")
    assert shown(page, "#detail h2") == "answered"


@pytest.mark.full
def test_additional_steps_stand_alone(compared: Compare) -> None:
    page = compared(shopping(shops=(0, 1, 3)), shopping(shops=(0, 1, 2, 3)))
    assert "4 steps only in B" in known(page)
    alone = page.locator(".row.added")
    assert alone.count() == 4
    alone.first.click()
    assert page.locator("#detail .chip").first.inner_text() == "only in B"
    assert page.locator("#detail del").count() == 0
    # What follows the additional steps is beside its own kind again.
    press(page, "End", "ArrowLeft")
    assert selected(page) == "step 14 in A · step 18 in B"
    # So are the answers.
    page = compared(shopping(shops=(0, 1)), shopping(shops=(0, 1, 2)))
    press(page, "End", "ArrowLeft", "ArrowLeft")
    assert selected(page) == "step 9 in A · step 13 in B"
    assert "Shop 2." in shown(page, "#detail")


def test_machine_shows_both_paths(compared: Compare) -> None:
    page = compared(failed_run(), sixty_steps())
    assert page.locator("#drawing .edge.only-right").count() > 0
    assert page.locator("#drawing .edge.only-left").count() == 0
    assert "A ×1, B ×16" in (page.locator("#drawing").text_content() or "")
    page.locator("[data-node=dispatch_tools]").first.click()
    assert shown(page, "#detail h2") == "dispatch_tools"
    assert page.locator("#drawing .node.current").get_attribute("data-node") == "dispatch_tools"


@pytest.mark.full
def test_different_machines_are_compared_by_nodes(compared: Compare) -> None:
    own = shopping()
    start = own.records[0]
    arrows = start["machine"]["arrows"][1:]
    other = Recording(({**start, "machine": {**start["machine"], "arrows": arrows}}, *own.records[1:]))
    page = compared(own, other)
    assert page.locator("#unlike").is_visible()
    assert page.locator("#drawing .edge.taken").count() > 4
    assert page.locator("#drawing .only-left, #drawing .only-right").count() == 0
    assert page.locator(".row .side:not(.none)").count() > 4
    assert page.locator(".row.differs").count() == 0


@pytest.mark.parametrize("count", mark_except([1, 5], 5, mark=pytest.mark.full))
def test_unfinished_runs_are_compared(compared: Compare, count: int) -> None:
    whole = shopping()
    page = compared(Recording(whole.records[:count]), whole, "#step=0")
    assert page.locator("[data-total=outcome]").first.inner_text() == "not finished"
    press(page, "End")
    assert "not finished / answered" in shown(page, "#detail h2")


@pytest.mark.full
def test_long_texts_are_cut(compared: Compare) -> None:
    words = "many equal words " * 4000
    left, right = (
        record([(1.0, ModelReply(f"{words}{middle} {words}", reasoning=(Reasoning(own * 6000),)))], "?")
        for middle, own in (("one", "🙂 "), ("two", "ω "))
    )
    page = compared(left, right)
    reasoning, reply = (page.locator("#detail .part", has_text=title).first for title in ("Reasoning", "Reply"))
    assert len(reply.inner_text()) < 1000
    assert reply.locator("del").inner_text() == "one"
    reply.locator(".more").first.click()
    assert len(reply.inner_text()) > 60_000
    assert reasoning.locator("del").inner_text() == "🙂 " * 1333
    reasoning.locator("button").first.click()
    assert "".join(reasoning.locator("del").all_inner_texts()) == "🙂 " * 6000
    # No text is markup.
    page = compared(shopping("plain"), shopping('<img src=x onerror="alert(1)"></script>\u202e\u0000'))
    assert "<img src=x" in page.locator("#detail ins").first.inner_text()
    assert page.locator("#detail img").count() == 0


@pytest.mark.full
@pytest.mark.parametrize(("size", "scheme"), [((390, 844), "dark"), ((1000, 800), "light")])
def test_page_fits_small_screens(compared: Compare, size: tuple[int, int], scheme: str) -> None:
    page = compared(shopping("a"), shopping("b"), size=size, scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    assert page.locator("#detail ins").is_visible()


def test_only_runs_are_compared() -> None:
    with pytest.raises(InputError, match="is not a run"):
        compare_runs(failed_run(), 1)  # type: ignore[arg-type]


def evaluated(browser: Browser, module: str, call: str, cases: object) -> Any:
    """Return what JavaScript makes of the cases, with the functions of one module."""
    page = browser.new_page()
    try:
        return page.evaluate(f"(cases) => {{ {bundle(module)}; return cases.map((one) => {call}); }}", cases)
    finally:
        page.close()


@pytest.mark.full
def test_alignment_has_every_step_once_in_linear_time(browser: Browser) -> None:
    chance = random.Random(19)
    cases = [["".join(chance.choices("abcABC", k=chance.randrange(12))) for _ in range(2)] for _ in range(500)]
    steps = "[...text].map((letter) => ({content: letter, kind: letter.toLowerCase(), node: letter.toLowerCase()}))"
    call = f"alignSteps(...one.map((text) => {steps}))"
    for (one, other), pairs in zip(cases, evaluated(browser, "compare/alignment.js", call, cases), strict=True):
        assert [left for left, _ in pairs if left is not None] == [*range(len(one))]
        assert [right for _, right in pairs if right is not None] == [*range(len(other))]
        both = [(one[left], other[right]) for left, right in pairs if None not in (left, right)]
        assert all(left.lower() == right.lower() for left, right in both)
    call = """(() => {
        const steps = (seed) => Array.from({ length: one }, (_, at) => {
          const content = String((at * seed) % 7919);
          return { content: content + seed, kind: content, node: content };
        });
        const [left, right] = [steps(3), steps(5)];
        let least = Infinity;
        for (let time = 0; time < 5; time += 1) {
          const began = performance.now();
          alignSteps(left, right);
          least = Math.min(least, performance.now() - began);
        }
        return least;
    })()"""
    few, many = evaluated(browser, "compare/alignment.js", call, [2500, 10_000])
    assert many / few < 10


# ---- the difference between two texts


Parts = list[tuple[str, str]]


def diff_words(browser: Browser, before: str, after: str) -> Parts:
    [parts] = evaluated(browser, "base/diff.js", "diffWords(...one)", [[before, after]])
    return [(part["kind"], part["text"]) for part in parts]


@cases(
    "before, after, parts",
    ("", "", []),
    ("same", "same", [("same", "same")]),
    ("", "new", [("ins", "new")]),
    ("old", "", [("del", "old")]),
    (
        "the quick brown fox",
        "the slow red fox",
        [("same", "the "), ("del", "quick brown"), ("ins", "slow red"), ("same", " fox")],
    ),
    ("price: 12.", "price: 13.", [("same", "price: "), ("del", "12"), ("ins", "13"), ("same", ".")]),
    ("東京は晴れ", "大阪は晴れ", [("del", "東京"), ("ins", "大阪"), ("same", "は晴れ")]),
    ("قال نعم", "قال لا", [("same", "قال "), ("del", "نعم"), ("ins", "لا")]),
    ("good 👍🏽", "good 👎🏽", [("same", "good "), ("del", "👍"), ("ins", "👎"), ("same", "🏽")]),
)
def test_words_are_compared(browser: Browser, before: str, after: str, parts: Parts) -> None:
    assert diff_words(browser, before, after) == parts


def test_parts_hold_both_texts(browser: Browser) -> None:
    random = Random(19)
    pairs = [["".join(random.choices("ab \n.é", k=random.randrange(14))) for _ in range(2)] for _ in range(400)]
    found = evaluated(browser, "base/diff.js", "diffWords(...one)", pairs)
    for (before, after), parts in zip(pairs, found, strict=True):
        assert "".join(part["text"] for part in parts if part["kind"] != "ins") == before
        assert "".join(part["text"] for part in parts if part["kind"] != "del") == after
        kinds = [part["kind"] for part in parts]
        assert all(one != other for one, other in pairwise(kinds))


def test_long_texts_are_compared_by_lines(browser: Browser) -> None:
    before = "".join(f"line {number} of a long text\n" for number in range(20_000))
    after = before.replace("line 700 of a", "line 700 of one").replace("line 9000 ", "row 9000 ")
    changed = [part for part in diff_words(browser, before, after) if part[0] != "same"]
    assert changed == [("del", "a"), ("ins", "one"), ("del", "line"), ("ins", "row")]
    # Additions alone are found, however many they are.
    added = "".join(f"{number}\n" for number in range(20_000))
    assert diff_words(browser, "from\nto", f"from\n{added}to") == [("same", "from\n"), ("ins", added), ("same", "to")]
    # Texts that differ too much are not compared.
    random = Random(19)
    before, after = ("\n".join(str(random.randrange(10**9)) for _ in range(20_000)) for _ in range(2))
    assert diff_words(browser, before, after) == [("del", before), ("ins", after)]
