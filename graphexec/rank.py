"""Ranks: what falls at every step of a run that is proved to end, as far as the engine needs to know.

A node's rank is a sequence of levels. Its value is, level by level, the number of the node's component and what is left
of the level's budgets together; values are compared from left to right, as words are in a dictionary. Where every step
lowers a value of whole numbers that cannot fall below 0 in any place, there is no endless run (Floyd, 1967; the
lexicographic form is of Alias et al., SAS 2010).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

# `plan: ((3, ("iterations",)), (1, ()))`: in component 3, with the iterations that are left; within it, in part 1.
Level: TypeAlias = tuple[int, tuple[str, ...]]
Rank: TypeAlias = tuple[Level, ...]
Ranks: TypeAlias = Mapping[str, Rank]
