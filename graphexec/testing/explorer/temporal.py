"""Assertions about the order of events in a run, in one line each.

`never_without(calls_tool("delete_file"), before=left("approve", Approved))` is a small automaton: `start` is its state
before the first event, `step` returns its state after one more event, and `holds_at_end` checks the state at the end of
a run. The state `BROKEN` is final.

Predicates are functions of one event, and combine with `|`, `&` and `~`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, final

from graphexec._arguments import NAME
from graphexec.effects import CallTool
from graphexec.errors import InputError, did_you_mean, format_value
from graphexec.kernel.effects import Effect, members_of
from graphexec.kernel.events import Answered, Asked, Done, Entered, Event, Moved
from graphexec.kernel.node import Node

# The tool name that stands for all unknown tools.
UNKNOWN: Final = "no_such_tool"

BROKEN: Final = "broken"


@final
@dataclass(frozen=True, slots=True)
class Predicate:
    """A condition on one event.

    `text` is its source; predicates with equal sources are equal. `nodes` and `tools` are the names in it.
    """

    text: str
    holds: Callable[[Event[Any]], bool] = field(compare=False)
    nodes: tuple[str, ...] = field(default=(), compare=False)
    tools: tuple[str, ...] = field(default=(), compare=False)

    def __call__(self, event: Event[Any]) -> bool:
        """Return whether it holds for the event."""
        return self.holds(event)

    def __or__(self, other: Predicate) -> Predicate:
        return self._combine(f"({self} | {other})", lambda event: self(event) or other(event), other)

    def __and__(self, other: Predicate) -> Predicate:
        return self._combine(f"({self} & {other})", lambda event: self(event) and other(event), other)

    def __invert__(self) -> Predicate:
        return Predicate(f"~{self}", lambda event: not self(event), self.nodes, self.tools)

    def __str__(self) -> str:
        return self.text

    def _combine(self, text: str, holds: Callable[[Event[Any]], bool], other: Predicate) -> Predicate:
        return Predicate(text, holds, self.nodes + other.nodes, self.tools + other.tools)


def predicate(function: Callable[[Event[Any]], bool]) -> Predicate:
    """Make a predicate from a function of one event."""
    return Predicate(f"predicate({getattr(function, '__name__', repr(function))})", function)


def entered(node: Node[Any, Any] | str) -> Predicate:
    """The run reaches `node`, even if a limit stops it before the entry."""
    name = _name(node)
    return Predicate(f"entered({name!r})", lambda event: type(event) is Entered and event.node == name, (name,))


def left(node: Node[Any, Any] | str, outcome: type | None = None) -> Predicate:
    """`node` is left; with `outcome`, only with exactly this class."""
    name = _name(node)

    def holds(event: Event[Any]) -> bool:
        return type(event) is Moved and event.node == name and outcome in (None, type(event.outcome))

    return Predicate(f"left({name!r})" if outcome is None else f"left({name!r}, {outcome.__name__})", holds, (name,))


def asked(effect: type[Effect[Any]]) -> Predicate:
    """An effect of this class is asked for, alone or in a batch."""
    return _has_effect("asked", Asked, effect)


def answered(effect: type[Effect[Any]]) -> Predicate:
    """An effect of this class is answered, alone or in a batch."""
    return _has_effect("answered", Answered, effect)


def _has_effect(name: str, kind: type[Asked | Answered], effect: type[Effect[Any]]) -> Predicate:
    def holds(event: Event[Any]) -> bool:
        return isinstance(event, kind) and any(isinstance(one, effect) for one in members_of(event.effect))

    return Predicate(f"{name}({effect.__name__})", holds)


def calls_tool(*names: str) -> Predicate:
    """One of these tools is called, alone or in a batch; `no_such_tool` stands for any unknown tool.

    Raises `InputError` without a name, or for an invalid name.
    """
    if not names or not all(map(NAME.fits, names)):
        raise InputError(f"calls_tool is given {', '.join(map(format_value, names)) or 'nothing'}; give names of tools")
    return Predicate(
        f"calls_tool({', '.join(map(repr, names))})",
        lambda event: (
            type(event) is Asked
            and any(isinstance(one, CallTool) and one.name in names for one in members_of(event.effect))
        ),
        tools=names,
    )


def ended(outcome: type | None = None) -> Predicate:
    """The run is over; with `outcome`, only with exactly this class."""
    return Predicate(
        "ended()" if outcome is None else f"ended({outcome.__name__})",
        lambda event: type(event) is Done and outcome in (None, type(event.outcome)),
    )


def _name(node: Node[Any, Any] | str) -> str:
    return node.name if isinstance(node, Node) else node


def charges_of(effects: Iterable[Effect[Any]]) -> Counter[str]:
    """Return the total charges of these effects, by meter."""
    charges: Counter[str] = Counter()
    for effect in effects:
        charges.update({meter.name: amount for meter, amount in effect.charges.items()})
    return charges


@final
@dataclass(frozen=True, slots=True)
class Assertion:
    """An automaton over the events of a run.

    `text` is its source; assertions with equal sources are equal. `predicates` are its parts.
    """

    text: str
    start: Hashable = field(compare=False)
    step: Callable[[Any, Event[Any]], Hashable] = field(compare=False)
    predicates: tuple[Predicate, ...] = field(compare=False)
    holds_at_end: Callable[[Any], bool] = field(default=lambda _: True, compare=False)

    def __str__(self) -> str:
        return self.text

    def after(self, state: Hashable, event: Event[Any]) -> Hashable:
        """Return the state after one more event. `BROKEN` is final; the end of a run is checked with `holds_at_end`."""
        if state == BROKEN:
            return BROKEN
        following = self.step(state, event)
        return BROKEN if type(event) is Done and not self.holds_at_end(following) else following


def always(what: Predicate) -> Assertion:
    """`what` holds for every event."""
    return Assertion(f"always({what})", "", lambda state, event: state if what(event) else BROKEN, (what,))


def never(what: Predicate) -> Assertion:
    """`what` holds for no event."""
    return Assertion(f"never({what})", "", lambda state, event: BROKEN if what(event) else state, (what,))


def eventually(what: Predicate) -> Assertion:
    """`what` happens by the end of each run."""
    return Assertion(f"eventually({what})", 0, lambda met, event: met or int(what(event)), (what,), bool)


def followed(what: Predicate, *, by: Predicate) -> Assertion:
    """Each `what` is followed by a `by` before the run ends. One event may be both."""

    def step(owed: int, event: Event[Any]) -> int:
        return 0 if by(event) else owed or int(what(event))

    return Assertion(f"followed({what}, by={by})", 0, step, (what, by), lambda owed: not owed)


def never_without(what: Predicate, *, before: Predicate, each: bool = False) -> Assertion:
    """A `what` happens only after a `before`; with `each`, every `what` needs a `before` of its own."""

    def step(earlier: int, event: Event[Any]) -> Hashable:
        if what(event):
            if not earlier:
                return BROKEN
            earlier -= each
        # Without `each`, one `before` is enough for all.
        return earlier + before(event) if each else max(earlier, before(event))

    used = ", each=True" if each else ""
    return Assertion(f"never_without({what}, before={before}{used})", 0, step, (what, before))


def unknown_names(assertion: Assertion, nodes: Collection[str], tools: Collection[str] | None) -> list[str]:
    """Return a message for each unknown node or tool in an assertion; `tools` is `None` if they are not known."""
    messages = [
        f"{assertion}: the graph has no node {name}; its nodes are {', '.join(nodes)}"
        + did_you_mean(name, nodes, before="; ")
        for name in dict.fromkeys(name for part in assertion.predicates for name in part.nodes)
        if name not in nodes
    ]
    if tools is None:
        return messages
    known = ", ".join(tools) or "none"
    return messages + [
        f"{assertion}: there is no tool {name}; the tools are {known}{did_you_mean(name, tools, before='; ')}"
        f" (a call of an unknown tool is one of {UNKNOWN})"
        for name in dict.fromkeys(name for part in assertion.predicates for name in part.tools)
        if name not in tools and name != UNKNOWN
    ]
