"""Potentials with one slope for each budget: what a unit left is worth is the same wherever it may be spent.

Budgets are taken one after the other. The slope of a budget is the most that a round counts between two transitions
that spend it, on ways that spend only budgets with a slope already, each of which pays for its own rounds. An edge that
resets a budget costs a full one. Then no loop counts anything, and the longest path from a node is its base. The bound
is a sum over the budgets, so it is lower than a product of nested loops wherever nothing resets an inner budget.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from graphexec.kernel.node import END
from graphexec.verify.proof import polynomial
from graphexec.verify.proof.flow import Transition
from graphexec.verify.proof.polynomial import Polynomial
from graphexec.verify.proof.potential import Line, Weight, has_too_many_terms

# Any: whole numbers, or polynomials if a loop resets a budget whose limit is a name.
_Amount: TypeAlias = Any
# A transition as its source, its target, and what it counts beyond what its budgets pay for.
_Step: TypeAlias = tuple[str, str, _Amount]


def sloped_potentials(
    nodes: Sequence[str], transitions: Sequence[Transition], weight: Weight, caps: Mapping[str, Polynomial]
) -> Iterator[dict[str, Line]]:
    """Yield potentials for two orders of the budgets; none for loops that need slopes of their own."""
    resets = [name for one in transitions for name in one.resets if name in caps]
    spent = [name for name in caps if any(name in dict(one.spends) for one in transitions)]
    # A budget that a loop resets comes before those which the loop spends; names of embedded budgets have a dot each.
    inner = sorted({*resets} & {*spent}, key=lambda name: (-name.count("."), name))
    outer = [name for name in spent if name not in inner]
    # Whole numbers are faster; in a closed form, only what a reset costs and a fan-out have names.
    numbers = all(weight(one).is_number for one in transitions) and (
        not inner or all(cap.is_number for cap in caps.values())
    )
    for order in (outer, outer[::-1])[: 2 if len(outer) > 1 else 1]:
        found = _find(nodes, transitions, weight, caps, [*inner, *order], numbers=numbers)
        if found is not None:
            yield found


def _find(
    nodes: Sequence[str],
    transitions: Sequence[Transition],
    weight: Weight,
    caps: Mapping[str, Polynomial],
    order: Sequence[str],
    *,
    numbers: bool,
) -> dict[str, Line] | None:
    lift: Callable[[int], _Amount] = (lambda value: value) if numbers else polynomial.number
    larger: Callable[[_Amount, _Amount], _Amount] = max if numbers else Polynomial.or_more
    zero = lift(0)
    slopes: dict[str, _Amount] = {}
    live = {name: _live_nodes(name, transitions) for name in order}
    plain = [(one, weight(one).at({}) if numbers else weight(one), dict(one.spends)) for one in transitions]

    def weigh(one: Transition, counted: _Amount, spends: Mapping[str, int]) -> _Step:
        """Return a transition with what it counts beyond what it spends, and what its resets cost."""
        for name, slope in slopes.items():
            if name in one.resets:
                if one.target in live[name]:
                    counted = counted + slope * (caps[name].at({}) if numbers else caps[name])
            elif name in spends:
                counted = counted - slope * lift(spends[name])
        return one.source, one.target, counted

    def is_settled(one: Transition, spends: Mapping[str, int]) -> bool:
        return all(name in slopes or name not in caps for name in (*spends, *one.resets))

    for name in order:
        within = [weigh(*each) for each in plain if is_settled(each[0], each[2])]
        slopes[name] = zero
        spending = [weigh(*each) for each in plain if name in each[2] and is_settled(each[0], each[2])]
        rounds = _longest(nodes, within, spending, larger)
        if rounds is None:
            return None
        for _, target, _ in spending:
            if target in rounds:
                slopes[name] = larger(slopes[name], rounds[target])
        if not numbers and has_too_many_terms(slopes[name]):
            return None
    steps = [weigh(*each) for each in plain]
    inside = [step for step in steps if step[1] != END.name]
    bases = _longest(nodes, inside, [step for step in steps if step[1] == END.name], larger)
    if bases is None or any(node not in bases for node in nodes):
        return None
    to_polynomial: Callable[[_Amount], Polynomial] = polynomial.number if numbers else (lambda value: value)
    known = {name: to_polynomial(slope) for name, slope in slopes.items() if slope != zero}
    return {
        node: Line(to_polynomial(bases[node]), {name: slope for name, slope in known.items() if node in live[name]})
        for node in nodes
    }


def _live_nodes(name: str, transitions: Sequence[Transition]) -> set[str]:
    """Return the nodes from which a run may spend a budget before an edge resets it: elsewhere, it is worth nothing."""
    found = {one.source for one in transitions if name in dict(one.spends)}
    before: dict[str, set[str]] = {}
    for one in transitions:
        if name not in one.resets:
            before.setdefault(one.target, set()).add(one.source)
    pending = list(found)
    while pending:
        for source in before.get(pending.pop(), ()):
            if source not in found:
                found.add(source)
                pending.append(source)
    return found


def _longest(
    nodes: Sequence[str],
    steps: Iterable[_Step],
    last: Iterable[_Step],
    larger: Callable[[_Amount, _Amount], _Amount],
) -> dict[str, _Amount] | None:
    """Return the most that a way of `steps`, ended by one of `last`, counts; `None` if a loop counts something."""
    found: dict[str, _Amount] = {}
    for source, _, counted in last:
        found[source] = larger(found[source], counted) if source in found else counted
    pending = list(steps)
    # Most tables list nodes in the order of a run.
    pending.reverse()
    for _ in range(len(nodes) + 1):
        changed = False
        for source, target, counted in pending:
            if target not in found:
                continue
            way = counted + found[target]
            old = found.get(source)
            if old is not None:
                way = larger(old, way)
            if old != way:
                found[source] = way
                changed = True
        if not changed:
            return found
    return None
