"""The independent checker of a certificate's numbers: no transition counts more than a potential falls.

It imports nothing from the prover.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from graphexec.errors import format_number, format_value
from graphexec.kernel.meters import GRACE, is_count, is_measure, is_number, is_whole
from graphexec.kernel.node import END
from graphexec.verify.proof.certificate import TIMELY, Bound, Certificate, Line, Potential
from graphexec.verify.proof.flow import Charges, Transition, bounded_meters, is_timely, may_stop_anywhere

# The most digits of a number in a closed form.
_DIGITS = 30


def unproved_numbers(certificate: Certificate) -> Iterator[str]:
    """Yield a message for each number of the bounds that is not proved.

    The closed forms are compared with their values. It is not checked that a run reaches a number (`exact`).
    """
    flow, bounds = certificate.flow, certificate.bounds
    names = bounded_meters(flow, certificate.nested)
    if {*bounds.meters} != {*names}:
        yield f"the meters that it bounds are not those of its flow, {', '.join(names) or 'which has none'}"
        return
    if not {*bounds.quotas} <= {*flow.lasting_quotas}:
        yield "it bounds quotas that its flow has not, or resets"
    for name, bound in (("depth", bounds.depth), ("nested_runs", bounds.nested_runs), *bounds.quotas.items()):
        limit = certificate.limits.get(name)
        form = None if limit is None else name
        if (bound.form, bound.number, bound.value, bound.exact, bound.assuming) != (form, limit, limit, False, None):
            yield f"the bound on {name.replace('_', ' ')} is not its limit"
    yield from _unproved_seconds(certificate)
    if any(len({name for name, *_ in runs.charges}) < len(runs.charges) for runs in certificate.nested):
        yield "the charges of nested runs have two rows for one meter"
    own = bounds.alone if certificate.nested else bounds.meters
    if {*own} != {*names}:
        yield "the bounds on its own effects are for other meters than its bounds"
        return
    # A meter may have any name.
    for meter, bound in ((None, bounds.transitions), *own.items()):
        fault = _fault(certificate, meter, bound)
        if fault is not None:
            yield f"the bound on {(meter or 'transitions').replace('_', ' ')} is not proved: {fault}"
    rest = dataclasses.replace(certificate, flow=flow.resumed)
    for how, one, bound in (
        ("nested", certificate, bounds.transitions_when_nested),
        ("resumed", rest, bounds.transitions_when_resumed),
    ):
        if (fault := _stopped_fault(one, bound)) is not None:
            yield f"the bound on transitions when {how} is not proved: {fault}"
    for name in names if certificate.nested else ():
        fault = _nested_fault(certificate, name)
        if fault is not None:
            yield f"the bound on {name.replace('_', ' ')} with nested runs is not proved: {fault}"


def unproved_end(certificate: Certificate) -> str | None:
    """Return why the potential of transitions does not prove that every run ends, or `None` if it does."""
    fault = _fault(certificate, None, certificate.bounds.transitions)
    return None if fault is None else f"there are no ranks, and {fault}"


def _unproved_seconds(certificate: Certificate) -> Iterator[str]:
    bound, seconds = certificate.bounds.seconds, certificate.limits.get("seconds")
    beyond = certificate.flow.grace + GRACE
    end = math.inf if seconds is None else seconds + beyond
    if bound.number is not None and not (is_number(bound.number) and bound.number >= end):
        yield f"a run can take {end:g} seconds, but the certificate says {bound.number}"
    elif (bound.form, bound.value) not in ((None, None), (f"seconds + {beyond:g}", bound.number)):
        yield f"the closed form of the seconds is {bound.form} = {bound.value}"
    elif bound.number is not None and (bound.exact or bound.assuming != TIMELY):
        yield f"the bound on the seconds does not state the assumption that {TIMELY}"


def _stopped_fault(certificate: Certificate, bound: Bound) -> str | None:
    """Return why the number of transitions of a run that an outer run, or limits it had, may stop is not proved."""
    if certificate.ranks is None or not certificate.holds_when_nested:
        return None if bound == Bound(None, None) else "its proof does not hold within other runs"
    # A deadline opens the same transitions as any limit of an outer run.
    known = certificate.limits
    limits = known if may_stop_anywhere(known) else {**known, "seconds": 1.0}
    return _fault(dataclasses.replace(certificate, limits=limits), None, bound)


def _fault(certificate: Certificate, meter: str | None, bound: Bound) -> str | None:
    """Return why a number is not proved: of transitions, or of what the machine's own effects charge a meter."""
    flow, potential = certificate.flow, bound.potential
    # Where only measures end the loops, the bound may be unknown, or a closed form in their names.
    measured = bool(flow.measures) and certificate.ranks is not None
    if bound.number is None and bound.form is None and (measured or meter is not None):
        return None if (bound.value, bound.exact) == (None, False) else "it has a value, but no number"
    if bound.number is None and not measured:
        return "it has a closed form, but no number"
    if potential is None or not (is_whole(bound.number) or bound.number is None):
        return "it has no potential, or is not a whole number"
    if bound.assuming is not None:
        return "it has an assumption, which only the bound on seconds may have"
    names = {*potential.counters, *(name for _, slopes in potential.lines.values() for name, _ in slopes)}
    caps = {name: certificate.limits.get(name) for name in names}
    # The check also proves that no run reaches a node without a potential.
    nodes = {*potential.lines} if not potential.states else {node for node, _, _ in potential.states}
    possible = [one for one in flow.variants if one.source in nodes and is_possible(certificate, one)]
    weights = [1 if meter is None else _count_charges(certificate, one, meter, potential) for one in possible]
    counted = [(one, weight) for one, weight in zip(possible, weights, strict=True) if weight is not None]
    lines = not potential.states
    counted += [(one, 0) for one in flow.measure_errors if one.source in nodes]
    if None in weights or not all(is_whole(caps[name]) or (lines and is_measure(name)) for name in caps):
        return "it depends on something that has no limit"
    check = _highest_line if lines else _highest_state
    most = check(certificate, potential, counted, {name: int(cap or 0) for name, cap in caps.items()})
    if isinstance(most, str):
        return most
    slopes = {name: slope for name, slope in potential.lines[flow.start][1] if is_measure(name)} if lines else {}
    if any(slopes.values()) != (bound.number is None):
        return "it has a number, but depends on a measure" if bound.number is not None else "it has no number"
    beside = _beside(certificate, meter, potential.limits)
    if beside is None:
        return "its limits do not bound it"
    most += beside
    if meter is not None:
        # After each crash, one visit may ask for its effects again.
        largest = max((weight for _, weight in counted), default=0)
        most += int(certificate.limits.get("restarts") or 0) * largest
    if bound.number is None:
        # One more visit than the first measure says: the last one may be at 0.
        return _measured_form_fault(certificate, bound, {**slopes, "": most + sum(slopes.values())})
    if bound.number != most:
        return f"the potential proves {format_number(most)}, but the bound says {format_number(bound.number)}"
    return _form_fault(certificate, bound)


