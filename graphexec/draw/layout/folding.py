"""A high layout in columns, as in a newspaper: an edge to another column leaves at the bottom and enters at the top.

Each column is placed by itself. Between the columns, edges with one target share a way of horizontal and vertical
lines: below the columns, up on the left of the target's column, and above it. Edges to the end lead to it from below.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from graphexec.draw.layout.geometry import Layout, Point, Polyline, Rectangle
from graphexec.draw.layout.graphviz import FINISH, FINISH_SIZE, START, Drawing, LayoutOptions, Part, place
from graphexec.draw.model.picture import Picture
from graphexec.kernel.node import END

# The distance of a way from a column and from another way, and the radius of its corners.
_GAP, _STEP, _CORNER = 20.0, 10.0, 8.0
# An arrow's tip begins so far before its end.
_TIP = 8.0
# A cut is at most so far from its ideal place, as a part of a column's height, and a cut frame counts as so many edges.
_ROOM, _FRAME = 0.25, 4
# The names of ports begin with these; the number of the box follows, or the end's name.
_ENTRY, _EXIT = "i", "o"
# The distance of a Bézier curve's control point for a quarter of a circle, as a part of the radius.
_ROUND = 0.55


def fold(picture: Picture, layout: Layout, columns: int) -> Layout | None:
    """Return the picture in this number of columns, or `None` if they would separate a frame from its nodes.

    `layout` is the layout in one column. A frame that is cut has columns of its own, so there may be more columns.
    """
    cuts = _find_cuts(picture, layout, columns)
    column_of = [sum(box.y >= cut for cut in cuts) for box in layout.boxes]
    # A frame with columns of its own may leave a column empty.
    known = sorted(set(column_of))
    column_of = [known.index(column) for column in column_of]
    if len(known) == 1:
        return None
    parts = [_make_part(picture, column_of, column) for column in range(len(known))]
    folded = _assemble(picture, parts, [place(picture, part, LayoutOptions()) for part in parts])
    return None if _holds_others(picture, folded) else folded


def _find_cuts(picture: Picture, layout: Layout, columns: int) -> list[float]:
    """Return the heights at which columns begin: near equal distances, where few edges and frames are cut."""
    where = {box.name: place.y for box, place in zip(picture.boxes, layout.boxes, strict=True)}
    frames: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for box in picture.boxes:
        if box.path:
            frames[box.path[:1]].append(where[box.name])
    rows = sorted(set(where.values()))

    def cost(cut: float) -> int:
        edges = [arrow for arrow in picture.arrows if arrow.target != END.name]
        crossing = sum((where[arrow.source] < cut) != (where[arrow.target] < cut) for arrow in edges)
        return crossing + _FRAME * sum(min(inside) < cut <= max(inside) for inside in frames.values())

    cuts: set[float] = set()
    for number in range(1, columns):
        ideal = layout.height * number / columns
        near = [row for row in rows if abs(row - ideal) <= _ROOM * layout.height / columns]
        if near:
            cuts.add(min(near, key=lambda row: (cost(row), abs(row - ideal))))
    for inside in frames.values():
        if any(min(inside) < cut <= max(inside) for cut in cuts):
            cuts |= {min(inside), *[row for row in rows if row > max(inside)][:1]}
    return sorted(cuts)


def _make_part(picture: Picture, column_of: Sequence[int], column: int) -> Part:
    numbers = {box.name: number for number, box in enumerate(picture.boxes)}
    arrows: list[int] = []
    entries: dict[str, int] = {}
    exits: dict[int, str] = {}
    if column_of[numbers[picture.start]] == column:
        entries[START] = numbers[picture.start]
    for index, arrow in enumerate(picture.arrows):
        target = None if arrow.target == END.name else numbers[arrow.target]
        leaves = target is None or column_of[target] != column
        if column_of[numbers[arrow.source]] == column:
            arrows.append(index)
            if leaves:
                exits[index] = f"{_EXIT}{FINISH if target is None else target}"
        elif target is not None and not leaves:
            entries[f"{_ENTRY}{target}"] = target
    boxes = [number for number, one in enumerate(column_of) if one == column]
    return Part(boxes, arrows, entries, exits, bordered=True)


class _Way(NamedTuple):
    """The way to a box from other columns: the height below the columns, the x beside its column, the height above."""

    below: float
    x: float
    above: float
    entry: Point

    def corners(self, x: float) -> list[Point]:
        """Return the corners of the way from a column that is left at this x."""
        return [(x, self.below), (self.x, self.below), (self.x, self.above), (self.entry[0], self.above), self.entry]


def _assemble(picture: Picture, parts: Sequence[Part], drawings: Sequence[Drawing]) -> Layout:
    """Put the columns beside one another, and connect them."""
    entered = [_entered_boxes(part, drawing) for part, drawing in zip(parts, drawings, strict=True)]
    upper = max(map(len, entered)) * _STEP
    columns: list[Drawing] = []
    right = 0.0
    for targets, drawing in zip(entered, drawings, strict=True):
        left = right + 2 * _GAP + len(targets) * _STEP if columns or targets else 0.0
        columns.append(drawing.move(left, upper))
        right = left + drawing.width
    bottom = upper + max(drawing.height for drawing in drawings)
    ways = _find_ways(entered, columns, upper, bottom)
    lowest = max((way.below for way in ways.values()), default=bottom)
    finish = _place_finish(columns, lowest)
    lines = {index: line for column in columns for index, line in column.lines.items()}
    for part, column in zip(parts, columns, strict=True):
        for index, name in part.exits.items():
            port = column.ports[name]
            if finish is not None and picture.arrows[index].target == END.name:
                lines[index] = _continue(lines[index], _to_finish((port.x, port.y), finish))
            else:
                target = name.removeprefix(_EXIT)
                lines[index] = _join(_continue(lines[index], ways[target].corners(port.x)), lines[_ENTRY + target])
    first = next(column for column in columns if START in column.ports)
    boxes = {number: box for column in columns for number, box in column.boxes.items()}
    labels = {index: label for column in columns for index, label in column.labels.items()}
    return Layout(
        round(max(right, 0.0 if finish is None else finish.x + finish.width / 2), 1),
        round(lowest + _GAP if finish is None else finish.y + finish.height / 2, 1),
        tuple(boxes[number] for number in range(len(picture.boxes))),
        tuple(lines[index] for index in range(len(picture.arrows))),
        tuple(labels[index] for index in range(len(picture.arrows))),
        first.ports[START],
        first.lines[START],
        finish,
        _join_frames(columns),
    )


def _entered_boxes(part: Part, drawing: Drawing) -> list[str]:
    """Return the numbers of the boxes that other columns lead to, from left to right."""
    ports = sorted((drawing.ports[port].x, port) for port in part.entries if port != START)
    return [port.removeprefix(_ENTRY) for _, port in ports]


def _find_ways(
    entered: Sequence[Sequence[str]], columns: Sequence[Drawing], upper: float, bottom: float
) -> dict[str, _Way]:
    places: dict[str, tuple[float, float, Point]] = {}
    spans: dict[str, tuple[float, float]] = {}
    for targets, column in zip(entered, columns, strict=True):
        left = min(one.min_x for one in (*column.boxes.values(), *column.labels.values(), *column.clusters.values()))
        for number, target in enumerate(targets):
            entry = column.ports[_ENTRY + target]
            # The inner ways lead to the boxes on the left, so that the ways to a column do not cross.
            x, above = left - _GAP - number * _STEP, upper - (number + 1) * _STEP
            places[target] = (x, above, (entry.x, entry.y))
            ends = [x, *(one.ports[_EXIT + target].x for one in columns if _EXIT + target in one.ports)]
            spans[target] = (min(ends), max(ends))
    levels = _assign_levels(spans)
    return {
        target: _Way(bottom + _GAP + levels[target] * _STEP, x, above, entry)
        for target, (x, above, entry) in places.items()
    }


def _assign_levels(spans: Mapping[str, tuple[float, float]]) -> dict[str, int]:
    """Return a level for each span, so that spans on one level are apart; short spans are on the first levels."""
    levels: dict[str, int] = {}
    for target, (begin, end) in sorted(spans.items(), key=lambda item: (item[1][1] - item[1][0], item[0])):
        taken = {
            level
            for other, level in levels.items()
            if begin - _STEP < spans[other][1] and spans[other][0] < end + _STEP
        }
        levels[target] = next(level for level in range(len(spans)) if level not in taken)
    return levels


def _place_finish(columns: Sequence[Drawing], lowest: float) -> Rectangle | None:
    """Return the place of the end: below the last column that leads to it."""
    ports = [column.ports[_EXIT + FINISH] for column in columns if _EXIT + FINISH in column.ports]
    if not ports:
        return None
    return Rectangle(ports[-1].x, round(lowest + 2 * _GAP + FINISH_SIZE / 2, 1), FINISH_SIZE, FINISH_SIZE)


def _to_finish(port: Point, finish: Rectangle) -> Sequence[Point]:
    if port[0] == finish.x:
        return [(port[0], finish.min_y)]
    return [(port[0], finish.y), (finish.min_x, finish.y)]


def _continue(line: Polyline, corners: Sequence[Point]) -> Polyline:
    """Return the line, continued from its tip with horizontal and vertical lines and round corners."""
    points = [line.curve[-1], *(corner for before, corner in pairwise((line.tip, *corners)) if before != corner)]
    curve = list(line.curve)
    for before, corner, after in zip(points, points[1:], points[2:], strict=False):
        radius = min(_CORNER, math.dist(before, corner) / 2, math.dist(corner, after) / 2)
        begin, end = _toward(corner, before, radius), _toward(corner, after, radius)
        curve += _straight(curve[-1], begin)
        curve += [_toward(corner, before, radius * (1 - _ROUND)), _toward(corner, after, radius * (1 - _ROUND)), end]
    tip = points[-1]
    curve += _straight(curve[-1], _toward(tip, points[-2], _TIP))
    return Polyline(tuple((round(x, 1), round(y, 1)) for x, y in curve), tip)


def _join(line: Polyline, arrival: Polyline) -> Polyline:
    return Polyline((*line.curve, *_straight(line.curve[-1], arrival.curve[0]), *arrival.curve[1:]), arrival.tip)


def _straight(begin: Point, end: Point) -> list[Point]:
    return [_toward(begin, end, math.dist(begin, end) / 3), _toward(end, begin, math.dist(begin, end) / 3), end]


def _toward(begin: Point, end: Point, length: float) -> Point:
    whole = math.dist(begin, end) or 1.0
    return begin[0] + (end[0] - begin[0]) * length / whole, begin[1] + (end[1] - begin[1]) * length / whole


def _join_frames(columns: Sequence[Drawing]) -> dict[tuple[str, ...], Rectangle]:
    """Return the frames; one of several columns is around all of its parts."""
    frames: dict[tuple[str, ...], Rectangle] = {}
    for column in columns:
        for path, frame in column.clusters.items():
            frames[path] = frames[path].union(frame) if path in frames else frame
    return dict(sorted(frames.items(), key=lambda item: (len(item[0]), item[0])))


def _holds_others(picture: Picture, layout: Layout) -> bool:
    """Return whether a frame is around a box that is not in it."""
    return any(
        frame.overlaps(place)
        for path, frame in layout.clusters.items()
        for box, place in zip(picture.boxes, layout.boxes, strict=True)
        if box.path[: len(path)] != path
    )
