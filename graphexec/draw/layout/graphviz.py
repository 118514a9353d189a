"""Runs of Graphviz's `dot`, with sizes that do not depend on installed fonts."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import product, starmap
from typing import Any, NamedTuple

from graphexec.draw.layout.geometry import Layout, Point, Polyline, Rectangle, width
from graphexec.draw.layout.label_layout import cost, move_clashing_labels
from graphexec.draw.model.picture import Box, Picture
from graphexec.errors import InputError
from graphexec.kernel.node import END

TITLE, LINE, LABEL = 14.0, 11.0, 11.0
# The line height, as a multiple of the font size.
LEADING = 1.3
# Horizontal and vertical padding of a node's text, and of an edge's label.
_PADDING = (16.0, 9.0)
_LABEL_PADDING = (7.0, 2.0)
# Diameters.
_START_SIZE, _FINISH_SIZE = 16.0, 44.0
# Font size of an embedded graph's name.
CLUSTER = 12.0
# Points per inch, the unit of Graphviz.
_INCH = 72.0
# Edges order the nodes of different frames; without this, each frame is ordered by itself, beside the others.
_RANKS = ", newrank=true"
# The gap between neighbours, in inches.
_GAP = 0.4
# Pictures with more edges take minutes unless the search for straight edges ends early.
_HUGE, _HURRY = 200, ", nslimit=0.5"
# The names of the start and of the end in a graph.
_START, _FINISH = "s", "e"


class _LayoutOptions(NamedTuple):
    """The options of a layout.

    For edges of used-up limits, `weight` is their straightness and `ranks` the minimum number of rows they span. The
    order of the edges, which `reverse` changes, decides which nodes are on the left.
    """

    weight: int = 1
    ranks: int = 1
    reverse: bool = False


# Pictures with more edges are laid out in one variant only.
_SMALL = 40
_VARIANTS = tuple(starmap(_LayoutOptions, product((1, 0, 3), (1, 2), (False, True))))


def size_of(box: Box) -> Point:
    """Return the width and height of a node: its text and padding."""
    lines = (*box.lines, *box.notes)
    widest = max([width(box.title, TITLE, bold=True), *(width(line, LINE) for line in lines)])
    high = TITLE * LEADING + len(lines) * LINE * LEADING
    return round(widest + 2 * _PADDING[0]), round(high + 2 * _PADDING[1])


def label_size(lines: Iterable[str]) -> Point:
    """Return the width and height of an edge's label: its text and padding."""
    texts = list(lines)
    widest = max((width(text, LABEL) for text in texts), default=0.0)
    return round(widest + 2 * _LABEL_PADDING[0]), round(max(len(texts), 1) * LABEL * LEADING + 2 * _LABEL_PADDING[1])


def paths_of(picture: Picture) -> list[tuple[str, ...]]:
    """Return the embedded graphs by their names, outer ones first."""
    paths = {box.path[:depth] for box in picture.boxes for depth in range(1, len(box.path) + 1)}
    return sorted(paths, key=lambda path: (len(path), path))


def back_edges(picture: Picture) -> frozenset[tuple[str, str]]:
    """Return the ends of the back edges of a depth-first search from the start: the layout ignores their direction."""
    # It takes long to load, and the text formats have no layout.
    import networkx as nx

    root = ""
    graph: nx.DiGraph[str] = nx.DiGraph((root, name) for name in (picture.start, *(box.name for box in picture.boxes)))
    graph.add_edges_from((arrow.source, arrow.target) for arrow in picture.arrows)
    path: list[str] = []
    back: set[tuple[str, str]] = set()
    for source, target, kind in nx.dfs_labeled_edges(graph, root):
        if kind == "forward":
            path.append(target)
        elif kind == "reverse":
            path.pop()
        elif target in path:
            back.add((source, target))
    return frozenset(back)


@lru_cache(maxsize=256)
def lay_out(picture: Picture) -> Layout:
    """Lay the picture out in several variants, and return the most readable one.

    The cost grows faster than the picture, so layouts are cached. Raises `InputError` if pygraphviz is not installed.
    """
    variants = _VARIANTS if len(picture.arrows) <= _SMALL else _VARIANTS[:1]
    return min((move_clashing_labels(_place(picture, options)) for options in variants), key=cost)


def _place(picture: Picture, options: _LayoutOptions) -> Layout:
    try:
        # Any: the package has no types.
        pygraphviz: Any = importlib.import_module("pygraphviz")
    except ImportError:
        raise InputError(
            "the layout of this picture needs pygraphviz, which is missing; pip install 'graphexec-agents[draw]'"
        ) from None
    graph = pygraphviz.AGraph(string="\n".join(_statements(picture, options)))
    try:
        found: dict[str, Any] = json.loads(graph.draw(prog="dot", format="json"))
    finally:
        graph.close()
    return _read(picture, found)


