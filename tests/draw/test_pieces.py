"""Pieces in pictures: boxes around their nodes, or badges on the edges that pass them."""

import json
import random
from itertools import product
from typing import Any

import pytest

import graphexec as gx
from graphexec.draw import FORMATS, Picture, draw, picture_of
from graphexec.draw.layout.placement import lay_out
from graphexec.draw.model.picture import cluster_tree
from graphexec.draw.model.pieces import FIRST_PIECES, fold_pieces, show_pieces
from graphexec.draw.page import html
from graphexec.executor import Acted, Ready
from graphexec.nodes import Piece
from tests.draw.browser import Locator, Page, Pages, classes, press
from tests.draw.plugged import APPROVE, COMPACT, CRITIC, GUARD, MANY, OUTPUT, REDACT, Fake, plugged
from tests.parameters import cases

ALL = plugged(*MANY)


def test_badges_are_in_the_order_of_the_seat() -> None:
    drawn = draw(plugged(OUTPUT, CRITIC), "mermaid", pieces="badges")
    assert drawn.count("AgentFinish<br/>#91;critic #62; output_type#93;") == 2
    assert "judge" not in drawn
    # A view that is unknown is refused.
    loosely: Any = "box"
    with pytest.raises(gx.InputError, match="pieces='box' is no view of pieces; did you mean boxes"):
        draw(ALL, "dot", pieces=loosely)


def test_other_exits_name_their_pieces() -> None:
    folded = fold_pieces(picture_of(plugged(OUTPUT, CRITIC, APPROVE)))
    by_ends = {(one.source, one.outcome, one.target): one for one in folded.arrows}
    again = by_ends["check_return_direct", "Ready", "plan"]
    assert (again.origins, again.own) == (("critic", "output_type"), True)
    stopped = by_ends["parse", "Stopped", "stopped_response"]
    assert (stopped.origins, stopped.own, stopped.exhausts) == (("approve_tools",), False, True)
    assert stopped.details[0] == "from approve_tools"
    # The first pieces are one box.
    folded = fold_pieces(picture_of(plugged(GUARD, COMPACT)))
    assert folded.start == FIRST_PIECES
    assert folded.boxes[0].lines == ("[guard_input > compact]",)
    assert {(one.outcome, one.target) for one in folded.arrows if one.source == FIRST_PIECES} == {
        ("Ready", "plan"),
        ("Stopped", "stopped_response"),
    }


@cases("seed", *range(12))
def test_folded_edges_are_the_paths_through_pieces(seed: int) -> None:
    """Compare each edge with a search of the unfolded picture."""
    pieces: list[Fake] = random.Random(seed).sample(MANY, k=seed + 1)
    picture = picture_of(plugged(*pieces))
    hidden = {box.name for box in picture.boxes if box.group}
    paths = set[tuple[str, str, str]]()
    sources = [(box.name, box.name) for box in picture.boxes if not box.group]
    sources += [(picture.start, FIRST_PIECES)] * (picture.start in hidden)
    for first, name in sources:
        seen = [first]
        for at in seen:
            for arrow in (one for one in picture.arrows if one.source == at):
                if arrow.target not in hidden:
                    paths.add((name, arrow.outcome, arrow.target))
                elif arrow.target not in seen:
                    seen.append(arrow.target)
    folded = fold_pieces(picture)
    assert {(one.source, one.outcome, one.target) for one in folded.arrows} == paths
    assert len(folded.arrows) == len(paths)
    named = {piece for one in folded.arrows for piece in (*one.badges, *one.origins)}
    shown = named | {name for name, _ in pieces if any(name in line for line in folded.boxes[0].lines)}
    assert shown == {name for name, _ in pieces}


def test_default_view_depends_on_the_number_of_pieces() -> None:
    three, four = picture_of(plugged(OUTPUT, CRITIC, APPROVE)), picture_of(plugged(OUTPUT, CRITIC, APPROVE, REDACT))
    assert show_pieces(three) == three
    assert show_pieces(four) == fold_pieces(four)
    # Boxes hold the nodes of pieces.
    tree = cluster_tree(picture_of(plugged(OUTPUT, CRITIC)))
    inside = {one.name: [box[1].title for box in one.inside if isinstance(box, tuple)] for one in tree.clusters()}
    assert inside == {"critic": ["judge", "revise"], "output_type": ["check_output"]}
    # That of an embedded piece is within another.
    machine = plugged(CRITIC)
    whole = gx.embed(machine, "research")
    loosely: Any = gx.edges
    root: Any = gx.graph(loosely(whole, gx.on(gx.AgentFinish, gx.END) | gx.on(gx.StoppedResponse, gx.END)), start=whole)
    assert picture_of(root).boxes[5].path == ("research", "critic")
    folded = fold_pieces(picture_of(root))
    badges = [one.badges for one in folded.arrows if (one.source, one.outcome) == ("research.parse", "AgentFinish")]
    assert badges == [("research.critic",)]


@cases("name", *FORMATS)
def test_machine_without_pieces_has_one_view(name: Any) -> None:
    assert draw(plugged(), name, pieces="badges") == draw(plugged(), name, pieces="boxes")


@pytest.mark.medium
@cases("how, view", *product(["mermaid", "mermaid-state", "dot", "svg", "text"], ["boxes", "badges"]))
def test_every_format_names_every_piece(how: str, view: Any) -> None:
    drawn = draw(ALL, how, pieces=view)
    for name, nodes in MANY:
        assert name in drawn
        assert view == "badges" or all(one[0] in drawn for one in nodes)


def test_badges_need_little_room() -> None:
    folded = fold_pieces(picture_of(ALL))
    assert max(len(line) for arrow in folded.arrows for line in arrow.lines) <= 34
    assert lay_out(folded).width < 1_000
    for view in ("boxes", "badges"):
        assert max(map(len, draw(ALL, "text", pieces=view).splitlines())) <= 100
    # A folded picture survives JSON.
    folded = fold_pieces(picture_of(ALL.verify(gx.Limits(iterations=2))))
    assert Picture.from_data(json.loads(json.dumps(folded.to_data()))) == folded


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


@cases(
    "view, count, rows",
    (
        "badges",
        1,
        [
            " ├━ AgentFinish [critic] ━▶ ◎ END  step 5 · critic ×1",
            " ╰━ Ready (from critic) ━━▶ plan ▲  step 2 · critic ×1",
        ],
    ),
    ("boxes", 1, ["┊  ╰━ Ready ━━━━━━━▶ plan ▲  step 3"]),
    ("badges", 2, [" ├━ AgentFinish [critic] ━▶ ◎ END  ×2 in 2 of 2 runs · critic ×2"]),
)
def test_runs_are_drawn_over_pieces(view: Any, count: int, rows: list[str]) -> None:
    result = run_with_a_piece()
    drawn = draw(result.journal.graph, "text", runs=[result] * count, pieces=view).splitlines()
    assert [row for row in rows if row not in drawn] == []
    # Of the ends of a run, one was taken.
    assert len([row for row in drawn if "━▶ ◎ END" in row]) == 1


# ---- boxes on the page fold to their name, by clicks and keys


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
