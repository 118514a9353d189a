"""Potentials with one slope for each budget: what a unit left is worth is the same wherever it may be spent.

Budgets are taken one after the other. The slope of a budget is the most that a round counts between two transitions
that spend it, on ways that spend only budgets with a slope already, each of which pays for its own rounds. An edge that
resets a budget costs a full one. Then no loop counts anything, and the longest path from a node is its base. The bound
is a sum over the budgets, so it is lower than a product of nested loops wherever nothing resets an inner budget.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import final

from graphexec.kernel.node import END
from graphexec.kernel.tables import reachable
from graphexec.verify.paths import strongly_connected_components
from graphexec.verify.proof import polynomial
from graphexec.verify.proof.flow import Transition
from graphexec.verify.proof.polynomial import Polynomial
from graphexec.verify.proof.potential import Line, Weight, has_too_many_terms

_ZERO = polynomial.number(0)


@final
class SlopedPotentials:
    """The potentials of these transitions with common slopes, for any counts and caps."""

    __slots__ = ("_live", "_nodes", "_resets", "_spends", "_steps", "_transitions")

    def __init__(self, nodes: Sequence[str], transitions: Iterable[Transition]) -> None:
        self._nodes = nodes
        following: dict[str, list[str]] = {name: [] for name in nodes}
        every = list(transitions)
        for one in every:
            following.setdefault(one.source, []).append(one.target)
            following.setdefault(one.target, [])
        # What is nearer to the end comes first, so that few passes find the longest ways.
        place = {name: at for at, name in enumerate(itertools.chain(*strongly_connected_components(following)))}
        self._transitions = sorted(every, key=lambda one: (place[one.source], place[one.target]))
        self._steps = [(one.source, one.target) for one in self._transitions]
        self._spends = [dict(one.spends) for one in self._transitions]
        # By budget: the indices of the transitions that spend it, or reset it.
        self._resets: dict[str, list[int]] = {}
        for index, one in enumerate(self._transitions):
            for name in one.resets:
                self._resets.setdefault(name, []).append(index)
        self._live: dict[str, set[str]] = {}

    def find(self, weight: Weight, caps: Mapping[str, Polynomial]) -> Iterator[dict[str, Line]]:
        """Yield potentials for two orders of the budgets; none for loops that need slopes of their own."""
        spent = [name for name in caps if any(name in spends for spends in self._spends)]
        # A budget that a loop resets comes before those which the loop spends; names of embedded budgets have a dot
        # each.
        inner = sorted({*self._resets} & {*spent}, key=lambda name: (-name.count("."), name))
        outer = [name for name in spent if name not in inner]
        for order in (outer, outer[::-1])[: 2 if len(outer) > 1 else 1]:
            found = self._lines([weight(one) for one in self._transitions], caps, (*inner, *order))
            if found is not None:
                yield found

    def _lines(
        self, counts: Sequence[Polynomial], caps: Mapping[str, Polynomial], order: Sequence[str]
    ) -> dict[str, Line] | None:
        """Return the line of each node, or `None`."""
        slopes: dict[str, Polynomial] = {}
        # What each transition counts beyond what its budgets with a slope pay for.
        counted = list(counts)
        # The budgets without a slope yet that a transition spends or resets.
        open_budgets = [
            {name for name in (*spends, *one.resets) if name in caps}
            for spends, one in zip(self._spends, self._transitions, strict=True)
        ]
        for name in order:
            spenders = [index for index, spends in enumerate(self._spends) if name in spends]
            within = [index for index, names in enumerate(open_budgets) if not names]
            for index in {*spenders, *self._resets.get(name, ())}:
                open_budgets[index].discard(name)
            last = [index for index in spenders if not open_budgets[index]]
            rounds = self._longest(within, last, counted)
            if rounds is None:
                return None
            slope = _ZERO
            for index in last:
                target = self._steps[index][1]
                if target in rounds:
                    slope = slope.or_more(rounds[target])
            if has_too_many_terms(slope):
                return None
            slopes[name] = slope
            live, resets = self._live_nodes(name), {*self._resets.get(name, ())}
            for index in resets:
                if self._steps[index][1] in live:
                    counted[index] = counted[index] + slope * caps[name]
            for index in spenders:
                if index not in resets:
                    counted[index] = counted[index] - slope * polynomial.number(self._spends[index][name])
        inside = [index for index, (_, target) in enumerate(self._steps) if target != END.name]
        ending = [index for index, (_, target) in enumerate(self._steps) if target == END.name]
        bases = self._longest(inside, ending, counted)
        if bases is None or any(node not in bases for node in self._nodes):
            return None
        lines: dict[str, Line] = {}
        known = {name: slope for name, slope in slopes.items() if slope != _ZERO}
        for node in self._nodes:
            own = {name: slope for name, slope in known.items() if node in self._live_nodes(name)}
            lines[node] = Line(bases[node], own)
        return lines

    def _live_nodes(self, name: str) -> set[str]:
        """Return the nodes from which a run may spend a budget before an edge resets it: elsewhere, it is worth 0."""
        if name in self._live:
            return self._live[name]
        resets = {*self._resets.get(name, ())}
        back = [(target, source) for index, (source, target) in enumerate(self._steps) if index not in resets]
        # An empty name leads to all nodes that spend it.
        spenders = [
            ("", source) for (source, _), spends in zip(self._steps, self._spends, strict=True) if name in spends
        ]
        self._live[name] = reachable("", back + spenders)
        return self._live[name]

    def _longest(
        self,
        steps: Iterable[int],
        last: Iterable[int],
        counted: Sequence[Polynomial],
    ) -> dict[str, Polynomial] | None:
        """Return the most that a way of `steps`, ended by one of `last`, counts; `None` if a loop counts something."""
        found: dict[str, Polynomial] = {}
        for index in last:
            source, _ = self._steps[index]
            found[source] = found[source].or_more(counted[index]) if source in found else counted[index]
        pending = [(*self._steps[index], counted[index]) for index in steps]
        for _ in range(len(self._nodes) + 1):
            changed = False
            for source, target, count in pending:
                if target not in found:
                    continue
                way = count + found[target]
                old = found.get(source)
                if old is not None:
                    way = old.or_more(way)
                if old != way:
                    found[source] = way
                    changed = True
            if not changed:
                return found
        return None
