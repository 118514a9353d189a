"""Pieces, limits, findings and failures in pictures, and what a notebook shows."""

import sys
from collections.abc import Callable
from typing import Any

import pytest

import graphexec as gx
import graphexec.draw
from graphexec.draw import Marks, Recording, draw, marks_of, picture_of
from graphexec.draw.formats.terminal import terminal
from graphexec.draw.layout.graphviz import lay_out
from graphexec.draw.model.picture import cluster_tree, legend_of
from graphexec.draw.page import html
from graphexec.draw.runs.overlay import overlay_runs
from graphexec.executor import AGENT_EXECUTOR, Acted, Ready
from graphexec.messages import ModelReply, ToolCall
from graphexec.models import ScriptedModel
from graphexec.nodes import Piece
from graphexec.verify import Finding, verify
from tests.draw.browser import Locator, Page, Pages, classes, press
from tests.draw.machines import MANY, plugged
from tests.draw.recorded import failed_run, sixty_steps, stopped_run, twelve_tools
from tests.executor.actors import caller_of, echo
from tests.parameters import cases
from tests.verify.bad_machines import RESET_INSIDE
from tests.verify.writing import PERFECTIONIST, WRITER


def test_findings_with_an_edge_and_given_edges_are_marked() -> None:
    findings = [
        Finding("GX022", "error", "edit", "Book", "it does not fit", "fix it"),
        Finding("GX004", "error", "polish", None, "it cannot be reached", "fix it"),
        Finding("GX002", "error", "edit", "Letter", "no edge takes it", "fix it"),
    ]
    assert {str(edge): mark for edge, mark in marks_of(WRITER, findings).items()} == {"edit --Book--> END": "red"}
    # Any edge can have any mark.
    marks: Marks = dict(zip(AGENT_EXECUTOR.edges, ("red", "orange", "grey"), strict=False))
    drawn = draw(AGENT_EXECUTOR, "mermaid", marks=marks)
    for number, colour in ((1, "#d62728"), (2, "#ff7f0e"), (3, "#b0b0b0")):
        assert f"linkStyle {number} stroke:{colour}" in drawn
    assert [arrow.mark for arrow in picture_of(AGENT_EXECUTOR, marks).arrows[:4]] == ["red", "orange", "grey", None]


def test_loops_are_red_and_their_paths_orange() -> None:
    marks = {
        "write --Text--> criticize": "orange",
        "criticize --Poor--> polish": "red",
        "polish --Text--> criticize": "red",
    }
    verdict = verify(PERFECTIONIST)
    assert {str(edge): mark for edge, mark in marks_of(PERFECTIONIST, verdict.findings).items()} == marks
    found = picture_of(verdict)
    drawn = {f"{arrow.source} --{arrow.outcome}--> {arrow.target}": arrow.mark for arrow in found.arrows if arrow.mark}
    assert drawn == marks
    assert {box.name for box in found.boxes if box.mark == "red"} == {"criticize", "polish"}
    assert found.caption[0] == "Refuted."
    assert found.caption[1].startswith("GX010 at criticize")
    # Marks replace the findings.
    only = picture_of(verify(PERFECTIONIST), {PERFECTIONIST.edges[0]: "grey"})
    assert [arrow.mark for arrow in only.arrows if arrow.mark] == ["grey"]
    assert not any(box.mark for box in only.boxes)


@cases(
    "drawn, node, line",
    (verify(WRITER), "revise", "costs 1 of 2 revisions"),
    (verify(WRITER), "write", "costs 1 of 15 iterations"),
    (verify(WRITER, gx.Limits(iterations=None)), "write", "counts iterations, without limit"),
    (WRITER, "write", "costs an iteration"),
)
def test_budgets_are_labelled_with_their_limits(drawn: Any, node: str, line: str) -> None:
    assert {box.name: box.lines for box in picture_of(drawn).boxes}[node] == (line,)
    (arrow,) = [arrow for arrow in picture_of(WRITER).arrows if arrow.resets]
    assert arrow.lines == ("Chapter", "resets revisions")


# ---- failures in pictures of runs


SIXTY, TWELVE, FAILED, STOPPED = sixty_steps(), twelve_tools(), failed_run(), stopped_run()


