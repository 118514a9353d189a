"""The text formats: each edge of a machine appears once and can be read back."""

import importlib
import re
import unicodedata
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pydot
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from graphexec import END, Graph
from graphexec.draw.formats.dot import dot
from graphexec.draw.formats.mermaid import mermaid
from graphexec.draw.formats.terminal import terminal
from graphexec.draw.model.picture import Picture, picture_of
from graphexec.executor import AGENT_EXECUTOR
from graphexec.verify import verify
from tests.checks import strategies
from tests.draw import machines
from tests.draw.machines import EVERY_LOOK, HOSTILE, LOOKS, rename, ring, with_marks, with_run
from tests.parameters import cases, read_tables, thorough
from tests.verify.writing import PERFECTIONIST, WRITER

# ---- readers that know only the formats' grammars, and the position of a name in a label


Edge = tuple[str, str, str]

# Mermaid: https://mermaid.js.org/syntax/flowchart.html.
_ENTITY = re.compile(r"#(\d+);")
_FLOW_NODE = re.compile(r'(\w+)(?:\(\[|\[\[|\[/|\(|\{\{|\[)"(.*)"(?:\]\)|\]\]|/\]|\)|\}\}|\])')
_FLOW_END = re.compile(r'(\w+)\(\(\("(.*)"\)\)\)')
_FLOW_EDGE = re.compile(r'(\w+) (?:--|-\.) "(.*)" (?:-->|\.->) (\w+)')
_SUBGRAPH = re.compile(r'subgraph \w+\["(.*)"\]')

# A frame's top, and an edge: its outcome, the limits that cause it or the budgets that it resets, and its target.
_TOP = re.compile(r"[╭╔┏╒┌][─═━╌┈]+[╮╗┓╕┐]")
_TITLE = re.compile(r"[│║┃╎┆] (?:▸ )?(?:!! |! |~ )?(.*?) *[│║┃╎┆]")
_BRANCH = re.compile(
    r" [├╰][─━┄┅] (?:!! |! |~ )?(.+?)(?: \((?:limit: |limit not set|resets ).*\))? "
    r"[─━┄┅]+▶ (?:◎ (END)|(.+?) [▲▼↻])(?:  .*)?"
)


def read_mermaid(text: str) -> list[Edge]:
    names = mermaid_names(text)
    found = [_FLOW_EDGE.fullmatch(line) for line in _mermaid_lines(text)]
    return [(names[one[1]], _first(one[2]), names[one[3]]) for one in found if one]


def mermaid_names(text: str) -> dict[str, str]:
    """Return the table's names of the nodes by their ids in a Mermaid diagram."""
    path: list[str] = []
    names: dict[str, str] = {}
    for line in _mermaid_lines(text):
        if inner := _SUBGRAPH.fullmatch(line):
            path.append(decode(inner[1]))
        elif line == "end":
            path.pop()
        elif end := _FLOW_END.fullmatch(line):
            names[end[1]] = decode(end[2])
        elif node := _FLOW_NODE.fullmatch(line):
            names[node[1]] = ".".join((*path, _first(node[2])))
    return names


def decode(text: str) -> str:
    """Return Mermaid's text as it is displayed."""
    shown = _ENTITY.sub(lambda found: chr(int(found[1])), text).replace("\N{ZERO WIDTH SPACE}", "")
    return "" if shown == " " else shown


def _first(label: str) -> str:
    return decode(label.split("<br/>", maxsplit=1)[0].removeprefix("<b>").removesuffix("</b>"))


def _mermaid_lines(text: str) -> list[str]:
    return [line.strip() for line in re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL).splitlines()]


def read_dot_with_graphviz(text: str) -> list[Edge]:
    """Return the edges of a DOT graph, by Graphviz's own parser, which is a hundred times faster than pydot's."""
    # Any: the package has no types.
    graph: Any = importlib.import_module("pygraphviz").AGraph(string=text)
    found: list[Edge] = []
    for edge in graph.edges():
        # The parser removes quotes and keeps backslashes.
        source, target, label = (str(one).replace("\\\\", "\\") for one in (*edge, edge.attr["label"]))
        if source != "(start)":
            found.append((source, label.split(r"\n")[0].strip().replace("&amp;", "&"), target))
    return found


