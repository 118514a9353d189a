"""Ranks: values that fall at every step of a run that is proved to end.

A node's rank is a sequence of levels. Its value is, level by level, the number of the node's component and what is left
of the level's budgets together, compared from left to right. Whole numbers of at least 0 cannot fall for ever (Floyd,
1967; the lexicographic form is of Alias et al., SAS 2010).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeAlias

# `plan: ((3, ("iterations",)), (1, ()))`: in component 3, with the iterations that are left; within it, in part 1.
Level: TypeAlias = tuple[int, tuple[str, ...]]
Rank: TypeAlias = tuple[Level, ...]
Ranks: TypeAlias = Mapping[str, Rank]

# Above the value of every rank.
HIGHEST: tuple[float, ...] = (math.inf,)

# A rank's value as a straight line over the iterations that are left: its height, slope, and limit.
Line: TypeAlias = tuple[int, int, int]


def lines_of(ranks: Ranks, most: int | None) -> Mapping[str, Line] | None:
    """Return the ranks as lines over the iterations that are left of `most`; `None` if they count others too.

    A rank of the component c, r iterations left of n, and the part p is (c * (n + 1) + r) * P + p, where P is above
    every part: numbers of this kind are ordered as the ranks are.
    """
    parts = 1 + max((component for rank in ranks.values() for component, _ in rank), default=0)
    lines: dict[str, Line] = {}
    for node, rank in ranks.items():
        match rank:
            case ((component, ()),):
                lines[node] = component * ((most or 0) + 1) * parts, 0, 0
            case ((component, ("iterations",)), (part, ())) if most is not None:
                lines[node] = component * (most + 1) * parts + part, parts, most
            case _:
                return None
    return lines
