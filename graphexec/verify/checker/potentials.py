"""The independent checker of potentials: no transition counts more than the potential falls. Imports no prover."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from graphexec.kernel.meters import is_count, is_measure
from graphexec.kernel.node import END
from graphexec.verify.proof.certificate import Certificate, Line, Potential
from graphexec.verify.proof.flow import Transition, is_timely

# Transitions that runs may take, each with its count.
Possible: TypeAlias = Sequence[tuple[Transition, int]]


def highest_line(
    certificate: Certificate, potential: Potential, possible: Possible, caps: Mapping[str, int]
) -> int | str:
    """Return the potential at the start, or a message if a potential is too low. Caps of measures do not count."""
    lines = potential.lines
    if any(slope < 0 for _, slopes in lines.values() for _, slope in slopes):
        return "a potential has a negative slope"
    for one, weight in possible:
        there = (0, ()) if one.target == END.name else lines.get(one.target)
        if there is None or _gain(one, lines[one.source], there, caps) + weight > 0:
            return f"{one} counts more than the potential falls"
    if certificate.flow.start not in lines:
        return f"{certificate.flow.start} has no potential"
    base, slopes = lines[certificate.flow.start]
    return base + sum(slope * caps[name] for name, slope in slopes if not is_measure(name))


def _gain(one: Transition, here: Line, there: Line, caps: Mapping[str, int]) -> float:
    """Return the most by which a transition can raise the potential."""
    spent, before, after = dict(one.spends), dict(here[1]), dict(there[1])
    gain: float = there[0] - here[0]
    for name, cap in caps.items():
        amount, slope = spent.get(name, 0), after.get(name, 0)
        if is_measure(name) and (slope > before.get(name, 0) or (slope and name in one.resets)):
            # Any amount may be left, so that the gain has no limit.
            return math.inf
        # The gain is linear in the amount left, so its maximum is at one end.
        gain += max(
            slope * (cap if name in one.resets else left - amount) - before.get(name, 0) * left
            for left in ((amount,) if is_measure(name) else (amount, cap))
        )
    return gain


def highest_state(
    certificate: Certificate, potential: Potential, possible: Possible, caps: Mapping[str, int]
) -> int | str:
    """Return the potential at the start, or a message if a potential is too low."""
    values = {(node, left): value for node, left, value in potential.states}
    place = {name: index for index, name in enumerate(potential.counters)}
    if any(len(left) != len(potential.counters) for _, left in values):
        return "a state does not have a value for each counter"
    rows: dict[str, list[tuple[Transition, int]]] = {}
    for one, weight in possible:
        rows.setdefault(one.source, []).append((one, weight))
    limited = {name for name, limit in certificate.limits.items() if limit is not None}
    for (node, left), value in values.items():
        for one, weight in rows.get(node, ()):
            # The gate stays closed while every limit that opens it has something left.
            if one.kind == "gate" and all(name in place and left[place[name]] for name in limited & {*one.causes}):
                continue
            after = list(left)
            for name, amount in one.spends:
                if name in place and not one.reserved:
                    after[place[name]] -= amount
            if min(after, default=0) < 0:
                continue
            for name in one.resets:
                if name in place:
                    after[place[name]] = caps[name]
            behind = 0 if one.target == END.name else values.get((one.target, tuple(after)))
            if behind is None or weight + behind > value:
                return f"{one} counts more than the potential falls"
    most = values.get((certificate.flow.start, tuple(caps[name] for name in potential.counters)))
    return "its potential does not reach the start" if most is None else most


def count_charges(certificate: Certificate, one: Transition, meter: str, potential: Potential) -> int | None:
    """Return the most that a transition charges, or `None`; charges that a limit bounds are left out."""
    largest = one.largest(meter)
    if not largest or (potential.limits and not one.reserved):
        return 0
    most = certificate.limits.get("fan_out") if one.most is None else one.most
    return None if most is None else largest * int(most)


def is_possible(certificate: Certificate, one: Transition) -> bool:
    """Return whether a run within the limits may take a transition."""
    limits = certificate.limits
    if one.kind != "move" and not any(limits.get(cause) is not None for cause in one.causes):
        return False
    fan_out = limits.get("fan_out")
    too_many = one.most is None and fan_out is not None and one.asks > fan_out
    if too_many or not is_timely(one, limits.get("seconds")):
        return False
    return not any(is_count(cap := limits.get(name), whole=True) and amount > cap for name, amount in one.spends)
