"""Bounds as closed forms, valid for every limit: the longest way through the flow, with the limits as unknowns.

Where a component is bounded by budgets of S units together, a way through it is a way to its first spending transition,
at most S - 1 rounds from one spending transition through the next, and a way on from there; the ways between are found
in the same manner in what is left of the component.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from graphexec.kernel.node import END
from graphexec.verify.proof import polynomial
from graphexec.verify.proof.flow import Transition
from graphexec.verify.proof.polynomial import Polynomial, most
from graphexec.verify.proof.ranking import components, spends, spent_for_good

_ZERO = polynomial.number(0)

# What taking a transition counts for.
Weight = Callable[[Transition], Polynomial]


@dataclass(frozen=True, slots=True)
class _Passed:
    """The longest ways to the nodes of a component; one of its rounds, what rounds spend, and who is passed by them."""

    values: Mapping[str, Polynomial]
    round: Polynomial = _ZERO
    budgets: tuple[str, ...] = ()
    rounded: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Ways:
    """The longest ways through transitions that are proved to end, where `weight` says what each counts for.

    Components in which the budget `preferred` runs out are bounded by it, others by all that runs out in them.
    """

    weight: Weight
    limited: frozenset[str]
    preferred: str | None = None

    def to_the_end(self, start: str, nodes: Iterable[str], transitions: Sequence[Transition]) -> Polynomial:
        """The longest way from `start` to the end."""
        found = self._values([*nodes, END.name], transitions, {start: _ZERO})
        return found.get(END.name, _ZERO)

    def _values(
        self, nodes: Iterable[str], transitions: Sequence[Transition], begun: Mapping[str, Polynomial]
    ) -> dict[str, Polynomial]:
        """Return the longest way to each node that can be reached from those that `begun` has ways to."""
        values = dict(begun)
        found = components(nodes, transitions)
        place = {name: number for number, (component, _) in enumerate(found) for name in component}
        leaving: dict[int, list[Transition]] = {}
        for one in transitions:
            if place[one.source] != place[one.target]:
                leaving.setdefault(place[one.source], []).append(one)
        for number in range(len(found) - 1, -1, -1):
            component, within = found[number]
            entries = {name: values[name] for name in component if name in values}
            if not entries:
                continue
            passed = self._times_passed(component, within, entries) if within else _Passed(entries)
            values.update(passed.values)
            for one in leaving.get(number, ()):
                length = passed.values[one.source] + self.weight(one)
                if one.source in passed.rounded and spends(one, passed.budgets):
                    # It is itself the last of the spending transitions.
                    length = length - passed.round
                old = values.get(one.target)
                values[one.target] = length if old is None else old.or_more(length)
        return values

    def _times_passed(
        self, component: Sequence[str], within: Sequence[Transition], entries: Mapping[str, Polynomial]
    ) -> _Passed:
        budgets = spent_for_good(within, self.limited)
        assert budgets, "a flow that is proved to end has a budget that runs out in each loop"
        if self.preferred in budgets:
            # One of them will do: the loops that do not spend it spend another, and are bounded by that.
            budgets = (self.preferred,)
        spending = [one for one in within if spends(one, budgets)]
        rest = [one for one in within if not spends(one, budgets)]
        before = self._values(component, rest, entries)
        after = self._values(component, rest, {one.target: _ZERO for one in spending})
        rounds = most(after[one.source] + self.weight(one) for one in spending if one.source in after)
        first = most(before[one.source] + self.weight(one) for one in spending if one.source in before)
        units = sum(map(polynomial.name, budgets), _ZERO)
        assert first is not None, "in a component, every transition is reached from everywhere"
        assert rounds is not None, "and from each spending one the next"
        # Where a limit is 0, there are no ways that spend it, and their form may be negative: no round may be.
        one_round = rounds.or_more(_ZERO)
        values = dict(before)
        for name, on in after.items():
            longest = first + on - one_round
            if name in before:
                longest = longest.or_more(before[name])
            values[name] = units * one_round + longest
        return _Passed(values, one_round, budgets, frozenset(after))
