"""The bounds of runs: closed forms in the limits' names, and the numbers for given limits with what proves them."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from graphexec.kernel.effects import NestedRuns
from graphexec.kernel.meters import GRACE, Limits
from graphexec.kernel.node import END
from graphexec.verify.proof import polynomial
from graphexec.verify.proof.certificate import NOTHING, TIMELY, Bound, Bounds, Potential
from graphexec.verify.proof.flow import Flow, Transition, bounded_meters, caps_of, limits_of, possible_transitions
from graphexec.verify.proof.polynomial import Polynomial
from graphexec.verify.proof.potential import Line, Potentials, Weight
from graphexec.verify.proof.product import Product, is_attained

# States of the product that are looked at where lines are not close to what runs count.
_STATES = 2_000

# Budgets up to which each is tried as the one that bounds the loops, and has its name in a closed form.
_BUDGETS = 6

# The digits of what a run within charges, where it is written into a closed form.
_DIGITS = 20

_ZERO = polynomial.number(0)
_ONE = polynomial.number(1)
_FAN_OUT = polynomial.name("fan_out")
_RESTARTS = polynomial.name("restarts")


def bounds_of(
    flow: Flow,
    transitions: Sequence[Transition],
    limits: Limits,
    nested: NestedRuns | None = None,
    *,
    always: bool = True,
) -> Bounds:
    """The bounds of a flow whose possible `transitions` are proved to end under `limits`.

    What `nested` runs charge is added to them. There are closed forms where these end `always`, however high the limits
    that are set.
    """
    prover = _Prover(flow, transitions, limits, nested, always=always)
    # What is cut at the deadline may still clean up.
    beyond = flow.grace + GRACE
    end = None if limits.seconds is None else limits.seconds + beyond
    seconds = Bound(None, None) if end is None else Bound(f"seconds + {beyond:g}", end, value=end, assuming=TIMELY)
    alone = {name: prover.bound_of_charges(name) for name in bounded_meters(flow, nested)}
    meters = alone if nested is None else {name: prover.with_nested_runs(name, alone, nested) for name in alone}
    depth, runs = (_bound_of_runs(name, limit) for name, limit in _limits_of_runs(limits))
    own = {} if nested is None else alone
    return Bounds(prover.bound(lambda _: _ONE), meters, seconds, depth, runs, own)


def _limits_of_runs(limits: Limits) -> Iterable[tuple[str, int | None]]:
    return ("depth", limits.depth), ("nested_runs", limits.nested_runs)


def _bound_of_runs(name: str, limit: int | None) -> Bound:
    return Bound(None, None) if limit is None else Bound(name, limit, value=limit)


def _number(bound: Bound) -> float:
    return math.inf if bound.number is None else bound.number


def _is_limit_of(bound: Bound, name: str) -> bool:
    """Return whether it is the limit on the meter itself that bounds it."""
    return bound.potential is not None and bound.potential.limit is not None and bound.potential.limit[0] == name


class _Prover:
    """Finds the bounds of a flow's `transitions`."""

    def __init__(
        self,
        flow: Flow,
        transitions: Sequence[Transition],
        limits: Limits,
        nested: NestedRuns | None,
        *,
        always: bool,
    ) -> None:
        self._flow = flow
        self._transitions = possible_transitions(flow, limits)
        self._always = transitions if always else None
        self._limits = limits
        self._budgets = caps_of(flow, limits)
        charged: dict[str, Any] = {} if nested is None else {name: limits[name] for name, *_ in nested.charges}
        whole = {name: limit for name, limit in charged.items() if isinstance(limit, int)}
        uncounted = {name: getattr(limits, name) for name in ("fan_out", "restarts", "nested_runs")}
        caps: dict[str, int | None] = {**whole, **self._budgets, **uncounted}
        self._caps: Mapping[str, int] = {name: limit for name, limit in caps.items() if limit is not None}
        spent = {name for one in transitions for name, _ in one.spends}
        self._spent = [name for name in self._caps if name in spent]
        self._nodes = _ends_of(flow, transitions)
        self._reached = _ends_of(flow, self._transitions)
        self._possible, self._sure = Product(flow, limits), Product(flow, limits, sure=True)

    def bound(self, weight: Weight, more: Polynomial = _ZERO, *, charges: bool | None = None) -> Bound:
        """Return the bound on what transitions count, or on `charges`; `more` is added.

        Where it is known that no run need count as much (`charges` is false), none is searched for.
        """

        def most(one: Transition) -> int:
            return weight(one).at(self._caps)

        def least(one: Transition) -> int:
            # A visit that a limit stops may have asked for nothing.
            return 0 if charges is not None and one.kind == "within" else most(one)

        number, potential = self._number(weight)
        few = len(self._spent) <= _BUDGETS
        close = few and is_attained(self._possible, potential, most, self._budgets)
        states = None if close or self._possible.size() > _STATES else self._possible.most(most)
        if states is not None and states[self._possible.begin] < number:
            number = states[self._possible.begin]
            table = tuple((node, left, value) for (node, left), value in states.items() if node != END.name)
            potential = Potential({}, None, self._possible.counters, table)
        exact = charges is not False and few and self._is_sure(number, potential, least)
        form, value = self._form(weight, more)
        return Bound(form, number + more.at(self._caps), exact, value, potential=potential)

    def _is_sure(self, number: int, potential: Potential, weight: Callable[[Transition], int]) -> bool:
        """Return whether there is sure to be a run that counts as much as is proved to be the most."""
        if potential.lines and is_attained(self._sure, potential, weight, self._budgets):
            return True
        return self._sure.size() <= _STATES and self._sure.most(weight)[self._sure.begin] == number

    def _potentials(
        self, weight: Weight, caps: Mapping[str, Polynomial], transitions: Sequence[Transition]
    ) -> Iterable[dict[str, Line]]:
        """Yield the potentials of transitions by which a bound may be the least."""
        cheap = sorted(self._spent, key=self._caps.__getitem__)
        if len(cheap) > _BUDGETS:
            yield Potentials(weight, caps, cheap, close=False).of(self._nodes, transitions)
            return
        for name in cheap or [""]:
            order = [name, *(one for one in cheap if one != name)]
            for full, close in itertools.product((False, True), repeat=2):
                yield Potentials(weight, caps, order, full=full, close=close).of(self._nodes, transitions)

    def _number(self, weight: Weight) -> tuple[int, Potential]:
        """Return the least number that is found by lines, and these."""
        caps = {name: polynomial.number(cap) for name, cap in self._caps.items()}

        def counted(one: Transition) -> Polynomial:
            return polynomial.number(weight(one).at(self._caps))

        start = self._flow.start
        lines = min(self._potentials(counted, caps, self._transitions), key=lambda found: found[start].at(caps).at({}))
        potential = Potential({node: _numbers(lines[node]) for node in self._reached})
        return lines[start].at(caps).at({}), potential

    def _form(self, weight: Weight, more: Polynomial) -> tuple[str | None, int | None]:
        """Return the closed form with the least value, and its value; none of a machine with many budgets."""
        if self._always is None or len(self._spent) > _BUDGETS:
            return None, None
        caps = {name: polynomial.name(name) for name in self._caps}
        forms = [more + found[self._flow.start].at(caps) for found in self._potentials(weight, caps, self._always)]
        form = min(forms, key=lambda one: (one.at(self._caps), len(str(one))))
        return str(form), form.at(self._caps)

    def bound_of_charges(self, name: str) -> Bound:
        """Return the bound on what the machine's own effects charge, by the flow or by a limit, whichever is less."""
        limited, bound = self._bound_of_limit(name), self._bound_of_flow(name)
        return min((bound, limited), key=_number) if limited is not None else bound

    def with_nested_runs(self, name: str, alone: Mapping[str, Bound], nested: NestedRuns) -> Bound:
        """Return the bound on what is charged with the runs within it; `alone` are those on the machine's own."""
        own = alone[name]
        rows = [counts for meter, *counts in nested.charges if meter == name]
        if own.number is None or not rows or _is_limit_of(own, name):
            return own
        one, whole = rows[0]
        calls = alone[nested.meter].number if nested.meter in alone else 0
        runs = self._limits.nested_runs
        found: list[tuple[float, str | None]] = []
        if runs is not None and one is not None:
            before = "" if own.form == "0" else f"{own.form} + "
            written = own.form is not None and len(str(polynomial.number(one))) <= _DIGITS
            found.append((runs * one, f"{before}{polynomial.number(one)}*nested_runs" if written else None))
        if calls is not None and whole is not None:
            found.append((calls * nested.attempts * whole, None))
        limited = self._bound_of_limit(name)
        # Only a limit on the meter itself is one on what runs within it charge.
        shared = limited if limited is not None and _is_limit_of(limited, name) else Bound(None, None)
        if not found:
            return shared
        more, form = min(found, key=lambda one: one[0])
        if not more:
            return own
        value = None if form is None or own.value is None else own.value + more
        total = dataclasses.replace(own, form=form, number=own.number + more, value=value, exact=False)
        return min(shared, total, key=_number)

    def _bound_of_flow(self, name: str) -> Bound:
        """Return the bound on what the machine's own effects charge a meter."""
        charging = [one for one in self._always or self._transitions if one.calls(name) != 0]
        if not charging:
            return dataclasses.replace(NOTHING, potential=Potential(dict.fromkeys(self._reached, (0, ()))))
        if self._limits.fan_out is None and any(one.most is None for one in charging):
            return Bound(None, None)
        again = _charged_again(name, self._flow.transitions, self._limits)
        # A run that is taken up again asks again for what was not answered: of that the longest runs know nothing. And
        # a visit that asks for more than is left is refused: no run need come as far as a limit on the way.
        sure = not self._limits.restarts and not _is_limited(self._flow, name, self._limits)
        return self.bound(lambda one: _most(one, name), again, charges=sure)

    def _bound_of_limit(self, name: str) -> Bound | None:
        """Return the bound by a limit on the meter or on one that bounds it, with what is reserved."""
        charged = self._flow.factors(name) if name in self._flow.charged else {name: 1}
        bounding = {other: factor for other, factor in charged.items() if other in self._caps}
        if not bounding:
            return None
        # Of several that allow as much, its own.
        called = min(bounding, key=lambda other: self._caps[other] * bounding[other])
        reserved = [one for one in self._flow.transitions if one.reserved]
        more = polynomial.number(bounding[called]) * polynomial.name(called)
        more = more + _charged_again(name, reserved, self._limits)

        def weight(one: Transition) -> Polynomial:
            return _most(one, name) if one.reserved else _ZERO

        number, potential = self._number(weight)
        form, value = self._form(weight, more)
        limited = dataclasses.replace(potential, limit=(called, bounding[called]))
        return Bound(form, number + more.at(self._caps), value=value, potential=limited)


