"""Boxes on the page of a run fold to their name, by clicks and keys."""

from __future__ import annotations

from graphexec.draw import draw, picture_of
from graphexec.draw.page import html
from tests.draw.browser import Locator, Page, Pages, classes, press
from tests.draw.plugged import APPROVE, CRITIC, MANY, OUTPUT, plugged
from tests.draw.test_pieces import run_with_a_piece


def toggle(page: Page, name: str) -> Locator:
    return page.locator(f'.toggle:has(text[data-cluster="{name}"])')


def visible_nodes(page: Page) -> list[str | None]:
    nodes = page.locator("g.node[data-node]").all()
    return [each.get_attribute("data-node") for each in nodes if each.is_visible()]


def test_box_folds_by_click_and_key(pages: Pages) -> None:
    page = pages.text(html(picture_of(plugged(CRITIC, OUTPUT, APPROVE))))
    critic = toggle(page, "critic")
    assert critic.get_attribute("aria-expanded") == "true"
    critic.locator("text.cluster-label").click()
    assert critic.get_attribute("aria-expanded") == "false"
    assert critic.get_attribute("aria-label") == "critic: 2 nodes"
    assert "judge" not in visible_nodes(page)
    assert "check_output" in visible_nodes(page)
    inner = page.locator("g.edge", has=page.locator("title", has_text="judge --Judged--> revise"))
    assert not inner.is_visible()
    for key, expanded in (("Enter", "true"), (" ", "false")):
        critic.focus()
        press(page, key)
        assert critic.get_attribute("aria-expanded") == expanded
    critic.locator("rect.panel").click()
    assert "judge" in visible_nodes(page)


def test_all_boxes_fold_at_once(pages: Pages) -> None:
    page = pages.text(draw(plugged(*MANY), "html"))
    page.click("#fold-all")
    assert len(visible_nodes(page)) == 5
    page.click("#unfold-all")
    assert len(visible_nodes(page)) == 5 + sum(len(nodes) for _, nodes in MANY)
    press(page, "f")
    assert len(visible_nodes(page)) == 5
    # A page without boxes has no buttons for it.
    assert not pages.text(html(picture_of(plugged()))).locator("#fold-all").is_visible()


def test_folded_boxes_and_badges_count_visits(pages: Pages) -> None:
    result = run_with_a_piece()
    page = pages.text(draw(result.journal.graph, "html", runs=result))
    press(page, "f")
    critic = toggle(page, "critic")
    assert critic.locator(".count").text_content() == "×2"
    assert critic.get_attribute("aria-label") == "critic ×2: 1 node, visited 2 times"
    press(page, "ArrowLeft", "ArrowLeft")
    assert critic.locator(".count").text_content() == "×1"
    assert "current" not in classes(critic)
    press(page, "ArrowLeft", "ArrowLeft")
    assert "current" in classes(critic)
    # Badges count the uses of edges.
    result = run_with_a_piece()
    page = pages.text(draw(result.journal.graph, "html", runs=result, pieces="badges"))
    taken = page.locator("g.edge.taken[data-edge] > title").all_text_contents()
    edges = ["parse --AgentFinish [critic]--> END", "parse --Ready--> plan", "plan --Replied--> parse"]
    assert sorted(taken) == edges
    assert sorted(page.locator("g.edge-label.taken .notes").all_text_contents()) == ["×1", "×1", "×2"]
