"""The positions of elements in a browser."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from tests.draw.browser import Page

_BOXES = """
selector => [...document.querySelectorAll(selector)].map(one => {
    const box = one.getBoundingClientRect();
    return [one.textContent, box.left, box.top, box.right, box.bottom];
})
"""


@dataclass(frozen=True)
class Drawn:
    """The text of an element, and its sides in pixels."""

    text: str
    left: float
    top: float
    right: float
    bottom: float

    def holds(self, other: Drawn) -> bool:
        """Return whether the other element is inside."""
        across = self.left <= other.left and other.right <= self.right
        return across and self.top <= other.top and other.bottom <= self.bottom

    def meets(self, other: Drawn) -> bool:
        """Return whether the elements overlap."""
        across = self.left < other.right and other.left < self.right
        return across and self.top < other.bottom and other.top < self.bottom


def elements(page: Page, selector: str) -> list[Drawn]:
    """Return the elements of the page in order, except empty ones."""
    found: list[tuple[str, float, float, float, float]] = page.evaluate(_BOXES, selector)
    return [Drawn(*one) for one in found if one[1] < one[3]]


def overlapping_texts(ones: Sequence[Drawn], others: Sequence[Drawn] = ()) -> list[tuple[str, str]]:
    """Return the texts of the elements that overlap each other or one of the others."""
    pairs = [*combinations(ones, 2), *((one, other) for one in ones for other in others)]
    return [(one.text, other.text) for one, other in pairs if one.meets(other)]
