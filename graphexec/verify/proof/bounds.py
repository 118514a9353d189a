"""The bounds of runs: the least that is found, in closed form and as a number for given limits, with its proof.

They are for a run by itself, with the runs nested in it, within an outer run, and for a resumed one.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeAlias

from graphexec.kernel.effects import NestedRuns
from graphexec.kernel.meters import GRACE
from graphexec.verify.proof import polynomial
from graphexec.verify.proof.certificate import (
    NOTHING,
    TIMELY,
    Bound,
    Bounds,
    Potential,
    bound_by_limit,
    is_limit_of,
)
from graphexec.verify.proof.flow import (
    Charges,
    Flow,
    Known,
    Transition,
    bounded_meters,
    caps_of,
    ends_of,
    is_limited,
    may_stop_anywhere,
    possible_transitions,
)
from graphexec.verify.proof.moves import CountedMove
from graphexec.verify.proof.polynomial import Polynomial
from graphexec.verify.proof.potential import (
    Line,
    Potentials,
    TooManyTermsError,
    Weight,
    charged_again,
    find_sloped_potentials,
    is_bounded,
    most_charged,
    most_of,
    to_numbers,
)
from graphexec.verify.proof.product import Product, State, is_attained

# The most states of the product that are searched, for a run that reaches the bound and where lines are not tight.
STATES = 2_000

# Up to so many budgets, each is tried as the one that bounds the loops, and closed forms are built.
_BUDGETS = 6

# The most states that are searched for a run that reaches the bound, with more budgets than those below.
_FEW_STATES = 1_000

# Up to so many budgets, potentials with a slope of its own at each node are tried beside those with common slopes.
_ORDERS = 3

# With more transitions than this, only one potential is tried: the one that is tight in loops.
_LARGE = 500

# The most digits of a nested run's charges in a closed form.
_DIGITS = 20

# The charges that are repeated after crashes.
More: TypeAlias = Callable[[Iterable[Transition]], Polynomial]
# How much a move counts.
Counts: TypeAlias = Callable[[CountedMove], int]

_ZERO, _ONE = polynomial.number(0), polynomial.number(1)


def number_of(bound: Bound) -> float:
    """Return the number of a bound; infinite if it has none."""
    return math.inf if bound.number is None else bound.number


class _Search:
    """Finds the bounds on what runs of a flow count, whose possible `transitions` are proved to end under known limits.

    `nested` runs have limits of their own, which bound meters, too. Closed forms exist only if the transitions end
    `always`; if `measures` end them, these have their names. If they end only `by_states`, all states are searched.
    """

    def __init__(
        self,
        flow: Flow,
        transitions: Sequence[Transition],
        known: Known,
        nested: Sequence[NestedRuns],
        *,
        always: bool,
        by_states: bool = False,
        measures: Sequence[str] = (),
    ) -> None:
        self.flow = flow
        # Of a measure, one more may be spent than the first visit says, because the last one may be at 0.
        self._measures = {name: polynomial.name(name) + _ONE for name in measures}
        self.nested = nested
        self._by_states = by_states
        possible = possible_transitions(flow, known)
        reached = {one.source for one in possible}
        errors = [one for one in flow.measure_errors if measures and one.source in reached]
        self._transitions = [*possible, *errors]
        self._always = [*transitions, *errors] if always else None
        self.known = known
        self._budgets = caps_of(flow, known)
        charged = dict.fromkeys(name for one in nested for name, *_ in one.charges)
        names = {**charged, **self._budgets, **dict.fromkeys(("fan_out", "restarts", "nested_runs"))}
        self._caps = {name: limit for name in names if isinstance(limit := known.get(name), int)}
        self._numbers = {name: polynomial.number(cap) for name, cap in self._caps.items()}
        spent = {name for one in transitions for name, _ in one.spends}
        self._spent = [name for name in (*self._caps, *measures) if name in spent]
        self._nodes = ends_of(flow, transitions)
        self._reached = ends_of(flow, self._transitions)
        self._possible, self._sure = Product(flow, known), Product(flow, known, sure=True)

    def bound_of_transitions(self) -> Bound:
        """Return the bound on the number of transitions."""
        return self.bound_of_weight(lambda _: _ONE, counts=lambda _: 1)

    def bound_by_lines(self) -> Bound:
        """Return a bound on the number of transitions that holds with anything left of the budgets."""
        if self._measures:
            return Bound(None, None)
        potentials = Potentials(lambda _: _ONE, self._numbers, self._spent, close=False)
        number, potential = self._value_of(potentials.of(self._nodes, self._transitions))
        return Bound(None, number, potential=potential)

    def bound_of_weight(self, weight: Weight, more: More = lambda _: _ZERO, *, counts: Counts | None) -> Bound:
        """Return the bound on the counts of transitions, plus `more`.

        `counts` says how much a sure move counts; it is `None` if no run may reach the bound, so that none is searched.
        """
        if self._measures:
            return self._measured_bound(weight, more)

        def most(move: CountedMove) -> int:
            return weight(move.transition).at(self._caps)

        few = len(self._spent) <= _BUDGETS
        # With many budgets, a search is long and seldom needed: most loops do not nest.
        searched = STATES if len(self._spent) <= _ORDERS else _FEW_STATES
        exact = close = False

        def is_enough(potential: Potential) -> bool:
            nonlocal exact, close
            exact = counts is not None and is_attained(self._sure, potential, counts, self._budgets, searched)
            close = exact or is_attained(self._possible, potential, most, self._budgets, searched)
            return close

        number, potential = self._number(weight, is_enough if few else lambda _: False)
        close = close or self._by_states
        states = None if close or self._possible.size() > STATES else self._possible.most(most)
        if states is not None and states[self._possible.begin] < number:
            number = states[self._possible.begin]
            potential = self._table(states)
        if counts is not None and few and not exact and self._sure.size() <= STATES:
            # A search of all states may find a run that reaches the number.
            exact = self._sure.most(counts)[self._sure.begin] == number
        form, value = self._form(weight, more(self._always or self._transitions), number if close else None)
        nodes = {*potential.lines} or {node for node, _, _ in potential.states}
        number += most_of(more, (one for one in self._transitions if one.source in nodes), self._caps)
        return Bound(form, number, exact, value, potential=potential)

    def _measured_bound(self, weight: Weight, more: More) -> Bound:
        """Return a bound whose closed form may have measures, and then no number."""
        caps = self._numbers | self._measures
        errors = {*self.flow.measure_errors}

        def counts(one: Transition) -> Polynomial:
            return _ZERO if one in errors else weight(one)

        again = polynomial.number(most_of(more, self._transitions, self._caps))
        typical = {**self._caps, **dict.fromkeys(self._measures, 10)}
        forms = [*self._forms(counts, more(self._always or self._transitions))]
        best, least = Bound(None, None), math.inf

        def counted(one: Transition) -> Polynomial:
            return polynomial.number(counts(one).at(self._caps))

        for lines in self._potentials(counted, caps, self._transitions):
            reached = [lines[node] for node in self._reached]
            if not all(part.is_number for line in reached for part in (line.base, *line.slopes.values())):
                # A loop resets the measure, so that the bound is no linear function of it.
                continue
            proved = lines[self.flow.start].at(caps) + again
            covering = [one for one in forms if polynomial.covers(one, self._caps, proved)]
            number = proved.at({}) if proved.is_number else None
            # With numbers in place of the limits, if none is linear in the measures.
            alone = proved if number is None else None
            form = min(covering, key=lambda one: (one.at(typical), len(str(one))), default=alone)
            if (number is not None or form is not None) and proved.at(typical) < least:
                least = proved.at(typical)
                potential = self._potential_of(lines)
                value = None if form is None or number is None else form.at(typical)
                best = Bound(None if form is None else str(form), number, value=value, potential=potential)
        return best

    def _potentials(
        self, weight: Weight, caps: Mapping[str, Polynomial], transitions: Sequence[Transition]
    ) -> Iterable[dict[str, Line]]:
        """Yield the candidate potentials of transitions; one of them gives the least bound."""
        if all(weight(one) == _ZERO for one in transitions):
            yield dict.fromkeys(self._nodes, Line())
            return
        cheap = sorted(self._spent, key=lambda name: self._caps.get(name, math.inf))
        several = False
        if len(cheap) > 1:
            for found in find_sloped_potentials(self._nodes, transitions, weight, caps):
                several = len(cheap) > _ORDERS
                yield found
        if several:
            return
        if len(cheap) > _BUDGETS:
            yield Potentials(weight, caps, cheap, close=False).of(self._nodes, transitions)
            return
        is_large = len(transitions) > _LARGE
        ways = [(True, True)] if is_large else [*itertools.product((False, True), repeat=2)]
        for name in (cheap or [""])[: 1 if is_large else None]:
            order = [name, *(one for one in cheap if one != name)]
            for full, close in ways:
                with suppress(TooManyTermsError):
                    yield Potentials(weight, caps, order, full=full, close=close).of(self._nodes, transitions)

    def _number(
        self, weight: Weight, is_enough: Callable[[Potential], bool] = lambda _: False
    ) -> tuple[int, Potential]:
        """Return the least number found, with the potential that proves it, the first that `is_enough`."""
        if self._by_states:
            states = self._possible.most(lambda move: weight(move.transition).at(self._caps))
            return states[self._possible.begin], self._table(states)

        def counted(one: Transition) -> Polynomial:
            return polynomial.number(weight(one).at(self._caps))

        least: tuple[int, Potential] | None = None
        for found in map(self._value_of, self._potentials(counted, self._numbers, self._transitions)):
            if least is None or found[0] < least[0]:
                least = found
                if is_enough(found[1]):
                    break
        assert least is not None, "there is a potential"
        return least

    def _value_of(self, lines: Mapping[str, Line]) -> tuple[int, Potential]:
        """Return the number that lines of numbers prove, and the lines as a certificate has them."""
        return lines[self.flow.start].at(self._numbers).at({}), self._potential_of(lines)

    def _potential_of(self, lines: Mapping[str, Line]) -> Potential:
        return Potential({node: to_numbers(lines[node]) for node in self._reached})

    def _table(self, states: Mapping[State, int]) -> Potential:
        values = tuple((node, left, value) for (node, left), value in states.items())
        return Potential({}, (), self._possible.counters, values)

    def _form(self, weight: Weight, more: Polynomial, least: int | None = None) -> tuple[str | None, int | None]:
        """Return the closed form with the least value, and its value; `None` if there are too many terms.

        If the `least` possible value (without `more`) is known, the first form with this value is taken.
        """
        forms: list[Polynomial] = []
        for form in self._forms(weight, more):
            forms.append(form)
            if (form - more).at(self._caps) == least:
                break
        best = min(forms, key=lambda one: (one.at(self._caps), len(str(one))), default=None)
        return (None, None) if best is None else (str(best), best.at(self._caps))

    def _forms(self, weight: Weight, more: Polynomial) -> Iterator[Polynomial]:
        """Yield closed forms of the counts of transitions, plus `more`, if they end always."""
        transitions = self._always
        if transitions is None:
            return
        caps = {name: polynomial.name(name) for name in self._caps} | self._measures
        many = len(self._spent) > _BUDGETS
        candidates = find_sloped_potentials(self._nodes, transitions, weight, caps) if many else None
        for found in candidates or self._potentials(weight, caps, transitions):
            yield more + found[self.flow.start].at(caps)

    def bound_of_charges(self, name: str) -> Bound:
        """Return the lower of two bounds on the charges of the machine's own effects: the flow's and the limit's."""
        limited, bound = self.bound_of_limit(name), self._bound_of_flow(name)
        return min((bound, limited), key=number_of) if limited is not None else bound

    def _bound_of_flow(self, name: str) -> Bound:
        """Return the bound that the flow gives on the charges of the machine's own effects."""
        charging = [one for one in self._always or self._transitions if one.calls(name) != 0]
        if not charging:
            # Other limits may make other transitions possible.
            nothing = NOTHING if self._always is not None else Bound(None, 0, exact=True)
            return dataclasses.replace(nothing, potential=Potential(dict.fromkeys(self._reached, (0, ()))))
        if not all(is_bounded(one, self.known) for one in charging):
            return Bound(None, None)

        # The searched runs never crash and repeat charges, and a visit that asks for more than is left is refused.
        sure = not self.known["restarts"] and not is_limited(self.flow, name, self.known)

        def weight(one: Transition) -> Polynomial:
            # Transitions without a bound are part of no run.
            return most_charged(one, name) if is_bounded(one, self.known) else _ZERO

        again = partial(charged_again, name, known=self.known)
        return self.bound_of_weight(
            weight, again, counts=(lambda move: dict(move.charged).get(name, 0)) if sure else None
        )

    def bound_of_limit(self, name: str) -> Bound | None:
        """Return the bound that limits give, on the meter or on what bounds it, plus reserved visits."""
        is_charged = name in self.flow.charged
        ways: list[Charges] = [(one,) for one in (self.flow.factors(name) if is_charged else {name: 1}).items()]
        if is_charged and (quotas := tuple(self.flow.quotas_of(name).items())):
            ways.append(quotas)
        bounding = [way for way in ways if all(other in self._caps for other, _ in way)]
        if not bounding:
            return None
        # Among equal limits, the first is the meter's own.
        called = min(bounding, key=lambda way: sum(self._caps[other] * factor for other, factor in way))
        reserved = [one for one in self._transitions if one.reserved]
        if self._measures and any(one.calls(name) != 0 for one in reserved):
            return None
        again = partial(charged_again, name, known=self.known)
        within = sum((polynomial.number(factor) * polynomial.name(other) for other, factor in called), _ZERO)

        def weight(one: Transition) -> Polynomial:
            return most_charged(one, name) if one.reserved else _ZERO

        number, potential = self._number(weight)
        form, value = self._form(weight, within + again(reserved))
        limited = dataclasses.replace(potential, limits=called)
        number += within.at(self._caps) + most_of(again, reserved, self._caps)
        return Bound(form, number, value=value, potential=limited)


