"""Search every state of a machine once, by the shortest run that reaches it."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from graphexec.errors import InputError
from graphexec.kernel.effects import members_of
from graphexec.kernel.events import Asked, Moved
from graphexec.kernel.graph import Graph
from graphexec.kernel.node import Edge
from graphexec.testing.explorer.statespace import Discovery, Events, RunPath, Space
from graphexec.testing.explorer.stepping import Over
from graphexec.testing.explorer.temporal import BROKEN, Assertion, charges_of

P = TypeVar("P")
C = TypeVar("C")
K = TypeVar("K")


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

    def space(self, events: Events, first: P | Over) -> Space[C]:
        """Explore from the place `first`, which a run reaches with these events. Takes one expansion per state.

        Raises `InputError` if there are more than `most_states`.
        """
        self._edges = {(edge.source, edge.outcome): edge for edge in self.graph.edges}
        self._found: list[_Found[P, C]] = []
        self._numbers: dict[Hashable, int] = {}
        self._queue: list[tuple[int, int]] = []
        self._broken: dict[Assertion, tuple[int, Discovery[C]]] = {}
        self._thrown: dict[tuple[str, str], tuple[int, Discovery[C]]] = {}
        first_path = self._path(None, None, tuple(assertion.start for assertion in self.assertions), events, first)
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
        broken = {assertion: found for assertion, (_, found) in self._broken.items()}
        thrown = {place: found for place, (_, found) in self._thrown.items()}
        return Space(first_path, [paths[number] for number in range(len(self._found))], broken, thrown)

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
            run = self._run(before, choice, events)
            node = next((event.target for event in reversed(run.events) if type(event) is Moved), self.graph.start)
            self._note(self._thrown, (node, then.name), length, run)
        return RunPath(choice, tuple(edges), charges, then)

    def _number_of(self, found: _Found[P, C]) -> int:
        key = (self.state_key(found.place), found.states)
        number = self._numbers.setdefault(key, len(self._found))
        if number == self.most_states:
            raise InputError(
                f"the exploration has found {self.most_states} states and is not done; lower the limits, give fewer "
                f"replies, or pass most_states="
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
