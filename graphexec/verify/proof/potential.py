"""Potentials: for each node, the most that a run can still count from there, linear in the amounts left of its budgets.

In a loop, every round spends a budget that nothing in the loop resets. A node's potential is the potential of the paths
that do not spend this budget, plus, for each unit left, the most that one round counts. A potential is a proof that is
easy to check: for each transition, its count plus the potential of its target is at most the potential of its source.
With limits as numbers, the value at the start is the bound; with limits as names, it is the closed form.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, final

from graphexec.kernel.node import END
from graphexec.kernel.tables import reachable
from graphexec.verify.paths import strongly_connected_components
from graphexec.verify.proof import polynomial
from graphexec.verify.proof.flow import Known, Transition
from graphexec.verify.proof.polynomial import Polynomial
from graphexec.verify.proof.ranking import components, exhaustible_budgets, spends_any

_ZERO = polynomial.number(0)
_FAN_OUT, _RESTARTS = polynomial.name("fan_out"), polynomial.name("restarts")

# The depth of nested loops to which the exits of a loop are evaluated twice. Each level doubles the work.
_LEVELS = 2

# The most terms of a closed form. Loops in sequence, each bounded by what the earlier ones left, would add terms of
# ever higher degree.
_TERMS = 200


class TooManyTermsError(Exception):
    """A closed form has too many terms to be readable."""


def has_too_many_terms(value: Polynomial) -> bool:
    """Return whether a closed form with this polynomial would not be readable. A number always is."""
    return not value.is_number and len(value.terms) > _TERMS


# Strongly connected components with the transitions inside them; each comes after those that it reaches.
Components: TypeAlias = Sequence[tuple[list[str], list[Transition]]]

# The count of a transition.
Weight = Callable[[Transition], Polynomial]


@final
@dataclass(frozen=True, slots=True)
class Line:
    """A linear function of the amounts left of budgets: `base`, and a slope for each budget."""

    base: Polynomial = _ZERO
    slopes: Mapping[str, Polynomial] = field(default_factory=dict[str, Polynomial])

    def slope(self, budget: str) -> Polynomial:
        """Return the slope of a budget, or 0."""
        return self.slopes.get(budget, _ZERO)

    def or_more(self, other: Line) -> Line:
        """Return a line that is at least as high as both."""
        names = dict.fromkeys([*self.slopes, *other.slopes])
        return Line(
            self.base.or_more(other.base), {name: self.slope(name).or_more(other.slope(name)) for name in names}
        )

    def not_less(self, other: Line, caps: Mapping[str, Polynomial]) -> Line:
        """Return a line that equals the higher one where all budgets are full, and is nowhere below either line."""
        names = dict.fromkeys([*self.slopes, *other.slopes])
        slopes = {name: self.slope(name).or_less(other.slope(name)) for name in names}
        bases = [
            sum(((line.slope(name) - slopes[name]) * caps[name] for name in names), line.base) for line in (self, other)
        ]
        return Line(bases[0].or_more(bases[1]), slopes)

    def at(self, left: Mapping[str, Polynomial]) -> Polynomial:
        """Return its value for these amounts left of each budget."""
        return sum((slope * left[name] for name, slope in self.slopes.items()), self.base)


@final
@dataclass(frozen=True, slots=True)
class Potentials:
    """The potentials of transitions that are proved to end. `caps` are the limits of the budgets that have one.

    If several budgets run out in a loop, the first in `order` bounds it. At branches outside of loops, the potential is
    tight where all budgets are full (`full`), or where none has anything left. Without `close`, each loop takes one
    pass, and the potential is less tight.
    """

    weight: Weight
    caps: Mapping[str, Polynomial]
    order: Sequence[str]
    full: bool = False
    close: bool = True

    def of(self, nodes: Iterable[str], transitions: Sequence[Transition]) -> dict[str, Line]:
        """Return the potential of each node. Raises `TooManyTermsError`, but never if all limits are numbers."""
        inside = [one for one in transitions if one.target != END.name]
        ends = [(one, Line(self.weight(one))) for one in transitions if one.target == END.name]
        return self._level(components(nodes, inside), inside, ends, 0)

    def _level(
        self, parts: Components, inside: Sequence[Transition], exits: Sequence[tuple[Transition, Line]], depth: int
    ) -> dict[str, Line]:
        """Return the potentials of components; the transitions `inside` connect them, and `exits` leave them."""
        place = {name: number for number, (component, _) in enumerate(parts) for name in component}
        leaving: dict[int, list[tuple[Transition, Line | None]]] = {}
        for one in inside:
            if place[one.source] != place[one.target]:
                leaving.setdefault(place[one.source], []).append((one, None))
        for one, line in exits:
            leaving.setdefault(place[one.source], []).append((one, line))
        found: dict[str, Line] = {}
        for number, (component, within) in enumerate(parts):
            out = [
                (one, self._before(one, found[one.target]) if line is None else line)
                for one, line in leaving.get(number, ())
            ]
            if within:
                found.update(self._loop(component, within, out, depth))
            else:
                found.update(self._joined(component, out, depth))
        return found

    def _before(self, one: Transition, there: Line) -> Line:
        """Return the line that a transition needs at its source if its target has the line `there`."""
        base = self.weight(one) + there.base
        spent = dict(one.spends)
        slopes: dict[str, Polynomial] = {}
        for name, slope in there.slopes.items():
            if name in one.resets:
                base = base + slope * self.caps[name]
                continue
            slopes[name] = slope
            if spent.get(name):
                base = base - slope * polynomial.number(spent[name])
        return Line(base, slopes)

    def _loop(
        self,
        component: Sequence[str],
        within: Sequence[Transition],
        exits: Sequence[tuple[Transition, Line]],
        depth: int,
    ) -> dict[str, Line]:
        budgets = exhaustible_budgets(within, frozenset(self.caps))
        assert budgets, "a flow that is proved to end has a budget that runs out in each loop"
        budget = min(budgets, key=self.order.index)
        spending = [one for one in within if spends_any(one, (budget,))]
        rest = [one for one in within if not spends_any(one, (budget,))]
        parts = components(component, rest)
        lines = self._level(parts, rest, exits, depth + 1)
        unit = self._unit(spending, lines, budget)
        if self.close and depth < _LEVELS:
            lines, unit = self._closer(parts, rest, spending, exits, budget, depth) or (lines, unit)
        return {
            name: Line(line.base, {**line.slopes, budget: line.slope(budget) + unit}) for name, line in lines.items()
        }

    def _closer(
        self,
        parts: Components,
        rest: Sequence[Transition],
        spending: Sequence[Transition],
        exits: Sequence[tuple[Transition, Line]],
        budget: str,
        depth: int,
    ) -> tuple[dict[str, Line], Polynomial] | None:
        """Return lines in which one unit of the budget pays for exactly one round, if they are a potential.

        A round is a path from the target of one spending transition through the next spending transition.
        """

        def pay_unit(one: Transition, line: Line) -> tuple[Transition, Line]:
            amount = polynomial.number(dict(one.spends).get(budget, 0))
            return one, Line(line.base - unit * amount, line.slopes)

        ends = [(one, Line(self.weight(one))) for one in spending]
        rounds = self._level(parts, rest, ends, depth + 1)
        unit = polynomial.most(rounds[one.target].at(self.caps) for one in spending)
        # A transition that leaves the loop pays a unit, too, and so does one that starts another round.
        leaving = [pay_unit(one, line) for one, line in exits]
        lines = self._level(parts, rest, leaving, depth + 1)
        again = [pay_unit(one, self._before(one, lines[one.target])) for one in spending]
        lines = self._level(parts, rest, [*leaving, *again], depth + 1)
        return (lines, unit) if self._unit(spending, lines, budget).or_more(unit) == unit else None

    def _unit(self, spending: Sequence[Transition], lines: Mapping[str, Line], budget: str) -> Polynomial:
        """Return the least value of one budget unit with which no spending transition raises the potential."""
        unit = _ZERO
        for one in spending:
            gain = self._gain(one, lines)
            amount = dict(one.spends)[budget]
            if amount > 1 and gain.is_number:
                gain = polynomial.number(-(-gain.at({}) // amount))
            unit = unit.or_more(gain)
        if has_too_many_terms(unit):
            raise TooManyTermsError
        return unit

    def _gain(self, one: Transition, lines: Mapping[str, Line]) -> Polynomial:
        """Return the most by which a transition's count plus its target's potential exceeds its source's potential."""
        here, before = lines[one.source], self._before(one, lines[one.target])
        spent = dict(one.spends)
        gain = before.base - here.base
        for name in dict.fromkeys([*before.slopes, *here.slopes]):
            steeper = before.slope(name) - here.slope(name)
            upper = steeper.or_more(_ZERO)
            # The maximum is where the budget is full, or where only the amount that the transition spends is left.
            gain = gain + upper * self.caps[name]
            if upper == _ZERO:
                gain = gain + steeper * polynomial.number(spent.get(name, 0))
        return gain

    def _joined(
        self, component: Sequence[str], exits: Sequence[tuple[Transition, Line]], depth: int
    ) -> dict[str, Line]:
        found: dict[str, Line] = {}
        for one, line in exits:
            old = found.get(one.source, line)
            found[one.source] = old.not_less(line, self.caps) if self.full and not depth else old.or_more(line)
        return {name: found.get(name, Line()) for name in component}