def _ends_of(flow: Flow, transitions: Sequence[Transition]) -> list[str]:
    """Return the start, and the nodes that transitions lead from and to."""
    ends = (name for one in transitions for name in (one.source, one.target) if name != END.name)
    return list(dict.fromkeys([flow.start, *ends]))


def _numbers(line: Line) -> tuple[int, tuple[tuple[str, int], ...]]:
    slopes = ((name, slope.at({})) for name, slope in line.slopes.items())
    return line.base.at({}), tuple((name, slope) for name, slope in slopes if slope)


def _is_limited(flow: Flow, name: str, limits: Limits) -> bool:
    """Return whether a limit may stop effects that charge the meter."""
    taken = {other for one in flow.transitions for kind in one.kinds if dict(kind).get(name) for other, _ in kind}
    known = limits_of(flow, limits)
    # What is only measured stops nothing as long as nothing is reported of it.
    return any(known.get(other) is not None and (other in flow.charged or not known[other]) for other in taken)


def _most(one: Transition, name: str) -> Polynomial:
    effects = _FAN_OUT if one.most is None else polynomial.number(one.most)
    return polynomial.number(one.largest(name)) * effects


def _charged_again(name: str, transitions: Iterable[Transition], limits: Limits) -> Polynomial:
    """Return the most that is charged again after crashes, of visits whose requests have a bound."""
    if not limits.restarts:
        return _ZERO
    bounded = (one for one in transitions if one.most is not None or limits.fan_out is not None)
    return _RESTARTS * (polynomial.most(_most(one, name) for one in bounded) or _ZERO)
