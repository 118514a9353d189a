"""How readable a layout is: what stands on what, and which lines cross."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise

from graphexec.draw.layout.geometry import Layout, Point, Polyline, Rectangle

# What a reader minds, against the length of the lines: a label that cannot be read, one that stands on a line, two
# lines that cross, and a start that is not at the top.
_COVERED, _CROSSED_OUT, _CROSSING, _SKIMMING, _NOT_ON_TOP = 100_000.0, 4_000.0, 400.0, 300.0, 300.0

# How near a line may come to the place of a label: its own line to the text in it, others to its edge; and to a node.
_TEXT, _NEAR, _SKIMMED = -3.0, 0.0, 7.0
# How far from a node its own lines end, at most, and how much room a tip takes.
_ENDS, _TIP = 10.0, 16.0

# Straight pieces that a curve is seen as.
_PIECES = 8


def clashes(layout: Layout) -> list[str]:
    """What cannot be read, or is hard to: labels on labels, on nodes, and on the lines of other edges."""
    seen = _Seen(layout)
    return [clash for index, label in enumerate(seen.labels) if label for clash in seen.clashes(index, label)]


def settled(layout: Layout) -> Layout:
    """Move the labels that stand in the way of something, along their own lines, to where they do not."""
    seen = _Seen(layout)
    for index, (line, label) in enumerate(zip(layout.arrows, seen.labels, strict=True)):
        if label is None or not seen.clashes(index, label):
            continue
        places = [place for place in _beside(line, label) if _within(layout, place)]
        free = [place for place in places if not seen.clashes(index, place)]
        if free:
            seen.labels[index] = min(free, key=lambda place: _far(place, line))
    moved = (dataclasses.replace(line, label=label) for line, label in zip(layout.arrows, seen.labels, strict=True))
    return dataclasses.replace(layout, arrows=tuple(moved))


def crossings(layout: Layout) -> int:
    """How many times two lines cross."""
    return sum(
        _cross(one, other)
        for first, second in combinations(_Seen(layout).ways, 2)
        if _overlap(first.around, second.around)
        for one in first.pieces
        for other in second.pieces
    )


def skimmed(layout: Layout) -> int:
    """How many times a line comes near a node that it does not lead to or from, or another line's tip."""
    count = 0
    for line, one in zip(layout.arrows, _Seen(layout).ways, strict=True):
        ends = (line.curve[0], line.curve[-1], line.tip)
        others = [box for box in layout.boxes if not any(_passes(box, _ENDS, (end, end)) for end in ends)]
        others += [
            Rectangle(*other.tip, _TIP, _TIP) for other in layout.arrows if math.dist(other.tip, line.tip) > _TIP
        ]
        count += sum(any(_passes(place, _SKIMMED, piece) for piece in one.pieces) for place in others)
    return count


class _Way:
    """A curve as straight pieces, and the rectangle around them."""

    __slots__ = ("around", "pieces")

    def __init__(self, line: Polyline) -> None:
        points = [*way(line.curve), line.tip]
        self.pieces = list(pairwise(points))
        left, right = min(x for x, _ in points), max(x for x, _ in points)
        top, bottom = min(y for _, y in points), max(y for _, y in points)
        # A straight line has an extent, too.
        self.around = Rectangle((left + right) / 2, (top + bottom) / 2, right - left + 1, bottom - top + 1)


class _Seen:
    """A layout as it is looked at: its labels, which may be moved, its nodes, and its lines."""

    __slots__ = ("_boxes", "labels", "ways")

    def __init__(self, layout: Layout) -> None:
        self.ways = [_Way(line) for line in layout.arrows]
        self.labels = [line.label for line in layout.arrows]
        self._boxes = (*layout.boxes, layout.start, *((layout.finish,) if layout.finish else ()))

    def clashes(self, index: int, label: Rectangle) -> list[str]:
        """What the label of an arrow does to others, and theirs to it, at a place."""
        found = [
            f"the label {index} covers the label {other}"
            for other, one in enumerate(self.labels)
            if other != index and one is not None and _overlap(label, one)
        ]
        found += [
            f"the label {index} covers the node {number}"
            for number, box in enumerate(self._boxes)
            if _overlap(label, box)
        ]
        found += [
            f"the line {other} runs through the label {index}"
            for other, one in enumerate(self.ways)
            if _overlap(label, one.around)
            # Its own line may come near it: then it is seen whose label it is.
            and any(_passes(label, _TEXT if other == index else _NEAR, piece) for piece in one.pieces)
        ]
        return found


