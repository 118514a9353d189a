"""Explore every run of a machine on the real engine.

From each state, `explore` runs the engine once with every class of replies, and with every other event after which a
run goes on: a deadline, a crash.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeVar, final

from graphexec._arguments import validate, whole
from graphexec.actions import steps_of
from graphexec.effects import MODEL_CALLS, TOOL_CALLS
from graphexec.errors import (
    CertificateError,
    InputError,
    NodeError,
    ParseError,
    UndeclaredCountError,
    UndeclaredEffectError,
    UndeclaredOutcomeError,
)
from graphexec.kernel.counters import MeasureError
from graphexec.kernel.events import Event, Moved
from graphexec.kernel.graph import Graph, require_graph
from graphexec.kernel.meters import Limits
from graphexec.kernel.node import Edge
from graphexec.testing.explorer.abstraction import (
    LooksBack,
    asked_shape,
    history,
    make_counters,
    shape,
)
from graphexec.testing.explorer.oracle import Oracle
from graphexec.testing.explorer.statespace import Endless, Events, Search, measure_extent
from graphexec.testing.explorer.stepping import Asking, Choice, Over, Stepping
from graphexec.testing.explorer.temporal import Assertion, unknown_names
from graphexec.verify.proof.flow import flow_of

S = TypeVar("S")

# More states than a machine of a dozen nodes and three limits has. It takes some seconds.
MOST_STATES = 100_000

# The exceptions of nodes that may end a run: an unreadable reply is not a mistake in a node.
RAISES: tuple[type[BaseException], ...] = (ParseError,)


# The width of an event in a message.
_WIDTH = 110

# Exceptions for nodes that break their declarations, or for bugs of the engine. They are never allowed.
CONTRACT_ERRORS = (
    UndeclaredOutcomeError,
    UndeclaredEffectError,
    UndeclaredCountError,
    MeasureError,
    NodeError,
    CertificateError,
)


@dataclass(frozen=True, slots=True)
class FoundRun:
    """A run of `graph` from `start` within `limits`; `choices` are what happened to its requests, in order."""

    graph: Graph[Any, Any]
    limits: Limits
    start: Any
    choices: tuple[Choice, ...]
    events: tuple[Event[Any], ...]

    @property
    def path(self) -> tuple[Edge, ...]:
        """The edges taken, in order. `draw(graph, "mermaid", marks=dict.fromkeys(path, "orange"))` shows them."""
        edges = {(edge.source, edge.outcome): edge for edge in self.graph.edges}
        return tuple(edges[event.node, type(event.outcome)] for event in self.events if type(event) is Moved)

    def describe(self) -> str:
        """Return the edges and choices of the run as text."""
        path = ", ".join(map(str, self.path)) or f"at {self.graph.start}"
        return f"{path}; the world {', '.join(map(str, self.choices)) or 'nothing'}"


@final
@dataclass(frozen=True, slots=True)
class Failure(FoundRun):
    """A shortest run that breaks `assertion`; its last event is the one that breaks it."""

    assertion: Assertion

    def __str__(self) -> str:
        last = textwrap.shorten(str(self.events[-1]), _WIDTH, placeholder="...")
        return f"{self.assertion} does not hold: {self.describe()}; the last event is {last}"


@final
@dataclass(frozen=True, slots=True)
class Raised(FoundRun):
    """A shortest run in which `node` raises `error`; none of its choices is an exception."""

    node: str
    error: Exception

    def __str__(self) -> str:
        return f"{self.node} raises {self.error!r}: {self.describe()}"


def remedy(error: BaseException) -> str:
    """Return the remedy for an exception that a node raises. A broken declaration cannot be allowed."""
    if isinstance(error, CONTRACT_ERRORS):
        return "fix the node"
    return f"let no node raise it, or pass raises=({type(error).__name__},)"


@final
@dataclass(frozen=True, slots=True)
class Exploration:
    """The result of exploring a machine.

    `runs` were followed, each until it ended or reached a known state; they stand for `paths` in all. `longest` is the
    most transitions of any run, `charges` the most that a run charges each meter that no reply reports. These are
    `None` if a run is `endless`.

    `endings` counts runs by the class of their outcome, and `exceptions` by the class of a node's exception. `raised`
    has the shortest run for each forbidden exception of a node.
    """

    runs: int
    states: int
    paths: int | None
    longest: int | None
    charges: Mapping[str, int] | None
    endings: Mapping[str, int]
    exceptions: Mapping[str, int]
    taken: tuple[Edge, ...]
    never_taken: tuple[Edge, ...]
    endless: Endless | None = None
    failures: tuple[Failure, ...] = ()
    raised: tuple[Raised, ...] = ()

    @property
    def model_calls(self) -> int | None:
        """The most model calls of a run."""
        return None if self.charges is None else self.charges.get(MODEL_CALLS.name, 0)

    @property
    def tool_calls(self) -> int | None:
        """The most tool calls of a run."""
        return None if self.charges is None else self.charges.get(TOOL_CALLS.name, 0)

    @property
    def holds(self) -> bool:
        """True if every run ends, no node raises a forbidden exception, and no assertion fails."""
        return self.endless is None and not self.failures and not self.raised

    def __str__(self) -> str:
        lines = [f"{self.runs:,} runs were followed, of {self.states:,} states"]
        if self.charges is not None:
            charges = (f"{amount:,} {name.replace('_', ' ')}" for name, amount in self.charges.items())
            most = ", ".join([f"{self.longest:,} transitions", *charges])
            lines = [f"{lines[0]}, for {self.paths:,} in all; at most {most}"]
        lines += [f"endless: {self.endless}"] if self.endless else []
        lines += [f"fails: {failure}" for failure in self.failures]
        lines += [f"raises: {raised}" for raised in self.raised]
        exceptions = ", ".join(f"{name} in {runs:,} runs" for name, runs in self.exceptions.items())
        lines += [f"exceptions of nodes: {exceptions}"] if exceptions else []
        return "\n".join([*lines, *(f"never taken: {never}" for never in self.never_taken)])


def explore(  # noqa: PLR0913 - all but the first four have defaults
    graph: Graph[S, Any],
    limits: Limits,
    start: S,
    oracle: Oracle,
    *,
    properties: Sequence[Assertion] = (),
    raises: tuple[type[BaseException], ...] = RAISES,
    prune: bool = True,
    most_states: int = MOST_STATES,
    context: object = None,
) -> Exploration:
    """Explore every run of `graph` from `start` within `limits`, with every reply that `oracle` lists.

    At each request, an unusual reply is tried, too, up to the next request: a node must not fail.

    If the limits have `seconds`, replies also come late, and effects are cut off. A run may crash whenever it waits; it
    is resumed from its JSON as often as the limits allow `restarts`. `context` is the context of the runs. Each of the
    `properties` that fails becomes a `Failure` with its shortest run; an exception of a node that is not in `raises`
    becomes a `Raised`.

    Takes one expansion per state: about nodes times replies times the amounts left of each limit. Without `prune`,
    every run is followed to its end, and their number is exponential.

    Raises `InputError` for more than `most_states`, for an assertion that names an unknown node or tool, and if `graph`
    is not a graph.
    """
    require_graph(graph, "explore(executor.graph, ...)")
    validate("explore", ("most_states", most_states, whole(1)))
    if unknown := [text for one in properties for text in unknown_names(one, graph.nodes, oracle.tools)]:
        raise InputError("\n".join(unknown))
    stepping, allowed = Stepping(graph, limits, context), {kind.__name__ for kind in raises}

    def expand(waiting: Asking) -> Iterator[tuple[Choice, Events, Asking | Over]]:
        failed = set(allowed)
        for choice in stepping.choices(waiting, oracle):
            events, then = stepping.advance(waiting, choice)
            failed |= {then.name} if isinstance(then, Over) else set()
            yield choice, events, then
        # Only to see whether a node fails in a further way: if such runs were followed, the states would be too many.
        for choice in stepping.unusual_choices(waiting, oracle):
            events, then = stepping.advance(waiting, choice)
            if isinstance(then, Over) and then.how in ("raised", "endless") and then.name not in failed:
                failed.add(then.name)
                yield choice, events, then

    numbers, looking = count(), [one for one in graph.find_settings(object) if isinstance(one, LooksBack)]
    spent_amounts = make_counters(limits, graph)

    def state_key(waiting: Asking) -> Hashable:
        if not prune:
            return next(numbers)
        node, value, spent = waiting.snapshot.node, waiting.snapshot.value, spent_amounts(waiting.snapshot.spent)
        asked = asked_shape(waiting.effect, oracle.words)
        values = (value, *waiting.snapshot.frames.values())
        calls = tuple([setting.distinguish(steps_of(one)) for one in values for setting in looking])
        return node, spent, tuple([shape(one, oracle.words) for one in values]), asked, history(waiting.had), calls

    space = Search(graph, expand, state_key, most_states, properties).run(*stepping.start_run(start))
    failures = [
        Failure(graph, limits, start, found.choices, found.events, assertion)
        for assertion, found in space.broken.items()
    ]
    raised = [
        Raised(graph, limits, start, found.choices, found.events, node, found.error)
        for (node, _), found in space.thrown.items()
        if found.error is not None and not isinstance(found.error, raises)
    ]
    return summarize(graph, space, failures, raised)


def summarize(
    graph: Graph[Any, Any], space: Search[Any, Any], failures: Sequence[Failure] = (), raised: Sequence[Raised] = ()
) -> Exploration:
    """Return the exploration that the states found amount to."""
    found = measure_extent(space)
    endless, whole = (found, None) if isinstance(found, Endless) else (None, found)
    paths = [path for _, path in space.rows()]
    ends = [path.target for path in paths if isinstance(path.target, Over)]
    taken = {edge for path in paths for edge in path.edges}

    def counted(how: str) -> Counter[str]:
        return Counter(over.name for over in ends if over.how == how)

    return Exploration(
        # Runs that ended, and runs that reached a known state.
        runs=len(paths) - len(space.paths),
        states=len(space.paths),
        paths=None if whole is None else whole.runs,
        longest=None if whole is None else whole.transitions,
        charges=None if whole is None else {name: whole.charges.get(name, 0) for name in flow_of(graph).bounded},
        endings=counted("done"),
        exceptions=counted("raised"),
        taken=tuple(edge for edge in graph.edges if edge in taken),
        never_taken=tuple(edge for edge in graph.edges if edge not in taken),
        endless=endless,
        failures=tuple(failures),
        raised=tuple(raised),
    )