def find_sloped_potentials(
    nodes: Sequence[str], transitions: Iterable[Transition], weight: Weight, caps: Mapping[str, Polynomial]
) -> Iterator[dict[str, Line]]:
    """Yield potentials with one slope for each budget, for two orders of the budgets.

    What a unit left is worth is the same wherever it may be spent. Budgets are taken one after the other. The slope of
    a budget is the most that a round counts between two transitions that spend it, on ways that spend only budgets with
    a slope already, each of which pays for its own rounds. An edge that resets a budget costs a full one. Then no loop
    counts anything, and the longest path from a node is its base. The bound is a sum over the budgets, so it is lower
    than a product of nested loops wherever nothing resets an inner budget. There are none for loops that need slopes of
    their own.
    """
    following: dict[str, list[str]] = {name: [] for name in nodes}
    every = list(transitions)
    for one in every:
        following.setdefault(one.source, []).append(one.target)
        following.setdefault(one.target, [])
    # What is nearer to the end comes first, so that few passes find the longest ways.
    place = {name: at for at, name in enumerate(itertools.chain(*strongly_connected_components(following)))}
    every.sort(key=lambda one: (place[one.source], place[one.target]))
    names = {name for one in every for name, _ in one.spends}
    spent = [name for name in caps if name in names]
    reset = {name for one in every for name in one.resets}
    # A budget that a loop resets comes before those which the loop spends; names of embedded budgets have a dot each.
    inner = sorted(reset.intersection(spent), key=lambda name: (-name.count("."), name))
    outer = [name for name in spent if name not in reset]
    for order in (outer, outer[::-1])[: 2 if len(outer) > 1 else 1]:
        found = _sloped_lines(nodes, every, [weight(one) for one in every], caps, (*inner, *order))
        if found is not None:
            yield found


