"""Layout of a picture: several variants are computed, and the most readable one is used.

The edges of a picture that is much wider than it is high point to the right, which makes it more compact.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import product, starmap

from graphexec.draw.layout.geometry import Layout
from graphexec.draw.layout.graphviz import LayoutOptions, place
from graphexec.draw.layout.label_layout import cost, move_clashing_labels
from graphexec.draw.model.picture import Picture

# Pictures with more edges are laid out in one variant only.
_SMALL = 40
_VARIANTS = tuple(starmap(LayoutOptions, product((1, 0, 3), (1, 2), (False, True))))
# The variants for a picture that is wider than a large screen, and so many times its height.
_WIDE, _EXTREME = 2_000.0, 3.0
_SIDEWAYS = tuple(LayoutOptions(sideways=True, stagger=rows) for rows in range(1, 7))


@lru_cache(maxsize=256)
def lay_out(picture: Picture) -> Layout:
    """Lay the picture out. The cost grows faster than the picture, so layouts are cached.

    Raises `InputError` if pygraphviz is not installed.
    """
    variants = _VARIANTS if len(picture.arrows) <= _SMALL else _VARIANTS[:1]
    layout = min((_lay_out(picture, options) for options in variants), key=cost)
    if layout.width < max(_WIDE, _EXTREME * layout.height):
        return layout
    return min((layout, *(_lay_out(picture, options) for options in _SIDEWAYS)), key=_extent)


def _lay_out(picture: Picture, options: LayoutOptions) -> Layout:
    return move_clashing_labels(place(picture, options))


def _extent(layout: Layout) -> float:
    """Return how far the layout is from a square."""
    return abs(math.log(layout.width / layout.height))
