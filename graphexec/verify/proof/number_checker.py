"""The independent checker of a certificate's numbers: it adds up, and does not know how the potentials were found.

It imports nothing of the prover. What it believes is this file, and the flow that is made of the table.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from graphexec.errors import format_number
from graphexec.kernel.effects import NestedRuns
from graphexec.kernel.meters import GRACE
from graphexec.kernel.node import END
from graphexec.verify.proof.certificate import Bound, Certificate, Line, Potential
from graphexec.verify.proof.flow import Transition, bounded_meters

# Transitions that runs may take, with what each counts.
Possible: TypeAlias = Sequence[tuple[Transition, float]]

# Of a meter that nothing in the machine charges.
_NO_CALLS = Bound(None, 0)


def unproved_numbers(certificate: Certificate) -> Iterator[str]:
    """Yield why a number of the bounds is not proved, one fault for each; nothing where all are.

    The closed forms are compared with their values. That a run reaches a number (`exact`) is not checked.
    """
    flow, bounds = certificate.flow, certificate.bounds
    names = bounded_meters(flow, certificate.nested)
    if {*bounds.meters} != {*names}:
        yield f"the meters that it bounds are not those of its flow, {', '.join(names) or 'which has none'}"
        return
    for name, bound in (("depth", bounds.depth), ("nested_runs", bounds.nested_runs)):
        limit = certificate.limits.get(name)
        if (bound.number, bound.value, bound.exact) != (limit, limit, False):
            yield f"the bound on {name.replace('_', ' ')} is not its limit"
    seconds = certificate.limits.get("seconds")
    end = math.inf if seconds is None else seconds + flow.grace + GRACE
    if bounds.seconds.number is not None and not (_is_number(bounds.seconds.number) and bounds.seconds.number >= end):
        yield f"the seconds of a run can be {end:g}, and {bounds.seconds.number} are bounded"
    own = bounds.meters if certificate.nested is None else bounds.alone
    if {*own} != {*names}:
        yield "the bounds on its own effects are not of the meters that it bounds"
        return
    for meter, bound in ((None, bounds.transitions), *own.items()):
        fault = None if bound.number is None and meter is not None else _fault(certificate, meter, bound)
        if fault is not None:
            yield f"the bound on {(meter or 'transitions').replace('_', ' ')} is not proved: {fault}"
    if certificate.nested is None:
        return
    for name in names:
        fault = _nested_fault(certificate, name, certificate.nested)
        if fault is not None:
            yield f"the bound on {name.replace('_', ' ')} with the runs within it is not proved: {fault}"


def _fault(certificate: Certificate, name: str | None, bound: Bound) -> str | None:
    """Return why a number is not proved: of transitions, or of what the machine's own effects charge a meter."""
    most = _own(certificate, name, bound)
    if isinstance(most, str):
        return most
    if most == math.inf:
        return "its potential does not reach the start, or its limit does not bound it"
    if bound.number != most:
        return f"the potential proves {format_number(most)}, and it says {format_number(bound.number or 0)}"
    return _form_fault(certificate, bound)


def _nested_fault(certificate: Certificate, name: str, nested: NestedRuns) -> str | None:
    """Return why the number of a meter is not proved, of which the machine's own part is."""
    bound, own = certificate.bounds.meters[name], certificate.bounds.alone[name]
    if bound.number is None:
        return None
    limit = None if bound.potential is None else bound.potential.limit
    if limit is not None and limit[0] == name:
        return _fault(certificate, name, bound)
    rows = [counts for meter, *counts in nested.charges if meter == name]
    alone, whole = (math.inf if count is None else count for count in (rows[0] if rows else (0, 0)))
    runs, calls = certificate.limits.get("nested_runs"), certificate.bounds.alone.get(nested.meter, _NO_CALLS).number
    more = min(
        0 if not alone else math.inf if runs is None else runs * alone,
        0 if not whole else math.inf if calls is None else calls * nested.attempts * whole,
    )
    most = math.inf if own.number is None else own.number + more
    if bound.number != most or bound.exact > (own.exact and not more):
        return f"it is {format_number(most)} at most, and it says {format_number(bound.number)}"
    return _form_fault(certificate, bound)


def _own(certificate: Certificate, name: str | None, bound: Bound) -> float | str:
    """Return the number that a potential proves of the machine's own charges, or why it proves none."""
    flow, potential = certificate.flow, bound.potential
    if potential is None or not _is_whole(bound.number):
        return "it has no potential, or is no whole number"
    names = {*potential.counters, *(name for _, slopes in potential.lines.values() for name, _ in slopes)}
    caps = {name: certificate.limits.get(name) for name in names}
    weights = [1 if name is None else _weight(certificate, one, name, potential) for one in flow.transitions]
    possible = [
        (one, weight) for one, weight in zip(flow.transitions, weights, strict=True) if is_possible(certificate, one)
    ]
    if any(weight == math.inf for _, weight in possible) or not all(map(_is_whole, caps.values())):
        return "it is made of something that has no limit"
    check = _highest_state if potential.states else _highest_line
    most = check(certificate, potential, possible, {name: int(cap or 0) for name, cap in caps.items()})
    if isinstance(most, str):
        return most
    if name is None:
        return most
    # Each crash may have what one visit asks for asked for again.
    largest = max((weight for weight in weights if weight < math.inf), default=0)
    return most + _beside(certificate, name, potential) + (certificate.limits.get("restarts") or 0) * largest