def _sloped_lines(
    nodes: Sequence[str],
    transitions: Sequence[Transition],
    counted: list[Polynomial],
    caps: Mapping[str, Polynomial],
    order: Sequence[str],
) -> dict[str, Line] | None:
    """Return the line of each node, or `None`.

    `counted` becomes what each transition counts beyond what its budgets with a slope pay for.
    """
    slopes: dict[str, Polynomial] = {}
    live: dict[str, set[str]] = {}
    spends = [dict(one.spends) for one in transitions]
    # The budgets without a slope yet that a transition spends or resets.
    open_budgets = [
        {name for name in (*own, *one.resets) if name in caps} for own, one in zip(spends, transitions, strict=True)
    ]

    def steps(indices: Iterable[int]) -> list[_Step]:
        return [(transitions[index].source, transitions[index].target, counted[index]) for index in indices]

    for name in order:
        within = [index for index, names in enumerate(open_budgets) if not names]
        for names in open_budgets:
            names.discard(name)
        last = [index for index, own in enumerate(spends) if name in own and not open_budgets[index]]
        rounds = _longest(steps(within), steps(last))
        if rounds is None:
            return None
        targets = [transitions[index].target for index in last]
        slope = slopes[name] = polynomial.most(rounds[target] for target in targets if target in rounds)
        if has_too_many_terms(slope):
            return None
        # Elsewhere, the budget is worth 0: no run spends it before an edge resets it. An empty name leads to all nodes
        # that spend it.
        back = [(one.target, one.source) for one in transitions if name not in one.resets]
        spenders = [("", one.source) for own, one in zip(spends, transitions, strict=True) if name in own]
        live[name] = reachable("", back + spenders)
        for index, one in enumerate(transitions):
            if name in one.resets:
                if one.target in live[name]:
                    counted[index] = counted[index] + slope * caps[name]
            elif name in spends[index]:
                counted[index] = counted[index] - slope * polynomial.number(spends[index][name])
    every = steps(range(len(transitions)))
    bases = _longest([one for one in every if one[1] != END.name], [one for one in every if one[1] == END.name])
    if bases is None or any(node not in bases for node in nodes):
        return None
    known = {name: slope for name, slope in slopes.items() if slope != _ZERO}
    return {
        node: Line(bases[node], {name: slope for name, slope in known.items() if node in live[name]}) for node in nodes
    }