def read_dot(text: str) -> list[Edge]:
    found: list[Edge] = []
    for edge in parsed_dot(text).get_edges():
        source, target = _unquoted(str(edge.get_source())), _unquoted(str(edge.get_destination()))
        if source != "(start)":
            outcome = _unquoted(str(edge.get("label"))).split(r"\n")[0].strip().replace("&amp;", "&")
            found.append((source, outcome, target))
    return found


def parsed_dot(text: str) -> pydot.Dot:
    with warnings.catch_warnings():
        # pydot uses deprecated names of its parser library.
        warnings.simplefilter("ignore", DeprecationWarning)
        graphs = pydot.graph_from_dot_data(text)
    assert graphs, "this is not DOT"
    return graphs[0]


def _unquoted(text: str) -> str:
    return re.sub(r"\\([\\\"])", r"\1", text[1:-1])


def read_terminal(text: str) -> list[Edge]:
    return list(_branches([re.sub(r"\A(?:┊ ?)*", "", line) for line in text.splitlines()]))


def _branches(lines: list[str]) -> Iterator[Edge]:
    source: str | None = None
    for before, line in pairwise(["", *lines]):
        if _TOP.fullmatch(before):
            title = _TITLE.fullmatch(line)
            assert title, f"{line} is not a title"
            source = title[1]
        elif branch := _BRANCH.fullmatch(line):
            assert source is not None, f"{line} has no source"
            yield source, branch[1], branch[2] or branch[3]


READERS: Mapping[str, Callable[[str], list[Edge]]] = {
    "mermaid": read_mermaid,
    "dot": read_dot,
    "text": read_terminal,
}


# ---- what is written


WRITERS: Mapping[str, Callable[[Picture], str]] = {
    "mermaid": mermaid,
    "dot": dot,
    "text": terminal,
}
every_format = cases("how", *WRITERS)


def edges_of(graph: Graph[Any, Any]) -> list[Edge]:
    exits = [(node.name, f"raises {error.__name__}", END.name) for node in graph for error in node.raises]
    return sorted([*((edge.source, edge.outcome.__name__, edge.target) for edge in graph.edges), *exits])


def arrows_of(picture: Picture) -> list[Edge]:
    return sorted((arrow.source, arrow.outcome, arrow.target) for arrow in picture.arrows)


def read(how: str, picture: Picture) -> list[Edge]:
    return sorted(READERS[how](WRITERS[how](picture)))


MACHINES = {**machines.MACHINES, "writer": WRITER, "perfectionist": PERFECTIONIST}


@pytest.mark.slow
@every_format
@cases("name", *MACHINES)
def test_repository_machines_can_be_read_back(how: str, name: str) -> None:
    graph = MACHINES[name]
    for subject in (graph, verify(graph)):
        picture = picture_of(subject)
        if how == "mermaid":
            # The reader takes the frame of a piece for an embedded graph's, whose name is a part of its nodes' names.
            picture = replace(picture, boxes=tuple(replace(box, group="") for box in picture.boxes))
        assert read(how, picture) == edges_of(graph)
        assert how != "dot" or sorted(read_dot_with_graphviz(dot(picture))) == edges_of(graph)


def noted(picture: Picture, notes: list[str], caption: list[str]) -> Picture:
    """Return the picture with notes at all of its parts."""
    boxes = tuple(replace(box, notes=tuple(notes)) for box in picture.boxes)
    arrows = tuple(replace(arrow, notes=tuple(notes)) for arrow in picture.arrows)
    return replace(picture, boxes=boxes, arrows=arrows, caption=tuple(caption))


TEXTS = st.text() | st.sampled_from(HOSTILE)