def bounds_of(
    flow: Flow,
    transitions: Sequence[Transition],
    known: Known,
    nested: Sequence[NestedRuns] = (),
    *,
    always: bool = True,
    measures: Sequence[str] = (),
    anywhere: bool = False,
) -> Bounds:
    """Return the bounds of a flow whose possible `transitions` are proved to end under the `known` limits.

    The charges of `nested` runs are added. Closed forms exist only if the transitions end `always`: however high the
    limits are. If the proof counts the `measures` of nodes, what they bound has a closed form in their names, which
    stand for the measures of the first visits, and no number. If an outer run may stop it `anywhere`, there are bounds
    on the transitions of a nested run and of a resumed one, too.
    """
    bounds = _bounds(_Search(flow, transitions, known, nested, always=always, measures=measures))
    if not anywhere:
        return bounds
    within = bounds.transitions
    if not may_stop_anywhere(known):  # any deadline opens the same transitions as an outer limit
        known = {**known, "seconds": 1.0}
        within = _Search(flow, flow.variants, known, nested, always=always, measures=measures).bound_of_transitions()
    rest = _Search(flow.resumed, flow.resumed.variants, known, nested, always=False, measures=measures)
    return dataclasses.replace(bounds, transitions_when_nested=within, transitions_when_resumed=rest.bound_by_lines())


