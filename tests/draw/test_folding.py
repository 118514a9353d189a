"""Boxes on the page of a run fold to their name, by clicks and keys."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from graphexec.draw import draw, picture_of
from graphexec.draw.page import html
from tests.draw.browser import Opened, open_page
from tests.draw.plugged import APPROVE, CRITIC, MANY, OUTPUT, plugged
from tests.draw.test_pieces import run_with_a_piece

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator

pytestmark = pytest.mark.browser


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Any:
    file = tmp_path / "page.html"

    def open_text(text: str) -> Any:
        file.write_text(text, "utf-8")
        return open_page(browser, file.as_uri())

    return open_text


def toggle(one: Opened, name: str) -> Locator:
    return one.page.locator(f'.toggle:has(text[data-cluster="{name}"])')


def visible_nodes(one: Opened) -> list[str | None]:
    return [
        each.get_attribute("data-node") for each in one.page.locator("g.node[data-node]").all() if each.is_visible()
    ]


def test_box_folds_by_click_and_key(opened: Any) -> None:
    with opened(html(picture_of(plugged(CRITIC, OUTPUT, APPROVE)))) as one:
        critic = toggle(one, "critic")
        assert critic.get_attribute("aria-expanded") == "true"
        critic.locator("text.cluster-label").click()
        assert critic.get_attribute("aria-expanded") == "false"
        assert critic.get_attribute("aria-label") == "critic: 2 nodes"
        assert "judge" not in visible_nodes(one)
        assert "check_output" in visible_nodes(one)
        inner = one.page.locator("g.edge", has=one.page.locator("title", has_text="judge --Judged--> revise"))
        assert not inner.is_visible()
        for key, expanded in (("Enter", "true"), (" ", "false")):
            critic.focus()
            one.page.keyboard.press(key)
            assert critic.get_attribute("aria-expanded") == expanded
        critic.locator("rect.panel").click()
        assert "judge" in visible_nodes(one)
        assert one.faults == []


def test_all_boxes_fold_at_once(opened: Any) -> None:
    with opened(draw(plugged(*MANY), "html")) as one:
        one.page.click("#fold-all")
        assert len(visible_nodes(one)) == 5
        one.page.click("#unfold-all")
        assert len(visible_nodes(one)) == 5 + sum(len(nodes) for _, nodes in MANY)
        one.page.keyboard.press("f")
        assert len(visible_nodes(one)) == 5
        assert one.faults == []


def test_folded_box_counts_its_visits(opened: Any) -> None:
    result = run_with_a_piece()
    with opened(draw(result.journal.graph, "html", runs=result)) as one:
        one.page.keyboard.press("f")
        critic = toggle(one, "critic")
        assert critic.locator(".count").text_content() == "×2"
        assert critic.get_attribute("aria-label") == "critic ×2: 1 node, visited 2 times"
        for _ in range(2):
            one.page.keyboard.press("ArrowLeft")
        assert critic.locator(".count").text_content() == "×1"
        assert "current" not in str(critic.get_attribute("class"))
        for _ in range(2):
            one.page.keyboard.press("ArrowLeft")
        assert "current" in str(critic.get_attribute("class"))
        assert one.faults == []


def test_page_without_boxes_has_no_buttons(opened: Any) -> None:
    with opened(html(picture_of(plugged()))) as one:
        assert not one.page.locator("#fold-all").is_visible()
        assert one.faults == []


def test_page_counts_the_edges_of_badges(opened: Any) -> None:
    result = run_with_a_piece()
    with opened(draw(result.journal.graph, "html", runs=result, pieces="badges")) as one:
        taken = one.page.locator("g.edge.taken[data-edge] > title").all_text_contents()
        assert sorted(taken) == [
            "parse --AgentFinish [critic]--> END",
            "parse --Ready--> plan",
            "plan --Replied--> parse",
        ]
        notes = one.page.locator("g.edge-label.taken .notes").all_text_contents()
        assert sorted(notes) == ["×1", "×1", "×2"]
        assert one.faults == []