@st.composite
def pictures(draw: st.DrawFn) -> Picture:
    """Return a random machine, optionally with embedded graphs, marks and a run."""
    graph = draw(strategies.graphs())
    picture = picture_of(graph)
    assert arrows_of(picture) == edges_of(graph)
    around = draw(st.dictionaries(st.sampled_from(list(graph.nodes)), st.sampled_from(["a.", "a.b.", "c."])))
    picture = rename(picture, {name: graphs + name for name, graphs in around.items()})
    for change in draw(st.sampled_from([(), (with_marks,), (with_run,), (with_marks, with_run)])):
        picture = change(picture)
    return picture


def can_be_read_back(picture: Picture) -> None:
    for how, reader in {**READERS, "dot": read_dot_with_graphviz}.items():
        assert sorted(reader(WRITERS[how](picture))) == arrows_of(picture), how


@given(pictures())
def test_random_machines_can_be_read_back(picture: Picture) -> None:
    can_be_read_back(picture)


test_many_random_machines_can_be_read_back = thorough(test_random_machines_can_be_read_back, 200, pictures(), gate=40)


@given(st.lists(TEXTS, max_size=3), st.lists(TEXTS))
def test_notes_and_captions_do_not_change_edges(notes: list[str], caption: list[str]) -> None:
    can_be_read_back(noted(EVERY_LOOK, notes, caption))


# Names that are not identifiers: only a manually built `Picture` can have them.
NAMES = (
    *("plan", "end", "__init__", 'a "quoted" name', "<script>alert(1)</script>", "a|b", "two `ticks``", "back\\slash"),
    *("&amp; #quot;", "[/a/] {{b}} ((c))", "%%{init}%%", "größe", "inner.<b>plan</b>", "inner.deep.state"),
)


@pytest.mark.medium
@every_format
def test_any_name_can_be_read_back_and_no_text_has_control_or_bidi_characters(how: str) -> None:
    picture = ring(NAMES)
    assert read(how, picture) == arrows_of(picture)
    text = WRITERS[how](ring(NAMES, HOSTILE))
    assert {one for one in text if unicodedata.category(one) in ("Cc", "Cs", "Zl", "Zp")} == {"\n"}
    assert {one for one in text if unicodedata.category(one) == "Cf"} <= {"\N{ZERO WIDTH JOINER}"}
    text.encode()


@pytest.mark.slow
@every_format
def test_very_long_text_is_written_quickly(how: str) -> None:
    picture = ring(("plan", "parse"), ("word " * 200_000,))
    assert read(how, picture) == arrows_of(picture)


def test_mermaid_has_only_br_and_b_tags() -> None:
    text = mermaid(ring(NAMES, HOSTILE))
    assert set(re.findall(r"<[^-][^>]*>", text)) <= {"<br/>", "<b>", "</b>"}
    # Mermaid's lexers look for these anywhere in a line.
    assert not re.search(r"%%\{|direction\s", text.partition("\n---\n")[2])


@pytest.mark.medium
def test_every_look_has_a_name_a_cluster_and_a_shape() -> None:
    names = ["ask_model", "call", "ask_person", "ask_world", "inner.deep.do", "inner.decide", "inner.deep.missing"]
    expected = {f"n{number}": name for number, name in enumerate(names)}
    assert mermaid_names(mermaid(EVERY_LOOK)) == expected | {"finish": "END"}
    assert clusters(parsed_dot(dot(EVERY_LOOK))) == {"inner": {"deep": {}}}
    assert [line for line in mermaid(EVERY_LOOK).splitlines() if "subgraph" in line or line.strip() == "end"] == [
        '    subgraph g1["inner"]',
        '        subgraph g2["deep"]',
        "        end",
        "    end",
    ]
    shapes = [line.partition('", shape=')[2] for line in dot(EVERY_LOOK).splitlines() if "->" not in line]
    # And that of the start.
    assert len({shape for shape in shapes if shape.endswith("]")}) == len(LOOKS) + 1


