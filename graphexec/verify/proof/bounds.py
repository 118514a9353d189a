"""The bounds of runs: of one by itself, with the runs nested in it, within an outer run, and of a resumed one."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from graphexec.kernel.effects import NestedRuns
from graphexec.kernel.meters import GRACE
from graphexec.verify.proof import polynomial
from graphexec.verify.proof.bound_search import STATES, BoundSearch, number_of
from graphexec.verify.proof.certificate import TIMELY, Bound, Bounds, bound_by_limit, is_limit_of
from graphexec.verify.proof.flow import Flow, Known, Transition, bounded_meters, may_stop_anywhere, possible_transitions
from graphexec.verify.proof.product import Product

# The most digits of a nested run's charges in a closed form.
_DIGITS = 20


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
    bounds = _bounds(BoundSearch(flow, transitions, known, nested, always=always, measures=measures))
    if not anywhere:
        return bounds
    within = bounds.transitions
    if not may_stop_anywhere(known):  # any deadline opens the same transitions as an outer limit
        known = {**known, "seconds": 1.0}
        within = BoundSearch(
            flow, flow.variants, known, nested, always=always, measures=measures
        ).bound_of_transitions()
    rest = BoundSearch(flow.resumed, flow.resumed.variants, known, nested, always=False, measures=measures)
    return dataclasses.replace(bounds, transitions_when_nested=within, transitions_when_resumed=rest.bound_by_lines())


def ends_by_states(flow: Flow, known: Known) -> bool:
    """Return whether a search of the states proves that every run ends: they are few, and none repeats."""
    return Product(flow, known).is_finite(STATES)


def bounds_by_states(flow: Flow, known: Known, nested: Sequence[NestedRuns]) -> Bounds:
    """Return the bounds of a flow whose states under these limits are few and do not repeat."""
    return _bounds(BoundSearch(flow, possible_transitions(flow, known), known, nested, always=False, by_states=True))


def _bounds(search: BoundSearch) -> Bounds:
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


def _with_nested_runs(search: BoundSearch, name: str, alone: Mapping[str, Bound]) -> Bound:
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
