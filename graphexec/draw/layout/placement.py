"""Where everything stands: Graphviz's `dot` lays the picture out, from sizes that do not depend on a machine's fonts.

It is asked in several ways, and what can be read best is taken.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import product, starmap
from typing import Any, NamedTuple

from graphexec.draw.layout.geometry import Layout, Point, Polyline, Rectangle, width
from graphexec.draw.layout.label_layout import cost, settled
from graphexec.draw.model.picture import Box, Picture
from graphexec.errors import InputError
from graphexec.kernel.node import END

TITLE, LINE, LABEL = 14.0, 11.0, 11.0
# From one line of text to the next, as a part of its size.
LEADING = 1.3
# Around a node's text, at its sides and above and below it; around an edge's label.
_PADDING = (16.0, 9.0)
_LABEL_PADDING = (7.0, 2.0)
# Diameters.
START, FINISH = 16.0, 44.0
# The name of a nested graph, above what is in it.
CLUSTER = 12.0
# Graphviz thinks in inches.
_INCH = 72.0
# So many edges are laid out in every way.
_SMALL = 40


class _Way(NamedTuple):
    """The options of a layout.

    Of the edges that spent limits take: `weight` is how straight they are, `ranks` over how many rows they lead at
    least. The order in which the edges are given decides what stands on which side.
    """

    weight: int
    ranks: int
    reverse: bool


_WAYS = tuple(starmap(_Way, product((1, 0, 3), (1, 2), (False, True))))


def size_of(box: Box) -> Point:
    """The width and the height that a node's text takes, with the room around it."""
    lines = (*box.lines, *box.notes)
    widest = max([width(box.title, TITLE, bold=True), *(width(line, LINE) for line in lines)])
    high = TITLE * LEADING + len(lines) * LINE * LEADING
    return round(widest + 2 * _PADDING[0]), round(high + 2 * _PADDING[1])


def label_size(lines: Iterable[str]) -> Point:
    """The width and the height of the text at an edge, with the room around it."""
    texts = list(lines)
    widest = max(width(text, LABEL) for text in texts)
    return round(widest + 2 * _LABEL_PADDING[0]), round(len(texts) * LABEL * LEADING + 2 * _LABEL_PADDING[1])


@lru_cache(maxsize=64)
def laid_out(picture: Picture) -> Layout:
    """Lay the picture out. Raises `InputError` where there is no Graphviz; the cost grows faster than the picture.

    The same picture is laid out once: a notebook, a page and a file may all want it.
    """
    if len(picture.arrows) > _SMALL:
        return settled(_run_graphviz(picture, _WAYS[0]))
    return min((settled(_run_graphviz(picture, way)) for way in _WAYS), key=cost)


def _run_graphviz(picture: Picture, way: _Way) -> Layout:
    try:
        # Any: it has no types.
        pygraphviz: Any = importlib.import_module("pygraphviz")
    except ImportError:
        raise InputError(
            "this picture is laid out with pygraphviz, which is not there; pip install 'graphexec-agents[draw]'"
        ) from None
    graph = pygraphviz.AGraph(string=_dot(picture, way))
    try:
        found: dict[str, Any] = json.loads(graph.draw(prog="dot", format="json"))
    finally:
        graph.close()
    return _read(picture, found)


def _dot(picture: Picture, way: _Way) -> str:
    numbers = {box.name: number for number, box in enumerate(picture.boxes)}
    lines = [
        "digraph {",
        "graph [rankdir=TB, nodesep=0.4, ranksep=0.4, pad=0]",
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
    # The order in which Graphviz returns edges is its own: they are known by their ids.
    arrows = list(enumerate(picture.arrows))
    for index, arrow in reversed(arrows) if way.reverse else arrows:
        source = f"n{numbers[arrow.source]}"
        target = "e" if arrow.target == END.name else f"n{numbers[arrow.target]}"
        ends = f"{target} -> {source}" if index in back else f"{source} -> {target}"
        turned = ", dir=back" if index in back else ""
        weight = f"weight={way.weight}, minlen={way.ranks}" if arrow.exhausts else "weight=3"
        room = _spacer_label(*label_size(arrow.lines))
        lines.append(f"{ends} [id={index}, label={room}, {weight}{turned}]")
    return "\n".join([*lines, "}"])


def _back(picture: Picture) -> set[int]:
    """The arrows that lead back on the way from the start: they do not say what stands above what."""
    leaving: dict[str, list[tuple[int, str]]] = {}
    for index, arrow in enumerate(picture.arrows):
        leaving.setdefault(arrow.source, []).append((index, arrow.target))
    back: set[int] = set()
    left: set[str] = set()
    # The nodes on the way, each with the arrows that are not followed yet.
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
    """The nested graphs by their names, outer ones first."""
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
    ways = {edge["id"]: edge for edge in found["edges"]}
    edges = [ways[str(index)] for index in range(len(picture.arrows))]
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
        _line(ways["entry"], point),
        places.get("e"),
        dict(sorted(clusters.items(), key=lambda item: (len(item[0]), item[0]))),
    )


# Any: a function of a text of Graphviz's.
def _line(edge: Mapping[str, Any], point: Any) -> Polyline:
    tip, *curve = edge["pos"].split()
    if tip.startswith("s,"):
        # It was laid out from its end to its beginning.
        curve = curve[::-1]
    return Polyline(tuple(point(one) for one in curve), point(tip[2:]))
