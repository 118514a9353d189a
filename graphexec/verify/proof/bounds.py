"""The bounds of runs: closed forms in the limits' names, and the exact numbers for given limits."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from graphexec.kernel.meters import GRACE, Limits
from graphexec.verify.proof import polynomial
from graphexec.verify.proof.certificate import NOTHING, Bound, Bounds
from graphexec.verify.proof.closed_form import Ways
from graphexec.verify.proof.components import reachable
from graphexec.verify.proof.flow import Flow, Transition, caps_of, limits_of
from graphexec.verify.proof.polynomial import Polynomial
from graphexec.verify.proof.product import Product

# States of the product that are looked at for exact numbers; some 30 ms of them. The closed form stands for the rest.
_STATES = 20_000
# Nodes up to which each budget is tried as the one that bounds the loops; beyond, they are taken together.
_NODES = 200

_ZERO = polynomial.number(0)
_ONE = polynomial.number(1)
_FAN_OUT = polynomial.name("fan_out")


def bounds_of(flow: Flow, transitions: Sequence[Transition], limits: Limits) -> Bounds:
    """The bounds of a flow whose possible `transitions` are proved to end under `limits`."""
    names = flow.bounded
    steps, *charged = _longest(flow, limits, names)
    forms = _Forms(flow, transitions, limits)
    # What is cut at the deadline may still clean up.
    beyond = flow.grace + GRACE
    end = None if limits.seconds is None else limits.seconds + beyond
    seconds = Bound(None, None) if end is None else Bound(f"seconds + {beyond:g}", end, value=end)
    return Bounds(
        _make_bound(forms.of(lambda _: _ONE), steps),
        {name: _bound_of_charges(forms, name, longest, limits) for name, longest in zip(names, charged, strict=True)},
        seconds,
    )


# The most of something in any run that may be, and whether there is sure to be such a run.
_Longest: TypeAlias = tuple[int, bool]


def _longest(flow: Flow, limits: Limits, meters: Sequence[str]) -> list[_Longest | None]:
    """Return the most transitions of a run, and its most charges by meter; `None` where there are too many states."""
    product = Product(flow, limits)
    if product.size() > _STATES:
        return [None] * (1 + len(meters))
    most = product.longest([lambda _: 1, *(_charging(name, limits) for name in meters)])
    shown = Product(flow, limits, sure=True)
    known = shown.size() <= _STATES and not (limits.seconds is not None and _grace_follows_grace(flow))
    if not known:
        return [(one, False) for one in most]
    # A visit that a limit stops may have asked for nothing.
    sure = shown.longest([lambda _: 1, *(_charging(name, limits, within=False) for name in meters)])
    return [(one, one == other) for one, other in zip(most, sure, strict=True)]


def _charging(meter: str, limits: Limits, *, within: bool = True) -> Callable[[Transition], int]:
    """Return the most that a visit charges a meter; unless `within`, nothing where a limit stops it."""
    fan_out = limits.fan_out or 0

    def most(one: Transition) -> int:
        if one.kind == "within" and not within:
            return 0
        return one.largest(meter) * (fan_out if one.most is None else one.most)

    return most


def _grace_follows_grace(flow: Flow) -> bool:
    """Return whether a reserved visit may come after another, with less grace: the product does not know how much."""
    reserved = [one for one in flow.transitions if one.reserved]
    following: dict[str, list[str]] = {}
    for one in flow.transitions:
        following.setdefault(one.source, []).append(one.target)
    behind = reachable((one.target for one in reserved), following)
    return any(one.source in behind for one in reserved)


class _Forms:
    def __init__(self, flow: Flow, transitions: Sequence[Transition], limits: Limits) -> None:
        self.flow = flow
        self.transitions = transitions
        budgets = caps_of(flow, limits)
        caps = {**budgets, "fan_out": limits.fan_out, "restarts": limits.restarts}
        self.caps: Mapping[str, int] = {name: limit for name, limit in caps.items() if limit is not None}
        self._limited = frozenset(budgets) & self.caps.keys()

    def of(self, weight: Callable[[Transition], Polynomial], more: Polynomial = _ZERO) -> tuple[str, int]:
        """Return the closed form with the least value, and its value; `more` is added to each."""
        spent = {name for one in self.transitions for name, _ in one.spends if name in self._limited}
        preferred: list[str | None] = (
            [name for name in self.caps if name in spent] if len(self.flow.nodes) <= _NODES else []
        )
        found = [
            more + Ways(weight, self._limited, one).to_the_end(self.flow.start, self.flow.nodes, self.transitions)
            for one in preferred or [None]
        ]
        form = min(found, key=lambda one: (one.at(self.caps), len(str(one))))
        return str(form), form.at(self.caps)


def _make_bound(form: tuple[str, int], longest: _Longest | None) -> Bound:
    text, value = form
    number, exact = (value, False) if longest is None else longest
    return Bound(text, number, exact=exact, value=value)


def _bound_of_charges(forms: _Forms, name: str, longest: _Longest | None, limits: Limits) -> Bound:
    """Return the bound on a charged meter by the flow or by a limit, whichever is less."""
    own = _bound_of_limit(forms, name, limits)
    charging = [one for one in forms.transitions if one.calls(name) != 0]
    if not charging:
        return NOTHING
    if limits.fan_out is None and any(one.most is None for one in charging):
        return Bound(None, None) if own is None else own
    again = _charged_again(name, charging, limits)
    # A run that is taken up again asks again for what was not answered: of that the longest runs know nothing.
    bound = _make_bound(forms.of(lambda one: _most(one, name), again), None if limits.restarts else longest)
    assert bound.number is not None, "a form has a value"
    if own is not None and own.number is not None and own.number < bound.number:
        return own
    # A visit that asks for more than is left is refused: no run need come as far as a limit on the way.
    return dataclasses.replace(bound, exact=False) if _is_limited(forms.flow, name, limits) else bound


def _bound_of_limit(forms: _Forms, name: str, limits: Limits) -> Bound | None:
    """Return the bound by a limit on the meter or on one that bounds it, with what is reserved."""
    caps = forms.caps
    bounding = {other: factor for other, factor in forms.flow.factors(name).items() if other in caps}
    if not bounding:
        return None
    # Of several that allow as much, its own.
    called = min(bounding, key=lambda other: caps[other] * bounding[other])
    reserved = [one for one in forms.transitions if one.reserved]
    allowed = polynomial.number(bounding[called]) * polynomial.name(called)
    text, value = forms.of(
        lambda one: _most(one, name) if one.reserved else _ZERO, allowed + _charged_again(name, reserved, limits)
    )
    return Bound(text, value, value=value)


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
    """Return the most that is charged again after crashes."""
    if not limits.restarts:
        return _ZERO
    return polynomial.name("restarts") * (polynomial.most(_most(one, name) for one in transitions) or _ZERO)