def test_mermaid_draws_the_standard_machine() -> None:
    lines = mermaid(picture_of(AGENT_EXECUTOR)).splitlines()
    plan = '["<b>plan</b><br/>asks the model<br/>costs an iteration"]'
    tools = '["<b>dispatch_tools</b><br/>calls tools"]'
    for line in (f"n0({plan})", f"n2[{tools}]", 'n0 -- "Replied" --> n1', 'n0 -. "Stopped" .-> n4'):
        assert f"    {line}" in lines
    assert "linkStyle" not in "".join(lines)


def test_findings_and_runs_have_styles() -> None:
    lines = mermaid(picture_of(verify(PERFECTIONIST))).partition("flowchart TD")[2].splitlines()
    links = [line.strip() for line in lines if " --" in line or " -." in line]
    styles = {line.split()[1]: line.split()[2] for line in lines if "linkStyle" in line}
    assert links[1] == 'n0 -- "Text" --> n1'
    assert [links[number] for number in (4, 5)] == ['n1 -- "Poor" --> n2', 'n2 -- "Text" --> n1']
    assert styles == {"1": "stroke:#ff7f0e,stroke-width:2px", "4,5": "stroke:#d62728,stroke-width:3px"}
    # Edges of a run are blue.
    picture = with_run(EVERY_LOOK)
    assert "linkStyle 1,4,7,10,13 stroke:#b0b0b0,stroke-width:1px" in mermaid(picture)
    assert "linkStyle 2,3,5,6,8,9,11,12,14 stroke:#2f81f7,stroke-width:3px" in mermaid(picture)
    assert "class n1 current" in mermaid(picture)
    assert "class n2 untaken" in mermaid(picture)


@every_format
def test_every_format_shows_budgets_and_resets(how: str) -> None:
    text = WRITERS[how](picture_of(WRITER))
    assert "costs 1 of 2 revisions" in text
    assert "costs an iteration" in text
    assert text.count("resets revisions") == 1


def clusters(graph: pydot.Graph) -> dict[str, Any]:
    """Return the tree of embedded graphs by their labels."""
    return {str(one.get("label")).strip('"'): clusters(one) for one in graph.get_subgraphs()}


def test_terminal_draws_the_standard_machine() -> None:
    assert terminal(picture_of(AGENT_EXECUTOR)).startswith(read_tables(__file__)["standard"])
    # A frame fits its text.
    drawn = terminal(ring(("plan",), ("\N{CJK UNIFIED IDEOGRAPH-4E2D}", "e\N{COMBINING ACUTE ACCENT}")))
    assert "│ \N{CJK UNIFIED IDEOGRAPH-4E2D}             │" in drawn


@given(st.lists(TEXTS, max_size=3), st.lists(TEXTS))
@example([], ["0" * 100 + "\N{COMBINING GRAVE ACCENT}"])
def test_terminal_lines_have_at_most_100_columns(notes: list[str], caption: list[str]) -> None:
    drawn = terminal(noted(with_marks(with_run(EVERY_LOOK)), notes, caption))
    assert max(map(columns, drawn.splitlines())) <= 100


@cases("text", "wide " * 60, "\N{CJK UNIFIED IDEOGRAPH-4E2D}" * 200, "x" * 500)
def test_terminal_wraps_long_lines_without_loss(text: str) -> None:
    drawn = terminal(ring(("plan", "inner.parse"), (text,)))
    assert max(map(columns, drawn.splitlines())) <= 100
    # In both nodes, at both edges between them, and in the caption.
    assert sum(map(drawn.count, set(text.strip()))) >= 5 * len(text.replace(" ", ""))


def columns(line: str) -> int:
    """Return the width of a line in terminal cells: an accent that combines with a letter takes none."""
    marks = {one for one in line if unicodedata.combining(one) or unicodedata.category(one) in ("Mn", "Me")}
    shown = [one for one in line if one.isprintable() and one not in marks]
    return sum(2 if unicodedata.east_asian_width(one) in ("W", "F") else 1 for one in shown)
