"""Pieces in pictures: boxes around their nodes."""

from typing import Any

import pytest

import graphexec as gx
from graphexec.draw import draw, picture_of
from graphexec.draw.model.picture import cluster_tree
from graphexec.draw.page import html
from graphexec.executor import Acted, Ready
from graphexec.nodes import Piece
from tests.draw.browser import Locator, Page, Pages, classes, press
from tests.draw.machines import MANY, plugged
from tests.parameters import cases


def test_boxes_hold_the_nodes_of_pieces() -> None:
    tree = cluster_tree(picture_of(plugged("output_type", "critic")))
    inside = {one.name: [box[1].title for box in one.inside if isinstance(box, tuple)] for one in tree.clusters()}
    assert inside == {"critic": ["critic"], "output_type": ["output_type", "output_type_reask"]}
    # That of an embedded piece is within another.
    whole = gx.embed(plugged("critic"), "research")
    loosely: Any = gx.edges
    root: Any = gx.graph(loosely(whole, gx.on(gx.AgentFinish, gx.END) | gx.on(gx.StoppedResponse, gx.END)), start=whole)
    assert picture_of(root).boxes[5].path == ("research", "critic")


@pytest.mark.medium
@cases("how", "mermaid", "dot", "svg", "text")
def test_every_format_names_every_piece(how: str) -> None:
    drawn = draw(plugged(*MANY), how)
    assert [name for name in (*MANY, *plugged(*MANY).nodes) if name not in drawn] == []
    assert how != "text" or max(map(len, drawn.splitlines())) <= 100


@gx.node
def check(finish: gx.AgentFinish) -> gx.AgentFinish | Ready:
    if finish.answer == "wrong":
        return Ready(finish.run)
    return finish


@gx.node
def pass_on(acted: Acted) -> Acted:
    return acted


def run_with_a_piece() -> Any:
    answers = iter(["wrong", "right"])
    agent = gx.AgentExecutor(agent=lambda steps, inputs: gx.AgentFinish({"output": next(answers)}), tools=[])
    return agent.plug(Piece("critic", (check,)), pass_on).run("?")


def test_runs_are_drawn_over_pieces() -> None:
    result = run_with_a_piece()
    drawn = draw(result.journal.graph, "text", runs=result).splitlines()
    assert "┊  ╰━ Ready ━━━━━━━▶ plan ▲  step 3" in drawn
    # Of the ends of a run, one was taken.
    assert len([row for row in drawn if "━▶ ◎ END" in row]) == 1


# ---- boxes on the page fold to their name, by clicks and keys


def toggle(page: Page, name: str) -> Locator:
    return page.locator(f'.toggle:has(text[data-cluster="{name}"])')


def visible_nodes(page: Page) -> list[str | None]:
    nodes = page.locator("g.node[data-node]").all()
    return [each.get_attribute("data-node") for each in nodes if each.is_visible()]


def test_box_folds_by_click_and_key(pages: Pages) -> None:
    page = pages.text(html(picture_of(plugged("output_type", "critic"))))
    page.click("#fit")
    piece = toggle(page, "output_type")
    assert piece.get_attribute("aria-expanded") == "true"
    piece.locator("text.cluster-label").click()
    assert piece.get_attribute("aria-expanded") == "false"
    assert piece.get_attribute("aria-label") == "output_type: 2 nodes"
    assert "output_type_reask" not in visible_nodes(page)
    assert "critic" in visible_nodes(page)
    inner = page.locator("g.edge", has=page.locator("title", has_text="--InvalidOutput-->"))
    assert not inner.is_visible()
    for key, expanded in (("Enter", "true"), (" ", "false")):
        piece.focus()
        press(page, key)
        assert piece.get_attribute("aria-expanded") == expanded
    piece.locator("rect.panel").click()
    assert "output_type_reask" in visible_nodes(page)


def test_all_boxes_fold_at_once(pages: Pages) -> None:
    page = pages.text(draw(plugged(*MANY), "html"))
    page.click("#fold-all")
    assert len(visible_nodes(page)) == 5
    page.click("#unfold-all")
    assert len(visible_nodes(page)) == len(plugged(*MANY).nodes)
    press(page, "f")
    assert len(visible_nodes(page)) == 5
    # A page without boxes has no buttons for it.
    assert not pages.text(html(picture_of(plugged()))).locator("#fold-all").is_visible()


def test_folded_boxes_count_visits(pages: Pages) -> None:
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
