"""Positions and sizes of drawn parts, and of text in a fixed typeface, so that every computer draws the same picture.

Lengths are in points; y grows downwards, as in SVG.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

Point: TypeAlias = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Rectangle:
    """A rectangle, by its centre and size."""

    x: float
    y: float
    width: float
    height: float

    @property
    def min_x(self) -> float:
        """The x of its left side."""
        return self.x - self.width / 2

    @property
    def min_y(self) -> float:
        """The y of its upper side."""
        return self.y - self.height / 2

    def overlaps(self, other: Rectangle) -> bool:
        """Return whether the rectangles have more in common than their borders."""
        return (
            abs(self.x - other.x) * 2 < self.width + other.width - 0.5
            and abs(self.y - other.y) * 2 < self.height + other.height - 0.5
        )


@dataclass(frozen=True, slots=True)
class Polyline:
    """A chain of cubic Bézier curves (1 + 3n points), and the tip of its arrow."""

    curve: tuple[Point, ...]
    tip: Point


@dataclass(frozen=True, slots=True)
class Layout:
    """The positions of a picture's parts; `boxes`, `arrows` and `labels` are in the picture's order."""

    width: float
    height: float
    boxes: tuple[Rectangle, ...]
    arrows: tuple[Polyline, ...]
    labels: tuple[Rectangle, ...]
    start: Rectangle
    entry: Polyline
    finish: Rectangle | None
    clusters: Mapping[tuple[str, ...], Rectangle]


# Character widths from space to tilde, in thousandths of the font size: Helvetica's metrics (Adobe's AFM files), which
# Arial and Liberation Sans share. The SVG states the width of each text, so that other typefaces fit, too.
_REGULAR = (
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278,
    556, 556, 556, 556, 556, 556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556,
    1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833, 722, 778,
    667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556,
    333, 556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556,
    556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584,
)  # fmt: skip
_BOLD = (
    278, 333, 474, 556, 556, 889, 722, 238, 333, 333, 389, 584, 278, 333, 278, 278,
    556, 556, 556, 556, 556, 556, 556, 556, 556, 556, 333, 333, 584, 584, 584, 611,
    975, 722, 722, 722, 722, 667, 611, 778, 722, 278, 556, 722, 611, 833, 722, 778,
    667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 333, 278, 333, 584, 556,
    333, 556, 611, 556, 611, 556, 333, 611, 611, 278, 278, 556, 278, 889, 611, 611,
    611, 611, 389, 556, 333, 611, 556, 778, 556, 556, 500, 389, 280, 389, 584,
)  # fmt: skip
_FIRST = ord(" ")
# Widths of characters outside the tables: a letter of another alphabet, and a full-width character.
_OTHER, _WIDE = 600, 1000


def width(text: str, size: float, *, bold: bool = False) -> float:
    """Return the width of one line of text, in the units of `size`."""
    table = _BOLD if bold else _REGULAR
    return sum(_advance(character, table) for character in text) * size / 1000


def _advance(character: str, table: tuple[int, ...]) -> int:
    index = ord(character) - _FIRST
    if 0 <= index < len(table):
        return table[index]
    if unicodedata.combining(character) or unicodedata.category(character) in ("Cf", "Mn"):
        return 0
    return _WIDE if unicodedata.east_asian_width(character) in ("W", "F") else _OTHER
