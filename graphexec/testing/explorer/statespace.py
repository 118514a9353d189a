"""Search every state of a machine once, by the shortest run that reaches it, and measure the extent of its runs.

A graph of states without a cycle has a longest run and a number of runs; one with a cycle has an endless run.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Self, TypeAlias, TypeVar

from graphexec.errors import InputError
from graphexec.kernel.effects import members_of
from graphexec.kernel.events import Asked, Event, Moved
from graphexec.kernel.graph import Graph
from graphexec.kernel.node import Edge
from graphexec.testing.explorer.stepping import Over
from graphexec.testing.explorer.temporal import BROKEN, Assertion, charges_of
from graphexec.verify.paths import find_cycle, find_path, label_edges, strongly_connected_components

P = TypeVar("P")
C = TypeVar("C")
K = TypeVar("K")

Events: TypeAlias = tuple[Event[Any], ...]

# The number that stands for the beginning of a run.
_BEGIN = -1


@dataclass(frozen=True, slots=True)
class RunPath(Generic[C]):
    """One continuation from a state: the `choice`, the edges taken, the charges, and the next state or the end."""

    choice: C | None
    edges: tuple[Edge, ...]
    charges: Mapping[str, int]
    target: int | Over


@dataclass(frozen=True, slots=True)
class Discovery(Generic[C]):
    """The shortest run found that breaks an assertion or ends with an exception: its choices, and its events so far."""

    choices: tuple[C, ...]
    events: Events
    error: Exception | None = None


@dataclass(slots=True)
class _Found(Generic[P, C]):
    """A state during the search, with the shortest path to it."""

    place: P
    states: tuple[Hashable, ...]
    length: int
    before: int | None
    choice: C | None
    events: Events


@dataclass
class Search(Generic[P, C]):
    """The states of a graph found so far, and the queue of states to expand, the shortest run first.

    `expand` yields the continuations of a place: a choice, its events, and the next place or the end of the run. Places
    with the same `state_key` and the same states of the assertions are one state.
    """

    graph: Graph[Any, Any]
    expand: Callable[[P], Iterable[tuple[C, Events, P | Over]]]
    state_key: Callable[[P], Hashable]
    most_states: int
    assertions: Sequence[Assertion] = ()

    def run(self, events: Events, first: P | Over) -> Self:
        """Explore from the place `first`, which a run reaches with these events. Takes one expansion per state.

        Afterwards `first` is the beginning of a run, and `paths` are the continuations of each state. `broken` has the
        shortest run for each failed assertion, `thrown` for each node and the exception it raises. Raises `InputError`
        if there are more than `most_states`.
        """
        self._edges = {(edge.source, edge.outcome): edge for edge in self.graph.edges}
        self._found: list[_Found[P, C]] = []
        self._numbers: dict[Hashable, int] = {}
        self._queue: list[tuple[int, int]] = []
        self._broken: dict[Assertion, tuple[int, Discovery[C]]] = {}
        self._thrown: dict[tuple[str, str], tuple[int, Discovery[C]]] = {}
        starts = tuple(assertion.start for assertion in self.assertions)
        self.first: RunPath[C] = self._path(None, None, starts, events, first)
        paths: dict[int, list[RunPath[C]]] = {}
        while self._queue:
            length, number = heapq.heappop(self._queue)
            state = self._found[number]
            # A shorter path was found after the state was queued.
            if number in paths or length > state.length:
                continue
            paths[number] = [
                self._path(number, choice, state.states, passed, then)
                for choice, passed, then in self.expand(state.place)
            ]
        self.paths: Sequence[Sequence[RunPath[C]]] = [paths[number] for number in range(len(self._found))]
        self.broken = {assertion: found for assertion, (_, found) in self._broken.items()}
        self.thrown = {place: found for place, (_, found) in self._thrown.items()}
        return self

    def rows(self) -> Iterator[tuple[int, RunPath[C]]]:
        """Yield each path with the state that it starts from; the beginning of a run comes first."""
        yield _BEGIN, self.first
        for number, paths in enumerate(self.paths):
            yield from ((number, path) for path in paths)

    def _path(
        self, before: int | None, choice: C | None, states: tuple[Hashable, ...], events: Events, then: P | Over
    ) -> RunPath[C]:
        edges: list[Edge] = []
        charges: Counter[str] = Counter()
        length = 0 if before is None else self._found[before].length
        for place, event in enumerate(events, 1):
            if type(event) is Moved:
                edges.append(self._edges[event.node, type(event.outcome)])
                length += 1
            elif type(event) is Asked:
                charges.update(charges_of(members_of(event.effect)))
            if not self.assertions:
                continue
            following = tuple(
                assertion.after(state, event) for assertion, state in zip(self.assertions, states, strict=True)
            )
            for assertion, was, now in zip(self.assertions, states, following, strict=True):
                if now == BROKEN != was:
                    self._note(self._broken, assertion, length, self._run(before, choice, events[:place]))
            states = following
        if not isinstance(then, Over):
            number = self._number_of(_Found(then, states, length, before, choice, events))
            return RunPath(choice, tuple(edges), charges, number)
        if then.how == "raised":
            run = replace(self._run(before, choice, events), error=then.error)
            # Only the shortest run keeps its exception, which refers to frames.
            then = replace(then, error=None)
            node = next((event.target for event in reversed(run.events) if type(event) is Moved), self.graph.start)
            self._note(self._thrown, (node, then.name), length, run)
        return RunPath(choice, tuple(edges), charges, then)

    def _number_of(self, found: _Found[P, C]) -> int:
        key = (self.state_key(found.place), found.states)
        number = self._numbers.setdefault(key, len(self._found))
        if number == self.most_states:
            raise InputError(
                f"the exploration has found {self.most_states} states and is not done; lower the limits, give fewer "
                f"replies, or pass most_states= to explore"
            )
        if number == len(self._found):
            self._found.append(found)
        elif found.length < self._found[number].length:
            self._found[number] = found
        else:
            return number
        heapq.heappush(self._queue, (found.length, number))
        return number

    def _note(self, known: dict[K, tuple[int, Discovery[C]]], key: K, length: int, found: Discovery[C]) -> None:
        if key not in known or length < known[key][0]:
            known[key] = length, found

    def _run(self, before: int | None, choice: C | None, events: Events) -> Discovery[C]:
        choices = [] if choice is None else [choice]
        while before is not None:
            state = self._found[before]
            events = (*state.events, *events)
            if state.choice is not None:
                choices.append(state.choice)
            before = state.before
        return Discovery(tuple(reversed(choices)), events)


@dataclass(frozen=True, slots=True)
class Endless:
    """A run that may never end: the path to a loop, and the loop."""

    stem: tuple[Edge, ...]
    loop: tuple[Edge, ...]

    def __str__(self) -> str:
        path = " -> ".join(dict.fromkeys(edge.source for edge in self.stem)) or "the start"
        return f"{', '.join(map(str, self.loop))} can repeat forever; reached by {path}"


@dataclass(frozen=True, slots=True)
class Extent:
    """The extent of runs: the most transitions of a run, the most charges by meter, and the number of runs."""

    transitions: int
    charges: Mapping[str, int]
    runs: int


def measure_extent(space: Search[Any, Any]) -> Extent | Endless:
    """Return the extent of all runs, or an endless run. Takes linear time."""
    network = label_edges(
        (number, path.target, path) for number, path in space.rows() if not isinstance(path.target, Over)
    )
    for number, path in space.rows():
        if isinstance(path.target, Over) and path.target.how == "endless":
            return _endless_run(_edges(find_path(network, _BEGIN, number)), path.edges)
    following = {
        number: [path.target for path in paths if not isinstance(path.target, Over)]
        for number, paths in enumerate(space.paths)
    }
    known: dict[int, Extent] = {}
    for component in strongly_connected_components(following):
        number = min(component)
        if len(component) > 1 or number in following[number]:
            return Endless(_edges(find_path(network, _BEGIN, number)), _edges(find_cycle(network, number)))
        known[number] = _join_extents(space.paths[number], known)
    return _join_extents([space.first], known)


_OVER = Extent(0, {}, 1)


def _join_extents(paths: Iterable[RunPath[Any]], known: Mapping[int, Extent]) -> Extent:
    pairs = [(path, _OVER if isinstance(path.target, Over) else known[path.target]) for path in paths]
    meters = dict.fromkeys(meter for path, then in pairs for meter in (*path.charges, *then.charges))
    return Extent(
        max((len(path.edges) + then.transitions for path, then in pairs), default=0),
        {
            meter: max(path.charges.get(meter, 0) + then.charges.get(meter, 0) for path, then in pairs)
            for meter in meters
        },
        sum(then.runs for _, then in pairs),
    )


def _endless_run(stem: tuple[Edge, ...], edges: tuple[Edge, ...]) -> Endless:
    """Return the endless run that took these edges without asking for an effect; its last round is the loop."""
    last = edges[-1].target
    sizes = [size for size in range(1, len(edges) + 1) if edges[-size].source == last]
    # Candidate loops end at the last node: take the shortest that was repeated, or else the shortest.
    size = next((size for size in sizes if edges[-size:] == edges[-2 * size : -size]), sizes[0])
    rest = len(edges) - size
    while rest > 0 and edges[rest - 1] == edges[rest - 1 + size]:
        rest -= 1
    return Endless((*stem, *edges[:rest]), edges[rest : rest + size])


def _edges(paths: Iterable[RunPath[Any]] | None) -> tuple[Edge, ...]:
    return tuple(edge for path in paths or () for edge in path.edges)