def _highest_line(
    certificate: Certificate, potential: Potential, possible: Possible, caps: Mapping[str, int]
) -> float | str:
    """Return the potential at the start, or why one is too low."""
    lines = potential.lines
    if any(slope < 0 for _, slopes in lines.values() for _, slope in slopes):
        return "a potential rises when more is spent"
    for one, weight in possible:
        if one.source not in lines:
            continue
        there = (0, ()) if one.target == END.name else lines.get(one.target)
        if there is None or _gain(one, lines[one.source], there, caps) + weight > 0:
            return f"{one} counts more than its potential falls by"
    if certificate.flow.start not in lines:
        return f"{certificate.flow.start} has no potential"
    base, slopes = lines[certificate.flow.start]
    return base + sum(slope * caps[name] for name, slope in slopes)


def _gain(one: Transition, here: Line, there: Line, caps: Mapping[str, int]) -> float:
    """Return the most by which the potential behind a transition is above that before it."""
    spent, before, after = dict(one.spends), dict(here[1]), dict(there[1])
    gain: float = there[0] - here[0]
    for name, cap in caps.items():
        amount, slope = spent.get(name, 0), after.get(name, 0)
        # Linear in what is left, so the most is at one end.
        gain += max(
            slope * (cap if name in one.resets else left - amount) - before.get(name, 0) * left
            for left in (amount, cap)
        )
    return gain


def _highest_state(
    certificate: Certificate, potential: Potential, possible: Possible, caps: Mapping[str, int]
) -> float | str:
    """Return the potential at the start, or why one is too low; whoever has spent more can do no more from there on."""
    values = {(node, left): value for node, left, value in potential.states}
    place = {name: index for index, name in enumerate(potential.counters)}
    rows: dict[str, list[tuple[Transition, float]]] = {}
    for one, weight in possible:
        rows.setdefault(one.source, []).append((one, weight))
    timed = any(certificate.limits.get(name) is not None for name in ("seconds", "restarts"))
    for (node, left), value in values.items():
        for one, weight in rows.get(node, ()):
            if one.kind == "gate" and not timed and all(left[place[name]] for name in one.causes if name in place):
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
            behind = 0 if one.target == END.name else values.get((one.target, tuple(after)), math.inf)
            if weight + behind > value:
                return f"{one} counts more than its potential falls by"
    return values.get((certificate.flow.start, tuple(caps[name] for name in potential.counters)), math.inf)


def _form_fault(certificate: Certificate, bound: Bound) -> str | None:
    """Return why a closed form has not the value that is given with it, or that is too low."""
    if bound.form is None:
        return None if bound.value is None else "it has the value of no closed form"
    total: float = 0
    for term in bound.form.replace("- ", "-").replace("+ ", "").split(" "):
        product: float = -1 if term.startswith("-") else 1
        for factor in term.removeprefix("-").split("*"):
            limit = int(factor) if factor.isdecimal() else certificate.limits.get(factor)
            if not _is_whole(limit):
                return f"{factor} in its closed form is no limit"
            product *= limit or 0
        total += product
    return (
        None
        if total == bound.value and total >= (bound.number or 0)
        else f"its closed form has the value {format_number(total)}"
    )


def _weight(certificate: Certificate, one: Transition, name: str, potential: Potential) -> float:
    """Return the most that a transition charges; what a limit bounds is not counted."""
    largest = one.largest(name)
    if not largest or (potential.limit is not None and not one.reserved):
        return 0
    most = certificate.limits.get("fan_out") if one.most is None else one.most
    return math.inf if most is None else largest * most


def _beside(certificate: Certificate, name: str, potential: Potential) -> float:
    """Return the most that is counted within the limit, which is that of the meter or of one charged with it."""
    if potential.limit is None:
        return 0
    called, factor = potential.limit
    least = 1 if called == name else certificate.flow.factors(name).get(called, math.inf)
    limit = certificate.limits.get(called)
    return math.inf if limit is None or not _is_whole(limit) or factor < least else factor * limit


def is_possible(certificate: Certificate, one: Transition) -> bool:
    """Return whether a run within the limits may take a transition."""
    limits = certificate.limits
    if one.kind != "move" and not any(limits.get(cause) is not None for cause in one.causes):
        return False
    fan_out = limits.get("fan_out")
    if one.most is None and fan_out is not None and one.asks > fan_out:
        return False
    return not any(_is_whole(cap := limits.get(name)) and amount > (cap or 0) for name, amount in one.spends)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