def ends_by_states(flow: Flow, known: Known) -> bool:
    """Return whether a search of the states proves that every run ends: they are few, and none repeats."""
    return Product(flow, known).is_finite(STATES)


def bounds_by_states(flow: Flow, known: Known, nested: Sequence[NestedRuns]) -> Bounds:
    """Return the bounds of a flow whose states under these limits are few and do not repeat."""
    return _bounds(_Search(flow, possible_transitions(flow, known), known, nested, always=False, by_states=True))


def _bounds(search: _Search) -> Bounds:
    flow, known, nested = search.flow, search.known, search.nested
    # A call that is cut off at the deadline may still clean up.
    beyond = flow.grace + GRACE
    end = None if (limit := known["seconds"]) is None else limit + beyond
    seconds = Bound(None, None) if end is None else Bound(f"seconds + {beyond:g}", end, value=end, assuming=TIMELY)
    alone = {name: search.bound_of_charges(name) for name in bounded_meters(flow, nested)}
    meters = {name: _with_nested_runs(search, name, alone) for name in alone}
    depth, runs = (bound_by_limit(name, known[name]) for name in ("depth", "nested_runs"))
    return Bounds(
        search.bound_of_transitions(), meters, seconds, depth, runs, alone, dict(_bounds_of_quotas(flow, known, alone))
    )


