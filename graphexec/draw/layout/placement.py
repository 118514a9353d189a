"""Layout of a picture by Graphviz's `dot`, from sizes that do not depend on installed fonts.

Several variants are computed, and the most readable one is used.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterable, Iterator, Mapping
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
START, FINISH = 16.0, 44.0
# Font size of an embedded graph's name.
CLUSTER = 12.0
# Points per inch, the unit of Graphviz.
_INCH = 72.0
# Edges order the nodes of different pieces; without this, each box is ordered by itself, beside the others.
_RANKS = ", newrank=true"
# Pictures with more edges are laid out in one variant only.
_SMALL = 40


class _LayoutOptions(NamedTuple):
    """The options of a layout.

    For edges of used-up limits, `weight` is their straightness and `ranks` the minimum number of rows they span. The
    order of the edges, which `reverse` changes, decides which nodes are on the left.
    """

    weight: int
    ranks: int
    reverse: bool


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
    widest = max(width(text, LABEL) for text in texts)
    return round(widest + 2 * _LABEL_PADDING[0]), round(len(texts) * LABEL * LEADING + 2 * _LABEL_PADDING[1])


@lru_cache(maxsize=64)
def lay_out(picture: Picture) -> Layout:
    """Lay the picture out. The cost grows faster than the picture, so layouts are cached.

    Raises `InputError` if pygraphviz is not installed.
    """
    if len(picture.arrows) > _SMALL:
        return move_clashing_labels(_run_graphviz(picture, _VARIANTS[0]))
    return min((move_clashing_labels(_run_graphviz(picture, options)) for options in _VARIANTS), key=cost)


def _run_graphviz(picture: Picture, options: _LayoutOptions) -> Layout:
    try:
        # Any: the package has no types.
        pygraphviz: Any = importlib.import_module("pygraphviz")
    except ImportError:
        raise InputError(
            "the layout of this picture needs pygraphviz, which is missing; pip install 'graphexec-agents[draw]'"
        ) from None
    graph = pygraphviz.AGraph(string=_dot(picture, options))
    try:
        found: dict[str, Any] = json.loads(graph.draw(prog="dot", format="json"))
    finally:
        graph.close()
    return _read(picture, found)


def _dot(picture: Picture, options: _LayoutOptions) -> str:
    numbers = {box.name: number for number, box in enumerate(picture.boxes)}
    pieces = any(box.group for box in picture.boxes)
    lines = [
        "digraph {",
        f"graph [rankdir=TB, nodesep=0.4, ranksep=0.4, pad=0{_RANKS if pieces else ''}]",
        'node [shape=box, fixedsize=true, label=""]',
        "edge [arrowsize=0.8]",
        f"s [shape=circle, width={START / _INCH:.4f}, height={START / _INCH:.4f}]",
    ]
    for box in picture.boxes:
        wide, high = size_of(box)
        lines.append(f"n{numbers[box.name]} [width={wide / _INCH:.4f}, height={high / _INCH:.4f}]")
    if any(arrow.target == END.name for arrow in picture.arrows):
        lines.append(f"e [shape=circle, width={FINISH / _INCH:.4f}, height={FINISH / _INCH:.4f}]")
    lines += _clusters(picture, numbers)
    lines.append(f"s -> n{numbers[picture.start]} [id=entry, weight=8]")
    back = _back(picture)
    # Graphviz returns edges in another order; their ids identify them.
    arrows = list(enumerate(picture.arrows))
    for index, arrow in reversed(arrows) if options.reverse else arrows:
        source = f"n{numbers[arrow.source]}"
        target = "e" if arrow.target == END.name else f"n{numbers[arrow.target]}"
        ends = f"{target} -> {source}" if index in back else f"{source} -> {target}"
        turned = ", dir=back" if index in back else ""
        weight = f"weight={options.weight}, minlen={options.ranks}" if arrow.exhausts else "weight=3"
        room = _spacer_label(*label_size(arrow.lines))
        lines.append(f"{ends} [id={index}, label={room}, {weight}{turned}]")
    return "\n".join([*lines, "}"])


def _back(picture: Picture) -> set[int]:
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
    return back


def _spacer_label(wide: float, high: float) -> str:
    return f'<<TABLE BORDER="0" FIXEDSIZE="TRUE" WIDTH="{wide:.0f}" HEIGHT="{high:.0f}"><TR><TD></TD></TR></TABLE>>'


def _clusters(picture: Picture, numbers: Mapping[str, int]) -> list[str]:
    lines: list[str] = []
    paths = paths_of(picture)
    for path in paths:
        inside = [f"n{numbers[box.name]}" for box in picture.boxes if box.path[: len(path)] == path]
        label = _spacer_label(width(path[-1], CLUSTER, bold=True) + 12, CLUSTER * LEADING)
        opening = "".join(f"subgraph cluster_{paths.index(path[:depth])} {{" for depth in range(1, len(path) + 1))
        lines.append(f"{opening} label={label}; labeljust=l; margin=14; {'; '.join(inside)} {'}' * len(path)}")
    return lines


def paths_of(picture: Picture) -> list[tuple[str, ...]]:
    """Return the embedded graphs by their names, outer ones first."""
    paths = {box.path[:depth] for box in picture.boxes for depth in range(1, len(box.path) + 1)}
    return sorted(paths, key=lambda path: (len(path), path))


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
            x, y = point(one["pos"])
            wide, high = float(one["width"]) * _INCH, float(one["height"]) * _INCH
            places[one["name"]] = Rectangle(x, y, round(wide, 1), round(high, 1))
    by_id = {edge["id"]: edge for edge in found["edges"]}
    edges = [by_id[str(index)] for index in range(len(picture.arrows))]
    labels = tuple(
        Rectangle(*point(edge["lp"]), *label_size(arrow.lines))
        for edge, arrow in zip(edges, picture.arrows, strict=True)
    )
    return Layout(
        round(right - left, 1),
        round(top - bottom, 1),
        tuple(places[f"n{number}"] for number in range(len(picture.boxes))),
        tuple(_line(edge, point) for edge in edges),
        labels,
        places["s"],
        _line(by_id["entry"], point),
        places.get("e"),
        dict(sorted(clusters.items(), key=lambda item: (len(item[0]), item[0]))),
    )


# Any: a function that parses a point of Graphviz's output.
def _line(edge: Mapping[str, Any], point: Any) -> Polyline:
    tip, *curve = edge["pos"].split()
    if tip.startswith("s,"):
        # The edge was laid out in the opposite direction.
        curve = curve[::-1]
    return Polyline(tuple(point(one) for one in curve), point(tip[2:]))
