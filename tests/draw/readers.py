"""Independent readers of the text formats, which return every edge in a text.

They know only the formats' grammars, and the position of a name in a label.
"""

import importlib
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any

import pydot

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