# The source, the target and the count of a transition.
_Step: TypeAlias = tuple[str, str, Polynomial]


def _longest(steps: Sequence[_Step], last: Iterable[_Step]) -> dict[str, Polynomial] | None:
    """Return the most that a way of `steps`, ended by one of `last`, counts; `None` if a loop counts something."""
    found: dict[str, Polynomial] = {}
    for source, _, count in last:
        found[source] = found.get(source, count).or_more(count)
    # A way without a loop has fewer steps than there are sources, and one more pass changes nothing.
    for _ in range(len({source for source, *_ in steps}) + 2):
        before = dict(found)
        for source, target, count in steps:
            if target in found:
                way = count + found[target]
                found[source] = found.get(source, way).or_more(way)
        if found == before:
            return found
    return None


def to_numbers(line: Line) -> tuple[int, tuple[tuple[str, int], ...]]:
    """Return a line whose values are numbers, as a certificate has it."""
    slopes = ((name, slope.at({})) for name, slope in line.slopes.items())
    return line.base.at({}), tuple((name, slope) for name, slope in slopes if slope)


def is_bounded(one: Transition, known: Known) -> bool:
    """Return whether the number of effects of such a visit has a bound."""
    return one.most is not None or known["fan_out"] is not None


def most_charged(one: Transition, name: str) -> Polynomial:
    """Return the most that such a visit charges a meter."""
    effects = _FAN_OUT if one.most is None else polynomial.number(one.most)
    return polynomial.number(one.largest(name)) * effects


def most_of(
    count: Callable[[Iterable[Transition]], Polynomial], transitions: Iterable[Transition], caps: Mapping[str, int]
) -> int:
    """Return the most that one of the transitions counts; the count of several is a form that covers all of them."""
    return max((count((one,)).at(caps) for one in transitions), default=0)


def charged_again(name: str, transitions: Iterable[Transition], known: Known) -> Polynomial:
    """Return the most that visits with a bounded number of effects charge again after crashes."""
    if not known["restarts"]:
        return _ZERO
    bounded = (one for one in transitions if is_bounded(one, known))
    return _RESTARTS * polynomial.most(most_charged(one, name) for one in bounded)
