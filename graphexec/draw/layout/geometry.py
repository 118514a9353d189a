"""Places of what is drawn. Lengths are points; y grows downwards, as in SVG."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

Point: TypeAlias = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Rectangle:
    """A rectangle, by its middle and its size."""

    x: float
    y: float
    width: float
    height: float

    @property
    def left(self) -> float:
        """Its left side."""
        return self.x - self.width / 2

    @property
    def top(self) -> float:
        """Its upper side."""
        return self.y - self.height / 2


@dataclass(frozen=True, slots=True)
class Polyline:
    """A line as a chain of cubic Bézier curves (1 + 3n points), and the point of its arrow."""

    curve: tuple[Point, ...]
    tip: Point


@dataclass(frozen=True, slots=True)
class Layout:
    """The places of a picture's boxes, the lines and labels of its arrows, in its own order, and the other places."""

    width: float
    height: float
    boxes: tuple[Rectangle, ...]
    arrows: tuple[Polyline, ...]
    labels: tuple[Rectangle, ...]
    start: Rectangle
    entry: Polyline
    finish: Rectangle | None
    clusters: Mapping[tuple[str, ...], Rectangle]
