"""Ranks: the part of a certificate that a run is held to at each step.

A rank proves that a run ends: its value falls at every step. The rank of a node is a sequence of levels; each level
contributes the number of the node's component and the remaining amounts of the level's budgets. Values are compared
from left to right. Natural numbers cannot fall forever (Floyd, 1967; lexicographic form: Alias et al., SAS 2010).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeAlias

# `plan: ((3, ("iterations",)), (1, ()))`: component 3, ordered by the remaining iterations; inside it, part 1.
Level: TypeAlias = tuple[int, tuple[str, ...]]
Rank: TypeAlias = tuple[Level, ...]
Ranks: TypeAlias = Mapping[str, Rank]

# Greater than the value of every rank.
HIGHEST: tuple[float, ...] = (math.inf,)

# A rank as a linear function of the remaining iterations: its height, its slope, and the limit on iterations.
Line: TypeAlias = tuple[int, int, int]


def linearize(ranks: Ranks, most: int | None) -> Mapping[str, Line] | None:
    """Return the ranks as linear functions of the remaining iterations; `None` if they also count other budgets.

    With component c, r of n (`most`) iterations remaining, and part p, the number is (c * (n + 1) + r) * P + p, where P
    is greater than every part. These numbers have the same order as the ranks.
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
