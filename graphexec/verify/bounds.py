"""How much a run takes at most: closed forms in the limits' names, and the exact numbers for given limits."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from graphexec.limits import GRACE, Limits
from graphexec.verify import polynomial
from graphexec.verify.certificate import Bound, Bounds
from graphexec.verify.closed_form import Ways
from graphexec.verify.flow import Flow, Transition, caps_of
from graphexec.verify.polynomial import Polynomial
from graphexec.verify.product import Product

# States of the product that are looked at for exact numbers; some 30 ms of them. The closed form stands for the rest.
_STATES = 20_000
# Nodes up to which each budget is tried as the one that bounds the loops; beyond, they are taken together.
_NODES = 200

Calls: TypeAlias = Literal["model_calls", "tool_calls"]

_ZERO = polynomial.number(0)
_ONE = polynomial.number(1)
_FAN_OUT = polynomial.name("fan_out")


def bounds_of(flow: Flow, transitions: Sequence[Transition], limits: Limits) -> Bounds:
    """The bounds of a flow whose possible `transitions` are proved to end under `limits`."""
    steps, models, tools = _longest(flow, limits)
    forms = _Forms(flow, transitions, limits)
    return Bounds(
        _bound(forms.of(lambda _: _ONE), steps),
        _calls(forms, "model_calls", models, limits),
        _calls(forms, "tool_calls", tools, limits),
        _seconds(flow, limits),
    )


def _seconds(flow: Flow, limits: Limits) -> Bound:
    """The seconds until control returns: what is cut at the deadline may still clean up."""
    if limits.seconds is None:
        return Bound(None, None)
    beyond = flow.grace + GRACE
    return Bound(f"seconds + {beyond:g}", limits.seconds + beyond, value=limits.seconds + beyond)


@dataclass(frozen=True, slots=True)
class _Longest:
    """The longest run among all that may be, and whether it is sure that there is such a run."""

    number: int
    sure: bool


def _longest(flow: Flow, limits: Limits) -> tuple[_Longest | None, _Longest | None, _Longest | None]:
    """The most transitions, model calls and tool calls of a run; `None` where there is too much to look at."""
    product = Product(flow, limits)
    if product.size() > _STATES:
        return None, None, None
    fan_out = limits.fan_out or 0
    weights: Sequence[Callable[[Transition], int]] = (
        lambda _: 1,
        lambda one: fan_out if one.model_calls is None else one.model_calls,
        lambda one: fan_out if one.tool_calls is None else one.tool_calls,
    )
    most = product.longest(weights)
    # A visit that a limit stops may have asked for nothing.
    least: Sequence[Callable[[Transition], int]] = (
        weights[0],
        lambda one: 0 if one.kind == "within" else weights[1](one),
        lambda one: 0 if one.kind == "within" else weights[2](one),
    )
    shown = Product(flow, limits, sure=True)
    known = shown.size() <= _STATES and not (limits.seconds is not None and _grace_follows_grace(flow))
    sure = shown.longest(least) if known else (-1, -1, -1)
    steps, models, tools = (_Longest(one, one == other) for one, other in zip(most, sure, strict=True))
    return steps, models, tools


def _grace_follows_grace(flow: Flow) -> bool:
    """Whether a reserved visit may come after another: what the first takes of the grace, the second lacks.

    The product knows only whether the time of the limit is over, so with a clock it is not sure of such runs.
    """
    sources = {one.source for one in flow.transitions if one.reserved}
    waiting = [one.target for one in flow.transitions if one.reserved]
    seen: set[str] = set()
    while waiting:
        node = waiting.pop()
        if node in sources:
            return True
        if node not in seen:
            seen.add(node)
            waiting += [one.target for one in flow.transitions if one.source == node]
    return False


class _Forms:
    """The closed forms of a flow, the best for the given limits."""

    def __init__(self, flow: Flow, transitions: Sequence[Transition], limits: Limits) -> None:
        self._flow = flow
        self.transitions = transitions
        budgets = {name: limit for name, limit in caps_of(flow, limits).items() if limit is not None}
        others = {"fan_out": limits.fan_out, "restarts": limits.restarts}
        named = {name: limit for name, limit in others.items() if limit is not None}
        self.caps: Mapping[str, int] = {**budgets, **named}
        self._limited = frozenset(budgets)

    def of(self, weight: Callable[[Transition], Polynomial], more: Polynomial = _ZERO) -> tuple[str, int]:
        """The closed form with the least value, and its value; `more` is added to each."""
        spent = {name for one in self.transitions for name, _ in one.spends if name in self._limited}
        preferred: list[str | None] = (
            [name for name in self.caps if name in spent] if len(self._flow.nodes) <= _NODES else []
        )
        found = [
            more + Ways(weight, self._limited, one).to_the_end(self._flow.start, self._flow.nodes, self.transitions)
            for one in preferred or [None]
        ]
        form = min(found, key=lambda one: (one.at(self.caps), len(str(one))))
        return str(form), form.at(self.caps)


def _bound(form: tuple[str, int], longest: _Longest | None) -> Bound:
    text, value = form
    if longest is None:
        return Bound(text, value, value=value)
    return Bound(text, longest.number, exact=longest.sure, value=value)


def _calls(forms: _Forms, name: Calls, longest: _Longest | None, limits: Limits) -> Bound:
    """The bound on calls: what the flow lets a run ask for, or their own limit, whichever is less."""
    limit: int | None = getattr(limits, name)
    called: str = name
    if name == "model_calls" and limits.tokens is not None and (limit is None or limits.tokens < limit):
        # A call takes one token at least.
        limit, called = limits.tokens, "tokens"
    own = _own(forms, name, called, limits) if limit is not None else Bound(None, None)
    most_of_each = {_calls_of(one, name) for one in forms.transitions}
    if not most_of_each - {0}:
        return Bound("0", 0, exact=True, value=0)
    if limits.fan_out is None and None in most_of_each:
        return own

    def weight(one: Transition) -> Polynomial:
        most = _calls_of(one, name)
        return _FAN_OUT if most is None else polynomial.number(most)

    again = _again(most_of_each, limits)
    # A run that is taken up again asks again for what was not answered: of that the longest runs know nothing.
    bound = _bound(forms.of(weight, again), None if limits.restarts else longest)
    assert bound.number is not None, "a form has a value"
    if limit is None:
        return bound
    # A visit that asks for more than is left is refused: no run need come as far as the limit.
    return own if own.number is not None and own.number < bound.number else dataclasses.replace(bound, exact=False)


def _own(forms: _Forms, name: Calls, called: str, limits: Limits) -> Bound:
    """The calls that their own limit allows, and those that are reserved, also when they are made again."""
    again = _again([_calls_of(one, name) for one in forms.transitions if one.reserved], limits)

    def weight(one: Transition) -> Polynomial:
        return polynomial.number((_calls_of(one, name) or 0) if one.reserved else 0)

    text, reserved = forms.of(weight, polynomial.name(called) + again)
    return Bound(text, reserved, value=reserved)


def _again(most_of_each: Iterable[int | None], limits: Limits) -> Polynomial:
    """The calls that are made again after crashes, at most those of a visit each time."""
    if not limits.restarts:
        return _ZERO
    each = (_FAN_OUT if most is None else polynomial.number(most) for most in most_of_each)
    return polynomial.name("restarts") * (polynomial.most(each) or _ZERO)


def _calls_of(one: Transition, name: Calls) -> int | None:
    return one.model_calls if name == "model_calls" else one.tool_calls
