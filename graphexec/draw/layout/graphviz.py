"""Runs of Graphviz's `dot`, with sizes that do not depend on installed fonts."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from graphexec.draw.layout.geometry import Layout, Point, Polyline, Rectangle, width
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
# The gap between neighbours, in inches, where ranks are rows, and where they are columns, which hold one line each.
_GAP, _SIDEWAYS_GAP = 0.4, 0.12
# Pictures with more edges take minutes unless the search for straight edges ends early.
_HUGE, _HURRY = 200, ", nslimit=0.5"
# From so many successors on, the rows of a node's successors may differ.
_MANY = 5
# The names of the start and of the end in a graph.
_START, _FINISH = "s", "e"


class LayoutOptions(NamedTuple):
    """The options of a layout.

    For edges of used-up limits, `weight` is their straightness and `ranks` the minimum number of rows they span. The
    order of the edges, which `reverse` changes, decides which nodes are on the left. With `sideways`, edges point to
    the right. The many successors of a node have places in `stagger` rows.
    """

    weight: int = 1
    ranks: int = 1
    reverse: bool = False
    sideways: bool = False
    stagger: int = 1


def size_of(box: Box) -> Point:
    """Return the width and height of a node: its text and padding."""
    lines = (*box.lines, *box.notes)
    widest = max([width(box.title, TITLE, bold=True), *(width(line, LINE) for line in lines)])
    high = TITLE * LEADING + len(lines) * LINE * LEADING
    return round(widest + 2 * _PADDING[0]), round(high + 2 * _PADDING[1])


def label_size(lines: Iterable[str]) -> Point:
    """Return the width and height of an edge's label: its text and padding."""
    texts = list(lines)
    widest = max(width(text, LABEL) for text in texts)
    return round(widest + 2 * _LABEL_PADDING[0]), round(len(texts) * LABEL * LEADING + 2 * _LABEL_PADDING[1])


def paths_of(picture: Picture) -> list[tuple[str, ...]]:
    """Return the embedded graphs by their names, outer ones first."""
    paths = {box.path[:depth] for box in picture.boxes for depth in range(1, len(box.path) + 1)}
    return sorted(paths, key=lambda path: (len(path), path))


def back_edges(picture: Picture) -> frozenset[int]:
    """Return the back edges of a depth-first search from the start: the layout ignores their direction."""
    leaving: dict[str, list[tuple[int, str]]] = {}
    for index, arrow in enumerate(picture.arrows):
        leaving.setdefault(arrow.source, []).append((index, arrow.target))
    back: set[int] = set()
    left: set[str] = set()
    # The nodes on the current path, each with its arrows that are not yet followed.
    above: dict[str, Iterator[tuple[int, str]]] = {}
    for first in (picture.start, *leaving):
        if first not in left:
            above[first] = iter(leaving.get(first, ()))
        while above:
            name = next(reversed(above))
            for index, target in above[name]:
                if target in above:
                    back.add(index)
                elif target not in left:
                    above[target] = iter(leaving.get(target, ()))
                    break
            else:
                left.add(name)
                del above[name]
    return frozenset(back)


def place(picture: Picture, options: LayoutOptions) -> Layout:
    """Place the parts of the picture. Raises `InputError` if pygraphviz is not installed."""
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


def _statements(picture: Picture, options: LayoutOptions) -> Iterator[str]:
    pieces = any(box.group for box in picture.boxes)
    direction, gap = ("LR", _SIDEWAYS_GAP) if options.sideways else ("TB", _GAP)
    yield "digraph {"
    extra = f"{_RANKS if pieces else ''}{_HURRY if len(picture.arrows) > _HUGE else ''}"
    yield f"graph [rankdir={direction}, nodesep={gap}, ranksep=0.4, pad=0{extra}]"
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


def _edges(picture: Picture, numbers: Mapping[str, int], options: LayoutOptions) -> Iterator[str]:
    back = back_edges(picture)
    rows = _rows(picture, back, options.stagger)
    arrows = [*enumerate(picture.arrows)]
    # Graphviz returns edges in another order; their ids identify them.
    for index, arrow in arrows[::-1] if options.reverse else arrows:
        source = f"n{numbers[arrow.source]}"
        target = _FINISH if arrow.target == END.name else f"n{numbers[arrow.target]}"
        ends = f"{target} -> {source}" if index in back else f"{source} -> {target}"
        weight = f"weight={options.weight}, minlen={options.ranks}" if arrow.exhausts else "weight=3"
        if index in rows:
            weight = f"weight=9, minlen={rows[index]}"
        label = _spacer_label(*label_size(arrow.lines))
        yield f"{ends} [id={index}, label={label}, {weight}{', dir=back' if index in back else ''}]"


def _rows(picture: Picture, back: frozenset[int], stagger: int) -> dict[int, int]:
    """Return the number of rows that the arrows from a node to its many successors span, so that these share rows."""
    if stagger == 1:
        return {}
    forward = [(index, arrow) for index, arrow in enumerate(picture.arrows) if index not in back]
    leaving: dict[str, list[int]] = {}
    for index, arrow in forward:
        if arrow.target != END.name and sum(other.target == arrow.target for _, other in forward) == 1:
            leaving.setdefault(arrow.source, []).append(index)
    return {
        index: 1 + place % stagger
        for arrows in leaving.values()
        if len(arrows) >= _MANY
        for place, index in enumerate(arrows)
    }


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
