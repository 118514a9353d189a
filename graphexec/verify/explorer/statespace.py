"""The states that an exploration found, as a graph, and what follows from it.

A graph without a cycle has a longest run and a number of runs; one with a cycle has an endless run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from graphexec.kernel.events import Event
from graphexec.kernel.node import Edge
from graphexec.verify.explorer.stepping import Over
from graphexec.verify.explorer.temporal import Assertion
from graphexec.verify.paths import find_cycle, find_path, label_edges
from graphexec.verify.proof.components import strongly_connected_components

C = TypeVar("C")

Events: TypeAlias = tuple[Event[Any], ...]

# Before the first state.
_BEGIN = -1


@dataclass(frozen=True, slots=True)
class RunPath(Generic[C]):
    """One way on from a state: by which `choice`, over which edges, charging which meters, to a state or the end."""

    choice: C | None
    edges: tuple[Edge, ...]
    charges: Mapping[str, int]
    target: int | Over


@dataclass(frozen=True, slots=True)
class Discovery(Generic[C]):
    """The shortest run found that breaks an assertion or ends with an exception: its choices, and its events so far."""

    choices: tuple[C, ...]
    events: Events


@dataclass(frozen=True, slots=True)
class Space(Generic[C]):
    """The states found: how a run begins, and each state's ways.

    `broken` has the shortest run for each failed assertion, `thrown` for each node and name of an exception that it
    raises.
    """

    first: RunPath[C]
    ways: Sequence[Sequence[RunPath[C]]]
    broken: Mapping[Assertion, Discovery[C]]
    thrown: Mapping[tuple[str, str], Discovery[C]]

    def rows(self) -> Iterator[tuple[int, RunPath[C]]]:
        """Yield each way with the state that it leads on from, the beginning of a run first."""
        yield _BEGIN, self.first
        for number, ways in enumerate(self.ways):
            yield from ((number, way) for way in ways)


@dataclass(frozen=True, slots=True)
class Endless:
    """A run that need not end: the way to a loop, and the loop."""

    stem: tuple[Edge, ...]
    loop: tuple[Edge, ...]

    def __str__(self) -> str:
        way = " -> ".join(dict.fromkeys(edge.source for edge in self.stem)) or "the start"
        return f"{', '.join(map(str, self.loop))} can repeat for ever; reached by {way}"


@dataclass(frozen=True, slots=True)
class Extent:
    """The extent of runs: the most transitions of any, the most charged by meter, and how many runs there are."""

    transitions: int
    charges: Mapping[str, int]
    runs: int


def extent(space: Space[Any]) -> Extent | Endless:
    """The extent of all runs, or one that is endless. Takes linear time."""
    network = label_edges((number, way.target, way) for number, way in space.rows() if not isinstance(way.target, Over))
    for number, way in space.rows():
        if isinstance(way.target, Over) and way.target.how == "endless":
            return _endless_run(_edges(find_path(network, _BEGIN, number)), way.edges)
    following = {
        number: [way.target for way in ways if not isinstance(way.target, Over)]
        for number, ways in enumerate(space.ways)
    }
    known: dict[int, Extent] = {}
    for component in strongly_connected_components(following):
        number = min(component)
        if len(component) > 1 or number in following[number]:
            return Endless(_edges(find_path(network, _BEGIN, number)), _edges(find_cycle(network, number)))
        known[number] = _join_extents(space.ways[number], known)
    return _join_extents([space.first], known)


_OVER = Extent(0, {}, 1)


def _join_extents(ways: Iterable[RunPath[Any]], known: Mapping[int, Extent]) -> Extent:
    pairs = [(way, _OVER if isinstance(way.target, Over) else known[way.target]) for way in ways]
    meters = dict.fromkeys(meter for way, then in pairs for meter in (*way.charges, *then.charges))
    return Extent(
        max(len(way.edges) + then.transitions for way, then in pairs),
        {meter: max(way.charges.get(meter, 0) + then.charges.get(meter, 0) for way, then in pairs) for meter in meters},
        sum(then.runs for _, then in pairs),
    )


def _endless_run(stem: tuple[Edge, ...], edges: tuple[Edge, ...]) -> Endless:
    """Return the endless run that took these edges without a request; the last round of it is its loop."""
    last = edges[-1].target
    sizes = [size for size in range(1, len(edges) + 1) if edges[-size].source == last]
    # The last ways back to the node where it was left: the shortest that was gone round twice, or else the shortest.
    size = next((size for size in sizes if edges[-size:] == edges[-2 * size : -size]), sizes[0])
    rest = len(edges) - size
    while rest > 0 and edges[rest - 1] == edges[rest - 1 + size]:
        rest -= 1
    return Endless((*stem, *edges[:rest]), edges[rest : rest + size])


def _edges(ways: Iterable[RunPath[Any]] | None) -> tuple[Edge, ...]:
    return tuple(edge for way in ways or () for edge in way.edges)
