"""Potentials: for each node the most that a run can still count from there, linear in what is left of its budgets.

In a loop every round spends a budget that nothing in the loop resets. So a node's potential is that of the ways which
do not spend it, and for each unit that is left the most that one round counts. A potential is a proof: whoever adds up,
for each transition, what it counts and the potential behind it, finds that it is no more than the potential before it.
With limits as numbers its value at the start is the bound; with limits as names it is the closed form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, final

from graphexec.kernel.node import END
from graphexec.verify.proof import polynomial
from graphexec.verify.proof.flow import Transition
from graphexec.verify.proof.polynomial import Polynomial
from graphexec.verify.proof.ranking import components, exhaustible_budgets, spends_any

_ZERO = polynomial.number(0)

# How deep in loops the exits of a loop are looked at twice; each level doubles the work.
_LEVELS = 2

# Terms of a closed form beyond which it is too long to read, and to make: loops behind one another, each bounded by
# what those before it left, would add some of ever higher degree.
_TERMS = 200


class TooManyTermsError(Exception):
    """A potential is no closed form that anyone reads."""


# The strongly connected components of some nodes, each with the transitions inside it, behind those that it reaches.
Components: TypeAlias = Sequence[tuple[list[str], list[Transition]]]

# What a transition counts for.
Weight = Callable[[Transition], Polynomial]


@final
@dataclass(frozen=True, slots=True)
class Line:
    """A linear function of what is left of budgets: `base`, and a slope for each."""

    base: Polynomial = _ZERO
    slopes: Mapping[str, Polynomial] = field(default_factory=dict[str, Polynomial])

    def slope(self, budget: str) -> Polynomial:
        """Return the slope of a budget; 0 of one that it does not depend on."""
        return self.slopes.get(budget, _ZERO)

    def or_more(self, other: Line) -> Line:
        """Return a line that is at least as high as both."""
        names = dict.fromkeys([*self.slopes, *other.slopes])
        return Line(
            self.base.or_more(other.base), {name: self.slope(name).or_more(other.slope(name)) for name in names}
        )

    def not_less(self, other: Line, caps: Mapping[str, Polynomial]) -> Line:
        """Return a line that is as high as the higher of both where all is left, and no lower than both elsewhere."""
        names = dict.fromkeys([*self.slopes, *other.slopes])
        slopes = {name: self.slope(name).or_less(other.slope(name)) for name in names}
        bases = [
            sum(((line.slope(name) - slopes[name]) * caps[name] for name in names), line.base) for line in (self, other)
        ]
        return Line(bases[0].or_more(bases[1]), slopes)

    def at(self, left: Mapping[str, Polynomial]) -> Polynomial:
        """Return its value where so much of each budget is left."""
        return sum((slope * left[name] for name, slope in self.slopes.items()), self.base)


@final
class Potentials:
    """The potentials of transitions that are proved to end. `caps` are the limits of the budgets that have one.

    Of several budgets that run out in a loop it is bounded by the first in `order`. Where ways part outside of loops,
    it is close where everything is left (`full`), or where nothing is. Unless it is to be `close`, it is found in one
    pass over each loop.
    """

    def __init__(
        self,
        weight: Weight,
        caps: Mapping[str, Polynomial],
        order: Sequence[str],
        *,
        full: bool = False,
        close: bool = True,
    ) -> None:
        self._weight = weight
        self._full = full
        self._levels = _LEVELS if close else 0
        self._caps = caps
        self._order = order
        self._limited = frozenset(caps)

    def of(self, nodes: Iterable[str], transitions: Sequence[Transition]) -> dict[str, Line]:
        """Return the potential of each node. Raises `TooManyTermsError`, but not where all limits are numbers."""
        inside = [one for one in transitions if one.target != END.name]
        ends = [(one, Line(self._weight(one))) for one in transitions if one.target == END.name]
        return self._level(components(nodes, inside), inside, ends, 0)

    def _level(
        self, parts: Components, inside: Sequence[Transition], exits: Sequence[tuple[Transition, Line]], depth: int
    ) -> dict[str, Line]:
        """Return the potentials of components, between which are the transitions `inside`; `exits` lead out of them."""
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
        """Return the line that a transition needs before it, where it leads to `there`."""
        base = self._weight(one) + there.base
        spent = dict(one.spends)
        slopes: dict[str, Polynomial] = {}
        for name, slope in there.slopes.items():
            if name in one.resets:
                base = base + slope * self._caps[name]
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
        budgets = exhaustible_budgets(within, self._limited)
        assert budgets, "a flow that is proved to end has a budget that runs out in each loop"
        budget = min(budgets, key=self._order.index)
        spending = [one for one in within if spends_any(one, (budget,))]
        rest = [one for one in within if not spends_any(one, (budget,))]
        parts = components(component, rest)
        lines = self._level(parts, rest, exits, depth + 1)
        unit = self._unit(spending, lines, budget)
        if depth < self._levels:
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
        """Return lines by which a unit is worth a round, and no more, if they are a potential.

        A round is a way from behind one transition that spends through the next one.
        """

        def paid(one: Transition, line: Line) -> tuple[Transition, Line]:
            amount = polynomial.number(dict(one.spends).get(budget, 0))
            return one, Line(line.base - unit * amount, line.slopes)

        ends = [(one, Line(self._weight(one))) for one in spending]
        rounds = self._level(parts, rest, ends, depth + 1)
        unit = _ZERO
        for one in spending:
            unit = unit.or_more(rounds[one.target].at(self._caps))
        # Who leaves pays with a unit, too; and so does who goes round once more.
        leaving = [paid(one, line) for one, line in exits]
        lines = self._level(parts, rest, leaving, depth + 1)
        again = [paid(one, self._before(one, lines[one.target])) for one in spending]
        lines = self._level(parts, rest, [*leaving, *again], depth + 1)
        return (lines, unit) if self._unit(spending, lines, budget).or_more(unit) == unit else None

    def _unit(self, spending: Sequence[Transition], lines: Mapping[str, Line], budget: str) -> Polynomial:
        """Return what a unit of the budget has to be worth, so that no transition that spends it gains."""
        unit = _ZERO
        for one in spending:
            gain = self._gain(one, lines)
            amount = dict(one.spends)[budget]
            if amount > 1 and gain.is_number:
                gain = polynomial.number(-(-gain.at({}) // amount))
            unit = unit.or_more(gain)
        if not unit.is_number and len(unit.terms) > _TERMS:
            raise TooManyTermsError
        return unit

    def _gain(self, one: Transition, lines: Mapping[str, Line]) -> Polynomial:
        """Return the most by which a transition, and the potential behind it, is above the potential before it."""
        here, before = lines[one.source], self._before(one, lines[one.target])
        spent = dict(one.spends)
        gain = before.base - here.base
        for name in dict.fromkeys([*before.slopes, *here.slopes]):
            steeper = before.slope(name) - here.slope(name)
            upper = steeper.or_more(_ZERO)
            # The most is where all is left, or where no more is than the transition spends.
            gain = gain + upper * self._caps[name]
            if upper == _ZERO:
                gain = gain + steeper * polynomial.number(spent.get(name, 0))
        return gain

    def _joined(
        self, component: Sequence[str], exits: Sequence[tuple[Transition, Line]], depth: int
    ) -> dict[str, Line]:
        found: dict[str, Line] = {}
        for one, line in exits:
            old = found.get(one.source)
            if old is None:
                found[one.source] = line
            else:
                found[one.source] = old.not_less(line, self._caps) if self._full and not depth else old.or_more(line)
        return {name: found.get(name, Line()) for name in component}
