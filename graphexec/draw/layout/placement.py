"""Layout of a picture: several variants are computed, and the most readable one is used.

A picture whose sides differ much becomes more compact: a high one is folded into columns, and the edges of a wide one
point to the right.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from itertools import product, starmap

from graphexec.draw.layout.folding import fold
from graphexec.draw.layout.geometry import Layout
from graphexec.draw.layout.graphviz import FINISH, START, LayoutOptions, place, whole
from graphexec.draw.layout.label_layout import cost, move_clashing_labels
from graphexec.draw.model.picture import Picture

# Pictures with more edges are laid out in one variant only.
_SMALL = 40
_VARIANTS = tuple(starmap(LayoutOptions, product((1, 0, 3), (1, 2), (False, True))))
# A picture is made compact if one side has more points than a large screen shows, and so many times the other side.
_LONG, _EXTREME = 2_000.0, 3.0
# The numbers of columns, and those of the rows in which the many successors of a node are placed.
_COLUMNS, _STAGGERS = range(2, 9), range(1, 7)


@lru_cache(maxsize=256)
def lay_out(picture: Picture) -> Layout:
    """Lay the picture out. The cost grows faster than the picture, so layouts are cached.

    Raises `InputError` if pygraphviz is not installed.
    """
    variants = _VARIANTS if len(picture.arrows) <= _SMALL else _VARIANTS[:1]
    layout = min((_lay_out_plainly(picture, options) for options in variants), key=cost)
    if max(layout.width, layout.height) < _LONG or _extent(layout) < math.log(_EXTREME):
        return layout
    return move_clashing_labels(min((layout, *_compact(picture, layout)), key=_extent))


def _lay_out_plainly(picture: Picture, options: LayoutOptions) -> Layout:
    drawing = place(picture, whole(picture), options)
    return move_clashing_labels(
        Layout(
            drawing.width,
            drawing.height,
            tuple(drawing.boxes.values()),
            tuple(drawing.lines[index] for index in range(len(picture.arrows))),
            tuple(drawing.labels.values()),
            drawing.ports[START],
            drawing.lines[START],
            drawing.ports.get(FINISH),
            drawing.clusters,
        )
    )


def _compact(picture: Picture, layout: Layout) -> Iterator[Layout]:
    if layout.height > layout.width:
        folded = (fold(picture, layout, columns) for columns in _COLUMNS)
        yield from (one for one in folded if one is not None)
    else:
        yield from (_lay_out_plainly(picture, LayoutOptions(sideways=True, stagger=rows)) for rows in _STAGGERS)


def _extent(layout: Layout) -> float:
    """Return how far the layout is from a square."""
    return abs(math.log(layout.width / layout.height))
