"""Assertions about the order of events in a run, in one line each.

`never_without(calls_tool("delete_file"), before=left("approve", Approved))` is a small automaton: `start` is its state
before the first event, `step` its state after one more, and `holds_at_end` judges the state in which a run came to its
end. A state of `BROKEN` is final, so the shortest run that breaks an assertion is a prefix of every longer one. What
only the end can decide is judged of runs that end with an outcome: a cancelled run owes nothing any more.

An assertion shows itself as it was written. Its predicates are functions of one event, which join with `|`, `&`, `~`.
What is no predicate, no name and no class is refused where it is written, with `InputError`.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, final

from graphexec._arguments import NAME, Constraint
from graphexec.effects import CallTool
from graphexec.errors import InputError, format_value
from graphexec.kernel.effects import All, Effect, Request
from graphexec.kernel.events import Answered, Asked, Done, Entered, Event, Moved
from graphexec.kernel.node import Node

# The name of the tool that there is not: what every model calls that calls one that it has not got.
UNKNOWN: Final = "no_such_tool"

BROKEN: Final = "broken"


@final
@dataclass(frozen=True, slots=True)
class Names:
    """The names of nodes and tools that are written in an assertion: with one that is not there it says nothing."""

    nodes: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()

    def __add__(self, other: Names) -> Names:
        return Names(self.nodes + other.nodes, self.tools + other.tools)


@final
@dataclass(frozen=True, slots=True)
class Predicate:
    """Whether an event is of some kind.

    `text` is how it was written, and two are equal if that is; `uses` are the classes and functions that it names, and
    `names` the nodes and tools.
    """

    text: str
    holds: Callable[[Event[Any]], bool] = field(compare=False)
    uses: tuple[Any, ...] = field(default=(), compare=False)
    names: Names = field(default=Names(), compare=False)

    def __call__(self, event: Event[Any]) -> bool:
        """Whether it holds of the event."""
        return self.holds(event)

    def __or__(self, other: Predicate) -> Predicate:
        return self._joined(f"({self} | {other})", lambda event: self(event) or other(event), other)

    def __and__(self, other: Predicate) -> Predicate:
        return self._joined(f"({self} & {other})", lambda event: self(event) and other(event), other)

    def __invert__(self) -> Predicate:
        return Predicate(f"~{self}", lambda event: not self(event), self.uses, self.names)

    def __str__(self) -> str:
        return self.text

    def _joined(self, text: str, holds: Callable[[Event[Any]], bool], other: Predicate) -> Predicate:
        _predicates(text, other)
        return Predicate(text, holds, self.uses + other.uses, self.names + other.names)


def predicate(function: Callable[[Event[Any]], bool]) -> Predicate:
    """Make a predicate of a function of one event."""
    if not callable(function):
        raise InputError(f"predicate is given {format_value(function)}; give a function of one event")
    return Predicate(f"predicate({getattr(function, '__name__', repr(function))})", function, (function,))


def entered(node: str) -> Predicate:
    """The run comes to `node`, whether or not its gate lets it in."""
    node = _name("entered", node)
    return Predicate(
        f"entered({node!r})", lambda event: type(event) is Entered and event.node == node, names=Names((node,))
    )


def left(node: str, outcome: type | None = None) -> Predicate:
    """`node` is left, with an outcome of exactly this class if one is named."""
    node = _name("left", node)
    _outcome("left", outcome)

    def holds(event: Event[Any]) -> bool:
        return type(event) is Moved and event.node == node and outcome in (None, type(event.outcome))

    if outcome is None:
        return Predicate(f"left({node!r})", holds, names=Names((node,)))
    return Predicate(f"left({node!r}, {outcome.__name__})", holds, (outcome,), Names((node,)))


def asked(effect: type[Effect[Any]]) -> Predicate:
    """An effect of this class is asked for, alone or among others."""
    _effect("asked", effect)
    return Predicate(
        f"asked({effect.__name__})",
        lambda event: type(event) is Asked and any(isinstance(one, effect) for one in members(event.effect)),
        (effect,),
    )


def answered(effect: type[Effect[Any]]) -> Predicate:
    """An effect of this class is answered, alone or among others."""
    _effect("answered", effect)
    return Predicate(
        f"answered({effect.__name__})",
        lambda event: type(event) is Answered and any(isinstance(one, effect) for one in members(event.effect)),
        (effect,),
    )


def calls_tool(*names: str) -> Predicate:
    """One of these tools is called, alone or among others.

    Whatever tool that there is not a model calls, `explore` has it call `no_such_tool`: that name is one, too.
    """
    if not names or not all(map(NAME.fits, names)):
        raise InputError(f"calls_tool is given {', '.join(map(format_value, names)) or 'nothing'}; give names of tools")
    return Predicate(
        f"calls_tool({', '.join(map(repr, names))})",
        lambda event: (
            type(event) is Asked
            and any(isinstance(one, CallTool) and one.name in names for one in members(event.effect))
        ),
        names=Names((), names),
    )


def ended(outcome: type | None = None) -> Predicate:
    """The run is over, with an outcome of exactly this class if one is named."""
    _outcome("ended", outcome)
    return Predicate(
        "ended()" if outcome is None else f"ended({outcome.__name__})",
        lambda event: type(event) is Done and outcome in (None, type(event.outcome)),
        () if outcome is None else (outcome,),
    )


def members(effect: Request) -> tuple[Effect[Any], ...]:
    """The effects of a batch, or the one that is asked for alone."""
    return effect.effects if isinstance(effect, All) else (effect,)


def charges_of(effects: Iterable[Effect[Any]]) -> Counter[str]:
    """What these effects charge together, by meter."""
    charges: Counter[str] = Counter()
    for effect in effects:
        charges.update({meter.name: amount for meter, amount in effect.charges.items()})
    return charges


def _whatever(state: Hashable) -> bool:
    del state
    return True


@final
@dataclass(frozen=True, slots=True)
class Assertion:
    """An automaton over the events of a run.

    `text` is how it was written, and two are equal if that is; `uses` are the classes and functions that it names, and
    `names` the nodes and tools.
    """

    text: str
    start: Hashable = field(compare=False)
    step: Callable[[Any, Event[Any]], Hashable] = field(compare=False)
    holds_at_end: Callable[[Any], bool] = field(default=_whatever, compare=False)
    uses: tuple[Any, ...] = field(default=(), compare=False)
    names: Names = field(default=Names(), compare=False)

    def __str__(self) -> str:
        return self.text

    def after(self, state: Hashable, event: Event[Any]) -> Hashable:
        """The state after one more event; a broken assertion stays so, and the end of a run is judged."""
        if state == BROKEN:
            return BROKEN
        following = self.step(state, event)
        return BROKEN if type(event) is Done and not self.holds_at_end(following) else following


def always(what: Predicate) -> Assertion:
    """`what` holds of every event."""
    return _of(f"always({what})", "", lambda state, event: state if what(event) else BROKEN, what)


def never(what: Predicate) -> Assertion:
    """`what` holds of no event."""
    return _of(f"never({what})", "", lambda state, event: BROKEN if what(event) else state, what)


def eventually(what: Predicate) -> Assertion:
    """`what` happens by the end of each run."""
    return _of(f"eventually({what})", 0, lambda met, event: met or int(what(event)), what, holds_at_end=bool)


def followed(what: Predicate, *, by: Predicate) -> Assertion:
    """After each `what` comes a `by`, before the run ends. One event may be both."""

    def step(owed: int, event: Event[Any]) -> int:
        return 0 if by(event) else owed or int(what(event))

    return _of(f"followed({what}, by={by})", 0, step, what, by, holds_at_end=lambda owed: not owed)


def never_without(what: Predicate, *, before: Predicate, each: bool = False) -> Assertion:
    """No `what` happens unless a `before` happened earlier; with `each`, every `what` uses one up."""

    def step(earlier: int, event: Event[Any]) -> Hashable:
        if what(event):
            if not earlier:
                return BROKEN
            earlier -= each
        # Without `each`, one is as good as many.
        return earlier + before(event) if each else max(earlier, before(event))

    used = ", each=True" if each else ""
    return _of(f"never_without({what}, before={before}{used})", 0, step, what, before)


def dominates(node: str, what: Predicate, *, each: bool = False) -> Assertion:
    """Every way to a `what` leads through `node`; with `each`, every `what` has its own pass through it."""
    node = _name("dominates", node)
    used = ", each=True" if each else ""
    through = never_without(what, before=left(node), each=each)
    return _of(f"dominates({node!r}, {what}{used})", through.start, through.step, what, left(node))


def unknown_names(assertion: Assertion, nodes: Collection[str], tools: Collection[str] | None) -> list[str]:
    """What is to be said of the names in an assertion that no node has, and no tool, where the tools are known."""
    named = assertion.names
    said = [
        f"{assertion}: the graph has no node {name}; its nodes are {', '.join(nodes)}{_meant(name, nodes)}"
        for name in dict.fromkeys(named.nodes)
        if name not in nodes
    ]
    if tools is None:
        return said
    known = ", ".join(tools) or "none"
    return said + [
        f"{assertion}: there is no tool {name}; the tools are {known}{_meant(name, tools)} (a call of any tool that "
        f"there is not is one of {UNKNOWN})"
        for name in dict.fromkeys(named.tools)
        if name not in tools and name != UNKNOWN
    ]


def _meant(name: str, known: Collection[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]}?" if close else ""


# What is written by users without a type checker: names for predicates, nodes for names, effects for their classes.
_EFFECT = Constraint("a class of effects", lambda value: isinstance(value, type) and issubclass(value, Effect))


def _predicates(text: str, *given: object) -> None:
    for one in given:
        if not isinstance(one, Predicate):
            what = (
                "predicate(function)"
                if callable(one)
                else f"calls_tool({format_value(one)}), left({format_value(one)}) or the like"
            )
            raise InputError(f"{format_value(one)} in {text} is no predicate; write {what}")


def _name(of: str, node: object) -> str:
    if isinstance(node, Node):
        return node.name
    if not NAME.fits(node):
        raise InputError(f"{of} is given {format_value(node)}; give a node, or its name as a text")
    return str(node)


def _outcome(of: str, outcome: object) -> None:
    if outcome is not None and not isinstance(outcome, type):
        raise InputError(f"{of} is given the outcome {format_value(outcome)}; give a class of outcomes")


def _effect(of: str, effect: object) -> None:
    if not _EFFECT.fits(effect):
        kind = type(effect).__name__ if issubclass(type(effect), Effect) else "AskHuman"
        raise InputError(f"{of} is given {format_value(effect)}; give a class of effects: {of}({kind})")


def _of(
    text: str,
    start: Hashable,
    step: Callable[[Any, Event[Any]], Hashable],
    *parts: Predicate,
    holds_at_end: Callable[[Any], bool] = _whatever,
) -> Assertion:
    """An assertion that is made of these predicates, and so names what they name."""
    _predicates(text, *parts)
    uses = tuple(used for part in parts for used in part.uses)
    return Assertion(text, start, step, holds_at_end, uses, sum((part.names for part in parts), Names()))