@cases(
    "runs, expected",
    ([SIXTY], {"dispatch_tools": "4 failed", "parse": "1 failed"}),
    ([TWELVE], {"dispatch_tools": "2 failed"}),
    ([FAILED], {"plan": "1 failed"}),
    ([STOPPED], {}),
    ([SIXTY, TWELVE, FAILED, STOPPED], {"dispatch_tools": "6 failed", "parse": "1 failed", "plan": "1 failed"}),
)
def test_failures_are_counted_at_their_nodes(runs: list[Recording], expected: dict[str, str]) -> None:
    picture = overlay_runs(SIXTY.machine, runs)
    assert {box.name: box.notes[-1] for box in picture.boxes if box.failed} == expected
    assert ("failed" in legend_of(picture)) == bool(expected)


@cases(
    ("format", "sign"),
    ("svg", '"node tools failed'),
    ("dot", "2 failed"),
    ("mermaid", "class n2 failed"),
    ("text", "✗ dispatch_tools"),
)
def test_every_format_shows_failures(format: str, sign: str) -> None:  # noqa: A002 - the name of draw's parameter
    pytest.importorskip("pygraphviz", reason="pictures are laid out with Graphviz")
    drawn = draw(TWELVE.machine, format, runs=TWELVE)
    assert sign in drawn
    assert "2 failed" in drawn
    assert sign not in draw(TWELVE.machine, format, runs=STOPPED)


def test_failures_are_described() -> None:
    assert overlay_runs(FAILED.machine, [FAILED]).caption[:2] == (
        "Failed with RuntimeError after 2 model calls, 1 tool call, 324 tokens, 4.50 s.",
        "RuntimeError: connection reset by peer while reading the reply",
    )


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


# ---- what a notebook shows of an executor, a machine, a result and a verdict


class Formatter:
    """Knows how to show objects of a class, as the formatter of IPython does."""

    def __init__(self) -> None:
        self._functions: dict[tuple[str, str], Callable[[Any], dict[str, str]]] = {}

    def for_type_by_name(self, module: str, name: str, function: Callable[[Any], dict[str, str]]) -> None:
        self._functions[module, name] = function

    def __call__(self, value: Any) -> dict[str, str]:
        kind = value.__class__
        return self._functions[kind.__module__, kind.__qualname__](value)


shown = Formatter()
gx._register_displays(shown)  # pyright: ignore[reportPrivateUsage]


def scripted(*replies: str | ModelReply, **options: Any) -> gx.AgentExecutor:
    return caller_of(ScriptedModel(replies), echo, **options)


@pytest.mark.medium
@cases("value, fact", (scripted("x", max_iterations=7), "costs 1 of 7 iterations"), (AGENT_EXECUTOR, "plan"))
def test_picture_is_shown_with_its_limits(value: Any, fact: str) -> None:
    bundle = shown(value)
    assert set(bundle) == {"image/svg+xml", "text/plain"}
    assert bundle["image/svg+xml"].startswith("<svg")
    assert fact in bundle["image/svg+xml"]
    assert bundle["text/plain"] == repr(value)


@cases("value", AGENT_EXECUTOR, scripted("x"))
def test_text_drawing_replaces_a_missing_extra(value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    lay_out.cache_clear()
    for name in ("pygraphviz", "resvg_py"):
        monkeypatch.setitem(sys.modules, name, None)
    bundle = shown(value)
    assert set(bundle) == {"text/vnd.mermaid", "text/plain"}
    assert bundle["text/vnd.mermaid"].startswith("---")
    with pytest.raises(gx.InputError, match=r"pygraphviz, which is missing; pip install 'graphexec-agents\[draw\]'"):
        format(AGENT_EXECUTOR, "svg")
    assert bundle["text/plain"].startswith(terminal(picture_of(value.verify())))
    assert bundle["text/plain"].endswith("pip install 'graphexec-agents[draw]'")


def test_large_machine_is_drawn_in_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphexec.draw, "MOST_EDGES", 3)
    text = shown(AGENT_EXECUTOR)["text/plain"]
    assert "image/svg+xml" not in shown(AGENT_EXECUTOR)
    assert "│ check_return_direct │" in text
    assert text.endswith("10 edges are too many for a picture here; write it to a file with .draw('flow.svg')")


def test_result_and_verdict_are_printed() -> None:
    result = scripted(ModelReply("", (ToolCall("1", "shout", "{}"),)), max_iterations=1).run("?")
    assert shown(result) == {"text/plain": str(result)}
    assert shown(scripted("Four.").run("2 + 2?"))["text/plain"] == "Four."
    verdict = AGENT_EXECUTOR.verify(gx.Limits(iterations=4))
    assert shown(verdict) == {"text/plain": str(verdict)}
    assert shown(RESET_INSIDE.verify())["text/plain"].startswith("REFUTED")
    assert "GX015" in shown(RESET_INSIDE.verify())["text/plain"]