def _bounds_of_quotas(flow: Flow, known: Known, meters: Mapping[str, Bound]) -> Iterator[tuple[str, Bound]]:
    for name in flow.lasting_quotas:
        quota = bound_by_limit(name, known[name])
        charges = (dict(kind) for one in flow.transitions for kind in one.effect_charges)
        charged = {meter for kind in charges if name in kind for meter in kind}
        if all(number_of(quota) < number_of(meters[meter]) for meter in charged if meter in meters):
            yield name, quota


def _with_nested_runs(search: _Search, name: str, alone: Mapping[str, Bound]) -> Bound:
    """Return the bound on charges including nested runs; `alone` has the bounds on the machine's own effects."""
    own = alone[name]
    rows = [(one, counts) for one in search.nested for meter, *counts in one.charges if meter == name]
    runs = 0 if search.known["depth"] == 0 else search.known["nested_runs"]
    if not rows or runs == 0 or is_limit_of(own, name):
        return own
    if own.number is None:
        # A closed form of the machine's own charges does not include nested runs.
        return Bound(None, None)
    found: list[tuple[float, str | None]] = []
    most = [one for _, (one, _) in rows if one is not None]
    if runs is not None and len(most) == len(rows):
        before = "" if own.form == "0" else f"{own.form} + "
        written = own.form is not None and len(str(polynomial.number(max(most)))) <= _DIGITS
        found.append((runs * max(most), f"{before}{polynomial.number(max(most))}*nested_runs" if written else None))
    numbers = {meter: bound.number for meter, bound in alone.items()}
    started = [(search.flow.most_calls(one.meter, numbers), one.attempts, whole) for one, (_, whole) in rows]
    charged = [calls * times * whole for calls, times, whole in started if calls is not None and whole is not None]
    if len(charged) == len(rows):
        found.append((sum(charged), None))
    limited = search.bound_of_limit(name)
    # Only a limit on the meter itself also limits nested runs.
    shared = limited if limited is not None and is_limit_of(limited, name) else Bound(None, None)
    if not found:
        return shared
    more, form = min(found, key=lambda one: one[0])
    if not more:
        return own
    value = None if form is None or own.value is None else own.value + more
    total = dataclasses.replace(own, form=form, number=own.number + more, value=value, exact=False)
    return min(shared, total, key=number_of)
