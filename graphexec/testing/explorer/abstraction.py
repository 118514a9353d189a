"""The abstraction by which the explorer treats two runs as one state.

A state keeps a run's node, the amounts left of its limits, the classes of the node's replies (if more than 5: their
number, their set, and the last), and the *shape* of its values: classes, enums, booleans, and the strings of the
oracle's replies. Of previous steps it keeps only what a setting of the nodes distinguishes (`LooksBack`). It leaves out
other strings and large numbers: only `explore(..., prune=False)` visits a node that counts higher in its value at every
count.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, Protocol, TypeAlias, runtime_checkable

from graphexec.actions import Run, Steps
from graphexec.effects import CallAgent, CallTool, ModelEffect
from graphexec.errors import InputError
from graphexec.kernel.effects import All, Perform, Request
from graphexec.kernel.graph import Graph
from graphexec.kernel.meters import Exhausted, Limits, Spent, is_measure

# Sequences up to this length are compared in order; longer ones only as sets, so that a history in a user's value does
# not make every run a separate state.
_IN_ORDER = 3

# Up to so many replies of a visit are compared in order. In longer visits, such as those of a node that asks until it
# accepts the answer, each further reply would multiply the states.
_REPLIES = 5

# Whole numbers from 0 up to this one are distinguished: counters in values mostly count to two or three.
_COUNTED = 3

# The depth limit, since a value may contain itself. Other objects than dataclasses count for several levels, since they
# may refer to much of the program.
_DEEP = 12
_OBJECT = 5

# The strings to distinguish; `None`: all.
Words: TypeAlias = AbstractSet[str] | None


def shape(value: object, words: Words, depth: int = 0) -> Hashable:
    """Return the shape of a value, in which only the strings in `words` are distinguished."""
    # Any: mypy does not know that a class is hashable, and containers may hold anything.
    kind: Any = type(value)
    many: Any = value
    found: Hashable = kind
    if value is None or isinstance(value, (bool, Enum, type)):
        return value
    if isinstance(value, str):
        return value if words is None or value in words else found
    if isinstance(value, int):
        return value if 0 <= value <= _COUNTED else found
    if isinstance(value, (Run, Steps)) or depth > _DEEP:
        return found
    inner = depth + 1
    if isinstance(value, Mapping):
        return frozenset((shape(key, words, inner), shape(one, words, inner)) for key, one in many.items())
    if isinstance(value, (tuple, list, set, frozenset)):
        shapes = [shape(one, words, inner) for one in many]
        ordered = isinstance(value, (tuple, list)) and len(shapes) <= _IN_ORDER
        return (kind, *shapes) if ordered else (kind, frozenset(shapes))
    if isinstance(value, Perform):
        return (kind, value.node, shape(value.value, words, inner))
    if is_dataclass(value):
        return (kind, *(shape(getattr(value, field.name), words, inner) for field in fields(value)))
    held = _fields_of(value)
    return (
        (kind, frozenset((name, shape(one, words, depth + _OBJECT)) for name, one in held.items())) if held else found
    )


def _fields_of(value: object) -> dict[str, Any]:
    held: dict[str, Any] = dict(getattr(value, "__dict__", {}))
    for base in type(value).__mro__:
        slots: Any = vars(base).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                held[name] = getattr(value, name)
    return held


@runtime_checkable
class LooksBack(Protocol):
    """A setting of nodes that look at the earlier steps of a run, such as the rules of an agent."""

    def distinguish(self, steps: Steps) -> Hashable:
        """Return a value that is equal for steps that the nodes treat alike."""
        ...


def asked_shape(effect: Request, words: Words) -> Hashable:
    """Return the shape of a request: the shapes of all its members in order, since each is charged."""
    if isinstance(effect, All):
        return tuple([asked_shape(member, words) for member in effect.effects])
    if isinstance(effect, CallTool):
        return (CallTool, effect.name)
    # A model's prompt contains the whole history.
    return shape(type(effect) if isinstance(effect, (ModelEffect, CallAgent)) else effect, words)


def history(replies: tuple[str, ...]) -> Hashable:
    """Return the part of a visit's reply classes by which visits are distinguished."""
    return replies if len(replies) <= _REPLIES else (len(replies), frozenset(replies), replies[-1])


def texts(value: object, depth: int = 0) -> frozenset[str]:
    """Return every string in a value."""
    if isinstance(value, str):
        return frozenset({value})
    if isinstance(value, (type, Enum)) or depth > _DEEP:
        return frozenset()
    many: Any = value
    parts: Any = ()
    if isinstance(value, Mapping):
        parts = (*many.keys(), *many.values())
    elif isinstance(value, (tuple, list, set, frozenset)):
        parts = many
    elif is_dataclass(value):
        parts = [getattr(value, field.name) for field in fields(value)]
    else:
        parts, depth = _fields_of(value).values(), depth + _OBJECT
    return frozenset[str]().union(*(texts(part, depth + 1) for part in parts))


def make_counters(limits: Limits, graph: Graph[Any, Any]) -> Callable[[Spent], tuple[float, ...]]:
    """Return a function that returns the amounts spent of everything limited, and the last measures of nodes.

    Seconds are distinguished up to the longest grace beyond the limit, because reserved visits may still ask for
    effects.
    """
    iterations = limits.iterations
    grace = max((node.grace for node in graph if node.grace is not None), default=0.0)
    seconds = None if limits.seconds is None else limits.seconds + grace
    limited = [(name, limit) for name, limit in limits.caps(graph.meters).items() if limit is not None]

    def count(spent: Spent) -> tuple[float, ...]:
        counted: list[float] = [spent.restarts]
        # Amounts beyond a limit (seconds, measured meters) are treated like the limit.
        if iterations is not None:
            counted.append(min(iterations, spent.iterations))
        if seconds is not None:
            counted.append(min(seconds, spent.seconds))
        counted += [min(limit, spent[name]) for name, limit in limited]
        counted += [amount for name, amount in sorted(spent.meters.items()) if is_measure(name)]
        return tuple(counted)

    return count


class Refusing:
    """Outer runs that refuse an effect or, with a `refusal`, all that costs something."""

    seconds: float | None = None
    limits: Collection[str] = ()

    def __init__(self, refusal: Exhausted | None) -> None:
        self.refusal = refusal

    def charge(self, amounts: Mapping[str, float], stops: Collection[str]) -> Exhausted | None:
        """Refuse the charge."""
        return Exhausted(next(iter((*amounts, *stops)), "depth"), 0, 0, outer=True)

    def settle(self, amounts: Mapping[str, float]) -> None:
        """Ignore what a reply reported."""


def bare(kind: type) -> Any:
    """Return an empty instance of exactly this class. No code of the class runs, except for an enum's lookup.

    Raises `InputError` for a class that has no instances.
    """
    if issubclass(kind, Enum):
        members: list[Any] = list(kind)
        if not members:
            raise InputError(f"{kind.__name__} has no members, so it cannot be an outcome; add one")
        return members[0]
    bases: tuple[Any, ...] = kind.__mro__
    for base in reversed(bases):
        # Only the constructor of a built-in base class accepts its subclasses.
        try:
            return base.__new__(kind)
        except TypeError:
            continue
    raise InputError(
        f"{kind.__name__} has no instances, so it cannot be an outcome; declare a class that can be instantiated"
    )
