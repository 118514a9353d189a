"""The search: every state of a machine once, by the shortest run that comes to it."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from graphexec.errors import InputError
from graphexec.kernel.events import Asked, Moved
from graphexec.kernel.graph import Graph
from graphexec.kernel.node import Edge
from graphexec.verify.explorer.statespace import Broken, Events, RunPath, Space, Thrown
from graphexec.verify.explorer.stepping import Over
from graphexec.verify.explorer.temporal import BROKEN, Assertion, members

P = TypeVar("P")
C = TypeVar("C")


@dataclass(slots=True)
class _Found(Generic[P, C]):
    """A state while it is explored, with the shortest way to it."""

    place: P
    states: tuple[Hashable, ...]
    length: int
    before: int | None
    choice: C | None
    events: Events


def search(
    graph: Graph[Any, Any],
    first: tuple[Events, P | Over],
    expand: Callable[[P], Iterable[tuple[C, Events, P | Over]]],
    alike: Callable[[P], Hashable],
    assertions: Sequence[Assertion] = (),
    *,
    most_states: int,
    own: Callable[[C | None], bool] = lambda _: True,
) -> Space[C]:
    """Explore from the place `first`, to which a run comes with some events. Costs one expansion for each state.

    `expand` gives the ways on from a place: a choice, the events that follow it, and the place that it leads to, or the
    end of the run. `alike` is what places must share to be one state, besides the states of the assertions. An
    exception that ends a run is the machine's `own` if that is so of the choice that it followed.

    Raises `InputError` if there are more than `most_states`.
    """
    return _Search(graph, expand, alike, assertions, most_states, own).space(*first)


class _Search(Generic[P, C]):
    """The states found so far, and the queue of those that are to be expanded, the shortest run first."""

    def __init__(
        self,
        graph: Graph[Any, Any],
        expand: Callable[[P], Iterable[tuple[C, Events, P | Over]]],
        alike: Callable[[P], Hashable],
        assertions: Sequence[Assertion],
        most_states: int,
        own: Callable[[C | None], bool],
    ) -> None:
        self._start = graph.start
        self._edges: Mapping[tuple[str, type], Edge] = {(edge.source, edge.outcome): edge for edge in graph.edges}
        self._expand = expand
        self._alike = alike
        self._assertions = tuple(assertions)
        self._most = most_states
        self._own = own
        self._found: list[_Found[P, C]] = []
        self._numbers: dict[Hashable, int] = {}
        self._queue: list[tuple[int, int]] = []
        self._broken: dict[Assertion, tuple[int, Broken[C]]] = {}
        self._thrown: dict[tuple[str, str], tuple[int, Thrown[C]]] = {}

    def space(self, events: Events, first: P | Over) -> Space[C]:
        start = tuple(assertion.start for assertion in self._assertions)
        begun = self._way(None, None, start, events, first)
        ways: dict[int, list[RunPath[C]]] = {}
        while self._queue:
            length, number = heapq.heappop(self._queue)
            state = self._found[number]
            # A shorter way to it was found after it was queued.
            if number in ways or length > state.length:
                continue
            ways[number] = [
                self._way(number, choice, state.states, passed, then)
                for choice, passed, then in self._expand(state.place)
            ]
        broken = tuple(broken for _, broken in self._broken.values())
        thrown = tuple(thrown for _, thrown in self._thrown.values())
        return Space(begun, [ways[number] for number in range(len(self._found))], broken, thrown)

    def _way(
        self, before: int | None, choice: C | None, states: tuple[Hashable, ...], events: Events, then: P | Over
    ) -> RunPath[C]:
        edges: list[Edge] = []
        charges: dict[str, int] = {}
        for place, event in enumerate(events):
            if type(event) is Moved:
                edges.append(self._edges[event.node, type(event.outcome)])
            elif type(event) is Asked:
                for member in members(event.effect):
                    for meter, amount in member.charges.items():
                        charges[meter.name] = charges.get(meter.name, 0) + amount
            if self._assertions:
                after = tuple(
                    assertion.after(state, event) for assertion, state in zip(self._assertions, states, strict=True)
                )
                self._judge(before, choice, states, after, events[: place + 1])
                states = after
        length = len(edges) + (0 if before is None else self._found[before].length)
        if isinstance(then, Over) and then.how == "raised" and self._own(choice):
            self._note(then.name, length, before, choice, events)
        target = (
            then if isinstance(then, Over) else self._numbered(_Found(then, states, length, before, choice, events))
        )
        return RunPath(choice, tuple(edges), charges, target)

    def _numbered(self, found: _Found[P, C]) -> int:
        key = (self._alike(found.place), found.states)
        number = self._numbers.get(key)
        if number is not None:
            if found.length < self._found[number].length:
                self._found[number] = found
                heapq.heappush(self._queue, (found.length, number))
            return number
        number = self._numbers[key] = len(self._found)
        if number >= self._most:
            raise InputError(
                f"the exploration has found {self._most} states and is not done; lower the limits, give fewer replies, "
                f"or pass most_states="
            )
        self._found.append(found)
        heapq.heappush(self._queue, (found.length, number))
        return number

    def _judge(
        self,
        before: int | None,
        choice: C | None,
        states: tuple[Hashable, ...],
        after: tuple[Hashable, ...],
        events: Events,
    ) -> None:
        """Note the assertions that the last of these events breaks, if no shorter run does."""
        for assertion, was, now in zip(self._assertions, states, after, strict=True):
            if now != BROKEN or was == BROKEN:
                continue
            known = self._broken.get(assertion)
            moves = sum(type(event) is Moved for event in events)
            length = moves + (0 if before is None else self._found[before].length)
            if known is None or length < known[0]:
                self._broken[assertion] = length, Broken(assertion, *self._run(before, choice, events))

    def _note(self, name: str, length: int, before: int | None, choice: C | None, events: Events) -> None:
        """Note the exception that a node raises, if no shorter run has it raise such a one."""
        choices, events = self._run(before, choice, events)
        node = next((event.target for event in reversed(events) if type(event) is Moved), self._start)
        known = self._thrown.get((node, name))
        if known is None or length < known[0]:
            self._thrown[node, name] = length, Thrown(node, name, choices, events)

    def _run(self, before: int | None, choice: C | None, events: Events) -> tuple[tuple[C, ...], Events]:
        """The choices and the events of the shortest run to a state, and of this way on from it."""
        choices = [] if choice is None else [choice]
        while before is not None:
            state = self._found[before]
            events = (*state.events, *events)
            if state.choice is not None:
                choices.append(state.choice)
            before = state.before
        return tuple(reversed(choices)), events
