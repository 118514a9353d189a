"""The page's difference between two texts, in a browser."""

from __future__ import annotations

from collections.abc import Generator
from itertools import pairwise
from random import Random

import pytest

from graphexec.draw.page.bundle import bundle
from tests.draw.browser import Browser, Page, open_page
from tests.parameters import cases

Parts = list[tuple[str, str]]


@pytest.fixture(scope="module")
def page(browser: Browser) -> Generator[Page]:
    with open_page(browser, "about:blank") as one:
        one.page.add_script_tag(content=bundle("base/diff.js"))
        yield one.page


def diff_words(page: Page, before: str, after: str) -> Parts:
    parts = page.evaluate("([before, after]) => diffWords(before, after)", [before, after])
    return [(part["kind"], part["text"]) for part in parts]


@cases(
    "before, after, parts",
    [
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
    ],
)
def test_words_are_compared(page: Page, before: str, after: str, parts: Parts) -> None:
    assert diff_words(page, before, after) == parts


def test_parts_hold_both_texts(page: Page) -> None:
    random = Random(19)
    pairs = [["".join(random.choices("ab \n.é", k=random.randrange(14))) for _ in range(2)] for _ in range(400)]
    found = page.evaluate("(pairs) => pairs.map(([before, after]) => diffWords(before, after))", pairs)
    for (before, after), parts in zip(pairs, found, strict=True):
        assert "".join(part["text"] for part in parts if part["kind"] != "ins") == before
        assert "".join(part["text"] for part in parts if part["kind"] != "del") == after
        kinds = [part["kind"] for part in parts]
        assert all(one != other for one, other in pairwise(kinds))


def test_long_texts_are_compared_by_lines(page: Page) -> None:
    before = "".join(f"line {number} of a long text\n" for number in range(20_000))
    after = before.replace("line 700 of a", "line 700 of one").replace("line 9000 ", "row 9000 ")
    changed = [part for part in diff_words(page, before, after) if part[0] != "same"]
    assert changed == [("del", "a"), ("ins", "one"), ("del", "line"), ("ins", "row")]
    # Additions alone are found, however many they are.
    added = "".join(f"{number}\n" for number in range(20_000))
    assert diff_words(page, "start\nend", f"start\n{added}end") == [
        ("same", "start\n"),
        ("ins", added),
        ("same", "end"),
    ]
    # Texts that differ too much are not compared.
    random = Random(19)
    before, after = ("\n".join(str(random.randrange(10**9)) for _ in range(20_000)) for _ in range(2))
    assert diff_words(page, before, after) == [("del", before), ("ins", after)]
