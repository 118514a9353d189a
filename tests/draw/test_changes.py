"""Pictures of two machines: what was added, removed and changed."""

from pathlib import Path
from typing import Any

import pytest

from graphexec import InputError, Limits, executor, verify
from graphexec.draw import draw, picture_of, save
from graphexec.draw.model.changes import picture_of_changes
from graphexec.draw.model.picture import Picture, legend_of
from tests.draw.debugged import stopped_run
from tests.kernel.test_drafts import incomplete_diamond
from tests.parameters import cases
from tests.verify.writing import PERFECTIONIST, WRITER

FORMATS = ("mermaid", "mermaid-state", "dot", "text", "svg", "html")
FEWER = Limits(iterations=4)


def changed() -> Picture:
    return picture_of_changes(verify.diff(PERFECTIONIST, WRITER, Limits(), limits_before=FEWER))


def changes(picture: Picture) -> dict[str, str]:
    nodes = {box.name: box.change for box in picture.boxes if box.change}
    lines = {f"{one.source} --{one.outcome}--> {one.target}": one.change for one in picture.arrows if one.change}
    return {**nodes, **lines}


def test_parts_are_marked_by_their_change() -> None:
    assert changes(changed()) == {
        "polish": "removed",
        "revise": "added",
        "edit --Chapter--> write": "changed",
        "criticize --Poor--> revise": "changed",
        "criticize --Poor--> polish": "removed",
        "polish --Text--> criticize": "removed",
        "revise --Text--> criticize": "added",
        "revise --GivenUp--> END": "added",
    }
    # Changed edges name both targets, beside their neighbours.
    picture = changed()
    labels = {(arrow.outcome, arrow.target): arrow.lines for arrow in picture.arrows}
    assert labels["Poor", "revise"] == ("~ Poor", "before: to polish")
    assert labels["Poor", "polish"] == ("\N{MINUS SIGN} Poor", "now: to revise")
    assert labels["Chapter", "write"] == ("~ Chapter", "resets revisions", "before: no resets")
    assert [box.name for box in picture.boxes] == ["write", "edit", "criticize", "polish", "revise"]
    assert [arrow.target for arrow in picture.arrows if arrow.outcome == "Poor"] == ["revise", "polish"]


def test_changed_nodes_and_caption_say_what_was_changed() -> None:
    picture = picture_of_changes(verify.diff(executor.STRICT_AGENT_EXECUTOR, executor.AGENT_EXECUTOR))
    assert changes(picture) == {"parse": "changed", "parse --Ready--> plan": "added"}
    (parse,) = [box for box in picture.boxes if box.change]
    assert parse.title == "~ parse"
    assert " ".join(parse.notes) == "returns: was Acted | AgentFinish, now Acted | AgentFinish | Ready"
    # The caption has counts, limits and bounds.
    caption = changed().caption
    assert caption[:3] == (
        "1 node added, 1 node removed, 2 edges added, 1 edge removed, 2 edges changed.",
        "~ limit iterations: was 4, now 15.",
        "~ verdict was refuted, now proved.",
    )
    assert any(line.startswith("~ bound transitions: was no bound, now at most") for line in caption)
    picture = picture_of_changes(verify.diff(WRITER, executor.AGENT_EXECUTOR))
    assert picture.start == "plan"
    assert "~ start was write, now plan." in picture.caption
    assert {box.change for box in picture.boxes} == {"added", "removed"}


def test_equal_and_reversed_differences() -> None:
    picture = picture_of_changes(verify.diff(WRITER, WRITER))
    assert changes(picture) == {}
    assert picture.boxes == picture_of(WRITER.verify()).boxes
    assert picture.caption[0] == "No difference in nodes, edges, limits and bounds."
    assert picture.caption[1].startswith("Proved: every run ends")
    assert not {"added", "removed", "changed"} & set(legend_of(picture))
    # A reversed difference has reversed changes.
    turned = {"added": "removed", "removed": "added", "changed": "changed"}
    there, back = verify.diff(PERFECTIONIST, WRITER), verify.diff(WRITER, PERFECTIONIST)
    nodes = {box.name: box.change for box in picture_of_changes(there).boxes}
    assert {box.name: box.change for box in picture_of_changes(back).boxes} == {
        name: turned[change] if change else None for name, change in nodes.items()
    }


@cases("how", *FORMATS)
def test_every_format_has_signs_without_colour(how: str) -> None:
    drawn = draw(verify.diff(PERFECTIONIST, WRITER), how)
    for sign in ("#43;" if how.startswith("mermaid") else "+", "\N{MINUS SIGN}"):
        assert any(f"{sign} {word}" in drawn for word in ("revise", "polish", "added", "removed"))


@pytest.mark.medium
@cases(
    "how, part",
    ("dot", 'color="#c21d1b", penwidth=2.4, fontcolor="#c21d1b", style="filled,dashed"'),
    ("mermaid", "classDef removed stroke:#d62728,stroke-width:2px,stroke-dasharray:7 3"),
    ("svg", 'class="node pure removed" data-node="polish"'),
)
def test_removed_parts_are_red_and_dashed(how: str, part: str, tmp_path: Path) -> None:
    difference = verify.diff(PERFECTIONIST, WRITER)
    assert part in draw(difference, how)
    assert save(difference, tmp_path / "changes.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.medium
@cases("one, other", (incomplete_diamond(), WRITER), (WRITER, incomplete_diamond()))
def test_unfinished_tables_are_compared(one: Any, other: Any) -> None:
    assert draw(verify.diff(one, other), "svg").startswith("<svg")


@cases("options", {"runs": stopped_run()}, {"marks": {executor.AGENT_EXECUTOR.edges[0]: "red"}})
def test_difference_has_no_runs_and_marks(options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="a difference has no runs and no marks of its own"):
        draw(verify.diff(executor.STRICT_AGENT_EXECUTOR, executor.AGENT_EXECUTOR), "svg", **options)