def _beside(line: Polyline, label: Rectangle) -> Iterator[Rectangle]:
    """The places at both sides of a line where its label could stand."""
    points = way(line.curve)
    for (x0, y0), (x1, y1) in pairwise(points[len(points) // 8 : -len(points) // 8 or None]):
        x, y = (x0 + x1) / 2, (y0 + y1) / 2
        across, down = x1 - x0, y1 - y0
        length = math.hypot(across, down) or 1.0
        # As far from the line as the label's own extent is in that direction.
        off = (abs(down) * label.width + abs(across) * label.height) / length / 2
        for side in (1, -1):
            yield Rectangle(
                round(x - side * down / length * off, 1),
                round(y + side * across / length * off, 1),
                label.width,
                label.height,
            )


def _within(layout: Layout, place: Rectangle) -> bool:
    return (
        place.left >= 0
        and place.top >= 0
        and place.left + place.width <= layout.width
        and place.top + place.height <= layout.height
    )


def _far(place: Rectangle, line: Polyline) -> float:
    """How far a label is from the middle of its line."""
    points = way(line.curve)
    x, y = points[len(points) // 2]
    return math.dist((x, y), (place.x, place.y))


def cost(layout: Layout) -> float:
    """What the layout costs its reader: 0 would be a picture without anything in it."""
    covered = crossed_out = 0
    for clash in clashes(layout):
        if clash.startswith("the line"):
            crossed_out += 1
        else:
            covered += 1
    lengths = sum(math.dist(begin, end) for line in layout.arrows for begin, end in pairwise(way(line.curve)))
    below = any(box.y < layout.start.y for box in layout.boxes)
    return (
        covered * _COVERED
        + crossed_out * _CROSSED_OUT
        + crossings(layout) * _CROSSING
        + skimmed(layout) * _SKIMMING
        + below * _NOT_ON_TOP
        + lengths / 10
        + layout.width / 4
    )


def way(curve: Sequence[Point]) -> list[Point]:
    """Points along a chain of Bézier curves."""
    points = [curve[0]]
    for begin in range(0, len(curve) - 1, 3):
        a, b, c, d = curve[begin : begin + 4]
        for piece in range(1, _PIECES + 1):
            t = piece / _PIECES
            s = 1 - t
            f, g, h, i = s * s * s, 3 * s * s * t, 3 * s * t * t, t * t * t
            points.append((f * a[0] + g * b[0] + h * c[0] + i * d[0], f * a[1] + g * b[1] + h * c[1] + i * d[1]))
    return points


def _overlap(one: Rectangle, other: Rectangle) -> bool:
    return (
        abs(one.x - other.x) * 2 < one.width + other.width - 0.5
        and abs(one.y - other.y) * 2 < one.height + other.height - 0.5
    )


def _passes(place: Rectangle, margin: float, piece: tuple[Point, Point]) -> bool:
    """Whether a straight line comes so near to what stands at a place: by clipping it (Liang and Barsky)."""
    begin, end = piece
    half_width, half_height = place.width / 2 + margin, place.height / 2 + margin
    # Most lines are far from most places.
    if (
        (begin[0] < place.x - half_width and end[0] < place.x - half_width)
        or (begin[0] > place.x + half_width and end[0] > place.x + half_width)
        or (begin[1] < place.y - half_height and end[1] < place.y - half_height)
        or (begin[1] > place.y + half_height and end[1] > place.y + half_height)
    ):
        return False
    first, last = 0.0, 1.0
    across, down = end[0] - begin[0], end[1] - begin[1]
    for step, low, high in (
        (across, place.x - half_width - begin[0], place.x + half_width - begin[0]),
        (down, place.y - half_height - begin[1], place.y + half_height - begin[1]),
    ):
        if step == 0:
            if low > 0 or high < 0:
                return False
            continue
        enters, leaves = sorted((low / step, high / step))
        first, last = max(first, enters), min(last, leaves)
        if first > last:
            return False
    return True


def _cross(one: tuple[Point, Point], other: tuple[Point, Point]) -> bool:
    (ax, ay), (bx, by) = one
    (cx, cy), (dx, dy) = other
    if max(ax, bx) < min(cx, dx) or max(cx, dx) < min(ax, bx) or max(ay, by) < min(cy, dy) or max(cy, dy) < min(ay, by):
        return False
    turn = (bx - ax) * (cy - ay) - (by - ay) * (cx - ax)
    back = (bx - ax) * (dy - ay) - (by - ay) * (dx - ax)
    side = (dx - cx) * (ay - cy) - (dy - cy) * (ax - cx)
    away = (dx - cx) * (by - cy) - (dy - cy) * (bx - cx)
    return turn * back < 0 and side * away < 0
