"""Readability of a layout: covered labels, and lines that come too near to other parts."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from itertools import pairwise

from graphexec.draw.layout.geometry import Layout, Point, Polyline, Rectangle

# The cost of a covered or crossed label, and of a line close to a node, in points of line length.
_COVERED, _SKIMMING = 4_000.0, 300.0

# Margins: between a label's text and its own line, between a label and other lines, between a node and a line.
_TEXT, _NEAR, _SKIMMED = -3.0, 1.0, 7.0
# The maximum distance between a line's end and its node, and the size of an arrow's tip.
_ENDS, _TIP = 10.0, 16.0

# Points per Bézier curve: candidate places for a label, and samples dense enough to find every clash.
_COARSE, _FINE = 8, 40


def clashes(layout: Layout) -> list[str]:
    """Return what makes labels unreadable: overlaps with other labels, nodes and lines."""
    lines = _fine(layout)
    return [
        clash
        for index, label in enumerate(layout.labels)
        for clash in _clashes(layout, layout.labels, lines, index, label)
    ]


def move_clashing_labels(layout: Layout) -> Layout:
    """Move each clashing label along its own line to the nearest free place, if there is one."""
    labels = list(layout.labels)
    lines = _fine(layout)
    for index, label in enumerate(layout.labels):
        if _clashes(layout, labels, lines, index, label):
            places = (place for place in _beside(layout.arrows[index], label) if _within(layout, place))
            free = (place for place in places if not _clashes(layout, labels, lines, index, place))
            labels[index] = next(free, label)
    return dataclasses.replace(layout, labels=tuple(labels))


def cost(layout: Layout) -> float:
    """Return the cost of the layout (lower is easier to read), in points of line length."""
    lengths = sum(math.dist(*piece) for line in layout.arrows for piece in pairwise(_points(line, _COARSE)))
    return len(clashes(layout)) * _COVERED + _count_near_misses(layout) * _SKIMMING + lengths / 10 + layout.width / 4


def _clashes(
    layout: Layout, labels: Sequence[Rectangle], lines: Sequence[Sequence[Point]], index: int, label: Rectangle
) -> list[str]:
    boxes = (*layout.boxes, layout.start, *((layout.finish,) if layout.finish else ()))
    return [
        *(
            f"the label {index} covers the label {other}"
            for other, one in enumerate(labels)
            if other != index and label.overlaps(one)
        ),
        *(f"the label {index} covers the node {number}" for number, box in enumerate(boxes) if label.overlaps(box)),
        # Its own line may come nearer: that shows which line the label belongs to.
        *(
            f"the line {other} runs through the label {index}"
            for other, line in enumerate(lines)
            if _passes(line, label, _TEXT if other == index else _NEAR)
        ),
    ]


def _count_near_misses(layout: Layout) -> int:
    """Count the lines that come near a node they do not connect, or near another line's tip."""
    count = 0
    for line, trail in zip(layout.arrows, _fine(layout), strict=True):
        ends = (line.curve[0], line.curve[-1], line.tip)
        others = [box for box in layout.boxes if not _passes(ends, box, _ENDS)]
        tips = [other.tip for other in layout.arrows if math.dist(other.tip, line.tip) > _TIP]
        others += [Rectangle(*tip, _TIP, _TIP) for tip in tips]
        count += sum(_passes(trail, place, _SKIMMED) for place in others)
    return count


def _beside(line: Polyline, label: Rectangle) -> list[Rectangle]:
    """Return the possible places of a label on both sides of its line, the nearest to the line's middle first."""
    places: list[Rectangle] = []
    points = _points(line, _COARSE)
    middle = points[len(points) // 2]
    for (x0, y0), (x1, y1) in pairwise(points[len(points) // 8 : -len(points) // 8 or None]):
        x, y = (x0 + x1) / 2, (y0 + y1) / 2
        across, down = x1 - x0, y1 - y0
        length = math.hypot(across, down) or 1.0
        # Half the label's extent in the direction away from the line.
        off = (abs(down) * label.width + abs(across) * label.height) / length / 2
        for side in (off, -off):
            place = (round(x - side * down / length, 1), round(y + side * across / length, 1))
            places.append(Rectangle(*place, label.width, label.height))
    return sorted(places, key=lambda place: math.dist(middle, (place.x, place.y)))


def _within(layout: Layout, place: Rectangle) -> bool:
    return 0 <= place.min_x <= layout.width - place.width and 0 <= place.min_y <= layout.height - place.height


def _fine(layout: Layout) -> list[Sequence[Point]]:
    return [(*_points(line, _FINE), line.tip) for line in layout.arrows]


def _points(line: Polyline, pieces: int) -> list[Point]:
    points = [line.curve[0]]
    for begin in range(0, len(line.curve) - 1, 3):
        a, b, c, d = line.curve[begin : begin + 4]
        for piece in range(1, pieces + 1):
            t = piece / pieces
            s = 1 - t
            f, g, h, i = s * s * s, 3 * s * s * t, 3 * s * t * t, t * t * t
            points.append((f * a[0] + g * b[0] + h * c[0] + i * d[0], f * a[1] + g * b[1] + h * c[1] + i * d[1]))
    return points


def _passes(trail: Sequence[Point], place: Rectangle, margin: float) -> bool:
    across, down = place.width / 2 + margin, place.height / 2 + margin
    return any(abs(x - place.x) <= across and abs(y - place.y) <= down for x, y in trail)