def _nested_fault(certificate: Certificate, name: str) -> str | None:
    """Return why a meter's number with nested runs is not proved, given that the machine's own part is."""
    bound, own = certificate.bounds.meters[name], certificate.bounds.alone[name]
    if bound.number is None:
        return None if bound.form is None or bound == own else "it has a closed form, but no number"
    if bound.potential is not None and [one for one, _ in bound.potential.limits] == [name]:
        return _fault(certificate, name, bound)
    rows = [(one, alone, whole) for one in certificate.nested for meter, alone, whole in one.charges if meter == name]
    runs = 0 if certificate.limits.get("depth") == 0 else certificate.limits.get("nested_runs")
    found = [] if rows and runs != 0 else [0]
    each = [alone for _, alone, _ in rows if alone is not None]
    if runs and len(each) == len(rows):
        found.append(int(runs) * max(each, default=0))
    numbers = {meter: one.number for meter, one in certificate.bounds.alone.items()}
    started = [(certificate.flow.most_calls(one.meter, numbers), one.attempts, whole) for one, _, whole in rows]
    charged = [int(calls) * times * whole for calls, times, whole in started if calls is not None and whole is not None]
    if len(charged) == len(rows):
        found.append(sum(charged))
    if own.number is None or not found:
        return "nothing bounds the charges of nested runs"
    most = int(own.number) + min(found)
    if bound.number != most or (bound.exact and most > own.number):
        return f"at most {format_number(most)} is proved, but the bound says {format_number(bound.number)}"
    return _form_fault(certificate, bound)


def _form_fault(certificate: Certificate, bound: Bound) -> str | None:
    """Return why a closed form does not have the value given with it, or is too low."""
    if bound.form is None:
        return None if bound.value is None else "it has a value, but no closed form"
    terms = _read_form(certificate, bound.form, ())
    if isinstance(terms, str):
        return terms
    total = terms[""]
    return (
        None
        if total == bound.value and total >= (bound.number or 0)
        else f"its closed form has the value {format_number(total)}"
    )


def _measured_form_fault(certificate: Certificate, bound: Bound, most: Mapping[str, int]) -> str | None:
    """Return why a closed form is too low; `most` has the factor of each measure that is proved, and the rest."""
    terms = _read_form(certificate, bound.form or "", certificate.flow.measures)
    if isinstance(terms, str):
        return terms
    covers = all(terms[name] >= most.get(name, 0) for name in terms)
    return None if covers and (bound.value, bound.exact) == (None, False) else "its closed form is too low"


def _read_form(certificate: Certificate, form: str, measures: Sequence[str]) -> dict[str, int] | str:
    """Return the factor of each of the measures in a closed form, and the rest under an empty name; or a message."""
    terms = dict.fromkeys(("", *measures), 0)
    for term in form.replace("- ", "-").replace("+ ", "").split(" "):
        product, measure = (-1 if term.startswith("-") else 1), ""
        for factor in term.removeprefix("-").split("*"):
            is_written = factor.isdecimal() and len(factor) <= _DIGITS
            limit = int(factor) if is_written else certificate.limits.get(factor)
            if factor in measures and not measure:
                measure = factor
            elif is_whole(limit):
                product *= limit
            else:
                return f"{format_value(factor)} in its closed form is not a limit"
        terms[measure] += product
    return terms


def _beside(certificate: Certificate, meter: str | None, within: Charges) -> int | None:
    """Return the most that limits allow: of the meter, or of others, one of which is charged together with it."""
    if not within:
        return 0
    # The limit of the meter itself includes nested runs.
    own = [(name, factor >= 1) for name, factor in within] == [(meter, True)]
    if meter is None or not (own or (meter in certificate.flow.charged and certificate.flow.covers(meter, within))):
        return None
    total = 0
    for name, factor in within:
        limit = certificate.limits.get(name)
        if not is_whole(limit) or factor < 0:
            return None
        total += factor * limit
    return total


# ---- potentials

# Transitions that runs may take, each with its count.
Possible: TypeAlias = Sequence[tuple[Transition, int]]


def _highest_line(
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


def _highest_state(
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


def _count_charges(certificate: Certificate, one: Transition, meter: str, potential: Potential) -> int | None:
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