def _statements(picture: Picture, options: _LayoutOptions) -> Iterator[str]:
    pieces = any(box.group for box in picture.boxes)
    yield "digraph {"
    extra = f"{_RANKS if pieces else ''}{_HURRY if len(picture.arrows) > _HUGE else ''}"
    yield f"graph [nodesep={_GAP}, ranksep=0.4, pad=0{extra}]"
    yield 'node [shape=box, fixedsize=true, label=""]'
    yield "edge [arrowsize=0.8]"
    yield _circle(_START, _START_SIZE)
    for number, box in enumerate(picture.boxes):
        wide, high = size_of(box)
        yield f"n{number} [width={wide / _INCH:.4f}, height={high / _INCH:.4f}]"
    if any(arrow.target == END.name for arrow in picture.arrows):
        yield _circle(_FINISH, _FINISH_SIZE)
    yield from _clusters(picture)
    numbers = {box.name: number for number, box in enumerate(picture.boxes)}
    yield f"{_START} -> n{numbers[picture.start]} [id={_START}, weight=8]"
    yield from _edges(picture, numbers, options)
    yield "}"


def _circle(name: str, size: float) -> str:
    return f"{name} [shape=circle, width={size / _INCH:.4f}, height={size / _INCH:.4f}]"


def _edges(picture: Picture, numbers: Mapping[str, int], options: _LayoutOptions) -> Iterator[str]:
    back = back_edges(picture)
    arrows = [*enumerate(picture.arrows)]
    # Graphviz returns edges in another order; their ids identify them.
    for index, arrow in arrows[::-1] if options.reverse else arrows:
        source = f"n{numbers[arrow.source]}"
        target = _FINISH if arrow.target == END.name else f"n{numbers[arrow.target]}"
        is_back = (arrow.source, arrow.target) in back
        ends = f"{target} -> {source}" if is_back else f"{source} -> {target}"
        weight = f"weight={options.weight}, minlen={options.ranks}" if arrow.exhausts else "weight=3"
        label = _spacer_label(*label_size(arrow.lines))
        yield f"{ends} [id={index}, label={label}, {weight}{', dir=back' * is_back}]"


def _spacer_label(wide: float, high: float) -> str:
    return f'<<TABLE BORDER="0" FIXEDSIZE="TRUE" WIDTH="{wide:.0f}" HEIGHT="{high:.0f}"><TR><TD></TD></TR></TABLE>>'


def _clusters(picture: Picture) -> Iterator[str]:
    paths = paths_of(picture)
    for path in paths:
        inside = [f"n{number}" for number, box in enumerate(picture.boxes) if box.path[: len(path)] == path]
        label = _spacer_label(width(path[-1], CLUSTER, bold=True) + 12, CLUSTER * LEADING)
        opening = "".join(f"subgraph cluster_{paths.index(path[:depth])} {{" for depth in range(1, len(path) + 1))
        yield f"{opening} label={label}; labeljust=l; margin=14; {'; '.join(inside)} {'}' * len(path)}"


def _read(picture: Picture, found: Mapping[str, Any]) -> Layout:
    left, bottom, right, top = map(float, found["bb"].split(","))

    def point(text: str) -> Point:
        x, y = text.split(",")
        return round(float(x) - left, 1), round(top - float(y), 1)

    places: dict[str, Rectangle] = {}
    paths = paths_of(picture)
    clusters: dict[tuple[str, ...], Rectangle] = {}
    for one in found["objects"]:
        if one["name"].startswith("cluster_"):
            x0, y0, x1, y1 = map(float, one["bb"].split(","))
            clusters[paths[int(one["name"].removeprefix("cluster_"))]] = Rectangle(
                round((x0 + x1) / 2 - left, 1), round(top - (y0 + y1) / 2, 1), round(x1 - x0, 1), round(y1 - y0, 1)
            )
        elif "pos" in one:
            wide, high = float(one["width"]) * _INCH, float(one["height"]) * _INCH
            places[one["name"]] = Rectangle(*point(one["pos"]), round(wide, 1), round(high, 1))
    edges = {edge["id"]: edge for edge in found["edges"]}
    lines = {key: _line(edge["pos"], point) for key, edge in edges.items()}
    return Layout(
        round(right - left, 1),
        round(top - bottom, 1),
        tuple(places[f"n{number}"] for number in range(len(picture.boxes))),
        tuple(lines[str(index)] for index in range(len(picture.arrows))),
        tuple(
            Rectangle(*point(edges[str(index)]["lp"]), *label_size(arrow.lines))
            for index, arrow in enumerate(picture.arrows)
        ),
        places[_START],
        lines[_START],
        places.get(_FINISH),
        dict(sorted(clusters.items(), key=lambda item: (len(item[0]), item[0]))),
    )


def _line(positions: str, point: Callable[[str], Point]) -> Polyline:
    tip, *curve = positions.split()
    if tip.startswith("s,"):
        # The edge was laid out in the opposite direction.
        curve = curve[::-1]
    return Polyline(tuple(point(one) for one in curve), point(tip[2:]))
