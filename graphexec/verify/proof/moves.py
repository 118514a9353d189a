"""The moves of a flow under given limits: its transitions in terms of counters, which are whole numbers.

A flow does not say how much more than the least a visit spends, or when a deadline passes. So there are moves that may
be possible, and moves that are `sure` to be possible.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from graphexec.verify.proof.flow import (
    Charges,
    Flow,
    Known,
    Transition,
    caps_of,
    is_enabled,
    is_timely,
    may_stop_anywhere,
)


@dataclass(frozen=True, slots=True)
class CountedMove:
    """A transition in terms of counters, by their index.

    It is possible if `spends` are left, if at least the `timely` amounts are left, and if one of the counters in
    `needs` is below its number (`None`: no condition). It then subtracts `spends`, lowers counters by `drains` (at most
    to 0), and sets the values in `sets`. In a sure move, `charged` is all that its effects charge, counted or not.
    """

    transition: Transition
    spends: tuple[tuple[int, int], ...]
    sets: tuple[tuple[int, int], ...]
    needs: tuple[tuple[int, int], ...] | None
    timely: tuple[tuple[int, int], ...] = ()
    drains: tuple[tuple[int, int], ...] = ()
    charged: Charges = ()

    def is_possible(self, left: tuple[int, ...]) -> bool:
        """Return whether the amounts left allow the move."""
        for index, least in (*self.spends, *self.timely):
            if left[index] < least:
                return False
        return self.needs is None or any(left[index] < below for index, below in self.needs)

    def after(self, left: tuple[int, ...]) -> tuple[int, ...]:
        """Return the amounts left after the move."""
        if not self.spends and not self.sets and not self.drains:
            return left
        counters = list(left)
        for index, amount in self.spends:
            counters[index] -= amount
        for index, amount in self.drains:
            counters[index] = max(0, counters[index] - amount)
        for index, value in self.sets:
            counters[index] = value
        return tuple(counters)


def moves_by_node(
    flow: Flow, known: Known, *, sure: bool
) -> tuple[Mapping[str, list[CountedMove]], tuple[str, ...], tuple[int, ...]]:
    """Return the moves from each node, the budgets that are counted, and what the counters hold at the start.

    The last counter may be that of the deadlines to come.

    In `sure` moves, visits spend the least or the most that they can, or all that is left before a limit stops them.
    The clock stands still until an effect takes all the time until a deadline.
    """
    caps = caps_of(flow, known)
    every = flow.transitions if sure else flow.variants
    transitions = [one for one in every if is_enabled(one, known) and is_timely(one, known["seconds"])]
    # A visit that must ask for more effects than the fan-out allows does not return.
    limited = {one.source for one in transitions if "fan_out" in one.causes and known["fan_out"] is not None}
    most = known["fan_out"] or 0
    transitions = [one for one in transitions if one.asks <= most or one.source not in limited]
    spending = [
        list(dict.fromkeys(_sure_spending(one, known))) if sure else [_Spending(one.spends)] for one in transitions
    ]
    counted = {name for several in spending for each in several for name, _ in each.spends}
    counts = {name: limit for name, limit in caps.items() if name in counted and limit is not None}
    place = {name: index for index, name in enumerate(counts)}
    # The distinct grace periods of nodes; the first is 0, for the run's own deadline.
    periods = {0.0, *(one.grace for one in transitions if one.grace is not None)}
    graces = sorted(periods) if sure and known["seconds"] is not None else []
    end = len(graces)
    rows: dict[str, list[CountedMove]] = {name: [] for name in flow.nodes}
    for one, several in zip(transitions, spending, strict=True):
        usual = (_needs_at_most if sure else _needs_at_least)(one, known, place)
        resets = tuple((place[name], counts[name]) for name in one.resets if name in place)
        row = rows[one.source]
        for each in several:
            spends = tuple((place[name], amount) for name, amount in each.spends if name in place)
            timely = tuple((place[name], 1) for name in each.compared if name in place)
            needs = _needs_of_next(each, place) if each.asked else usual
            # Reserved visits are counted, too, but need nothing left.
            move = (
                CountedMove(one, (), resets, needs, drains=spends, charged=each.charged)
                if one.reserved
                else CountedMove(one, spends, resets, needs, timely, charged=each.charged)
            )
            if graces:
                own = end - graces.index(one.grace or 0.0)
                clock = _Clock(*((len(place), value) for value in (end, own, end - 1, own - 1)))
                row.extend(_add_deadlines(move, clock, each.asked))
            else:
                row.append(move)
    # The number of deadlines that are still to come.
    ahead = (end - (known["seconds"] == 0),) if graces else ()
    return rows, tuple(counts), (*counts.values(), *ahead)


# Counters with numbers. A limit transition is possible if one of the counters is below its number: with `None` always,
# with an empty tuple never.
_Needs: TypeAlias = tuple[tuple[int, int], ...] | None


@dataclass(frozen=True, slots=True)
class _Spending:
    """The spending of a visit that has `asked` for so many effects.

    Something must be left of each meter that is only `compared`. If a limit stops the next effect, less than `wanted`
    must be left of one meter (`None`: any amounts).
    """

    spends: tuple[tuple[str, int], ...]
    compared: tuple[str, ...] = ()
    asked: int = 0
    charged: Charges = ()
    wanted: tuple[tuple[str, int], ...] | None = None


# Visits that ask until nothing is left are tried with up to so many effects.
_UNTIL_SPENT = 4


def _sure_spending(one: Transition, limits: Known) -> Iterator[_Spending]:
    asked = {name for kind in one.effect_charges for name, _ in kind}
    entry = tuple((name, amount) for name, amount in one.spends if name not in asked)
    usual = _usual_counts(one, limits) if one.kind == "move" else []
    if one.kind != "move" or 0 in usual or not one.effect_charges:
        yield _Spending(entry)
    for kind in one.effect_charges:
        for count in filter(None, usual):
            # All effects have one kind, or the last has another kind.
            for last in one.effect_charges if count > 1 else (kind,):
                yield from _spend_effects(one, entry, _sum_charges(kind, last, count), count, None, limits)
        for count in _counts_until_spent(one, kind, limits):
            if count not in usual:
                wanted = _charges_with_one_more(one, kind, count, limits)
                yield from _spend_effects(one, entry, _sum_charges(kind, kind, count), count, wanted, limits)


def _spend_effects(
    one: Transition,
    entry: Charges,
    charged: Mapping[str, int],
    count: int,
    wanted: Charges | None,
    limits: Known,
) -> Iterator[_Spending]:
    # A limit on fractions is above 0, and a meter that is only compared may stay at 0.
    limited = [name for name, amount in charged.items() if not amount and isinstance(limits.get(name), int)]
    compared = () if one.reserved else tuple(limited)
    if all(limits[name] for name in compared):
        charges = tuple((name, amount) for name, amount in charged.items() if amount)
        yield _Spending((*entry, *charges), compared, count, charges, wanted)


def _sum_charges(kind: Charges, last: Charges, count: int) -> dict[str, int]:
    """Return the total charges of `count` effects, of which the last may have another kind."""
    each, other = dict(kind), dict(last)
    return {name: each.get(name, 0) * (count - 1) + other.get(name, 0) for name in each | other}


def _usual_counts(one: Transition, limits: Known) -> list[int]:
    """Return the numbers of effects that are tried for a returning visit: the least and the most."""
    if one.most is not None:
        return sorted({one.asks, one.most})
    # If any number is allowed, up to two, because asking once and asking again make a difference.
    fan_out = limits.get("fan_out")
    ends = () if fan_out is None else (int(fan_out),)
    return sorted({one.asks, *range(max(1, one.asks), min([2, *ends]) + 1), *(end for end in ends if end >= one.asks)})


def _counts_until_spent(one: Transition, kind: Charges, limits: Known) -> Iterable[int]:
    """Return the numbers of effects of a kind that a visit may ask for until a limit is reached or one is cut off."""
    charged = () if one.reserved else kind
    ends = [int(limit // amount) for name, amount in charged if amount and (limit := limits.get(name)) is not None]
    if one.most is not None:
        ends.append(one.most if one.kind == "move" else max(1, one.most - 1))
    elif (fan_out := limits.get("fan_out")) is not None:
        ends.append(int(fan_out))
    return range(max(1, one.asks), min([_UNTIL_SPENT, *ends]) + 1)


def _charges_with_one_more(one: Transition, kind: Charges, asked: int, limits: Known) -> Charges | None:
    """Return the charges of such a visit with one more effect of the kind; empty if no limit stops it."""
    if one.kind == "within" and one.most is None and asked == limits.get("fan_out"):
        return None
    if one.reserved or asked == one.most:
        return ()
    return tuple((name, amount * (asked + 1)) for name, amount in kind if amount)


def _needs_of_next(spending: _Spending, place: Mapping[str, int]) -> _Needs:
    if spending.wanted is None:
        return None
    return tuple((place[name], amount) for name, amount in spending.wanted if name in place)


def _needs_at_least(one: Transition, limits: Known, place: Mapping[str, int]) -> _Needs:
    """Return the condition under which a transition may be possible: for a `gate` a counter at 0, otherwise none."""
    if one.kind != "gate" or may_stop_anywhere(limits):
        return None
    return tuple((place[name], 1) for name in one.causes if name in place)


def _needs_at_most(one: Transition, limits: Known, place: Mapping[str, int]) -> _Needs:
    """Return the condition under which a transition is surely possible without waiting."""
    if one.kind == "move":
        return None
    needed: list[tuple[int, int]] = []
    for name in one.causes:
        limit = limits.get(name)
        if limit is None or name in ("seconds", "restarts"):
            continue
        # The rest of a limit stops a visit below the most that it wants at once. Something must be left of the entry's
        # budgets, and of meters that are only compared.
        below = one.calls(name) if one.largest(name) else 1
        if name == "fan_out" or below is None or (name not in place and isinstance(limit, int) and limit < below):
            return None
        if name in place:
            needed.append((place[name], below))
    return tuple(needed)


class _Clock(NamedTuple):
    """Values of the counter of deadlines that are still to come, by its index: the run's own, then those of nodes.

    An effect of the node is answered in time or after the run's deadline, or the node's own deadline cuts it off.
    """

    # The least value before the run's deadline, and before the node's.
    in_time: tuple[int, int]
    open: tuple[int, int]
    # The value just after the run's deadline, and just after the node's.
    late: tuple[int, int]
    expired: tuple[int, int]


def _add_deadlines(plain: CountedMove, clock: _Clock, asked: int) -> Iterator[CountedMove]:
    """Yield the variants of a transition with `asked` effects: in time, and with an effect that takes until a deadline.

    After its own deadline a node cannot ask for effects, and after the run's deadline no entry that costs is possible.
    """
    one = plain.transition
    if one.kind == "gate":
        yield dataclasses.replace(plain, needs=(*(plain.needs or ()), clock.in_time))
        return
    # An entry that costs is not reserved, so the node's deadline is the run's.
    asks = (clock.open,) if one.is_paid or asked else ()
    yield dataclasses.replace(plain, timely=(*plain.timely, *asks))
    if one.kind == "within" and not asks:
        yield dataclasses.replace(plain, needs=(clock.open,))
    if asked and one.kind == "move":
        yield _wait(plain, clock.in_time, clock.late)
        if one.answered and clock.expired != clock.late:
            yield _wait(plain, clock.open, clock.expired)
    # One effect is cut off like several. With a reply for the cut, the node is left only when it asks again.
    elif asked == 1 and not (one.answered and one.most == 1):
        yield _wait(plain, clock.open, clock.expired)


def _wait(plain: CountedMove, before: tuple[int, int], end: tuple[int, int]) -> CountedMove:
    """Return the transition with a start while the clock is at least `before`, and with `end` as its end."""
    return dataclasses.replace(plain, sets=(*plain.sets, end), needs=None, timely=(*plain.timely, before))
