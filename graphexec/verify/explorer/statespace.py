"""What an exploration found, as a graph of states, and what can be read off it without running anything again.

States are numbered in the order in which they are found, the shortest way first. Each state's ways lead to other
states or to the end of a run. A graph without a cycle has a longest run and a number of runs, by dynamic programming;
one with a cycle has an endless run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, final

from graphexec.kernel.events import Event
from graphexec.kernel.node import Edge
from graphexec.verify.explorer.stepping import Over
from graphexec.verify.explorer.temporal import Assertion
from graphexec.verify.proof.paths import find_cycle, find_path, label_edges

if TYPE_CHECKING:
    import networkx as nx

C = TypeVar("C")

Events: TypeAlias = tuple[Event[Any], ...]


@final
@dataclass(frozen=True, slots=True)
class RunPath(Generic[C]):
    """One way on from a state: by which `choice`, over which edges, charging which meters, to a state or the end."""

    choice: C | None
    edges: tuple[Edge, ...]
    charges: Mapping[str, int]
    target: int | Over


@final
@dataclass(frozen=True, slots=True)
class Broken(Generic[C]):
    """The shortest run found that breaks an assertion: its choices, and its events up to the one that breaks it."""

    assertion: Assertion
    choices: tuple[C, ...]
    events: Events


@final
@dataclass(frozen=True, slots=True)
class Thrown(Generic[C]):
    """The shortest run found that ends with an exception of a node's: its choices, and its events up to then."""

    node: str
    name: str
    choices: tuple[C, ...]
    events: Events


@final
@dataclass(frozen=True, slots=True)
class Space(Generic[C]):
    """The states found: how a run begins, and each state's ways.

    And the shortest run for each assertion that fails, and for each class of exceptions that a node raises.
    """

    first: RunPath[C]
    ways: Sequence[Sequence[RunPath[C]]]
    broken: tuple[Broken[C], ...]
    thrown: tuple[Thrown[C], ...] = ()

    def __iter__(self) -> Iterator[RunPath[C]]:
        yield self.first
        for ways in self.ways:
            yield from ways


@final
@dataclass(frozen=True, slots=True)
class Endless:
    """A run that need not end: the way to a loop, and the loop."""

    stem: tuple[Edge, ...]
    loop: tuple[Edge, ...]

    def __str__(self) -> str:
        way = " -> ".join(dict.fromkeys(edge.source for edge in self.stem)) or "the start"
        return f"{', '.join(map(str, self.loop))} can repeat for ever; reached by {way}"


@final
@dataclass(frozen=True, slots=True)
class Extent:
    """How long runs can be: the most transitions of any, the most charged by meter, and how many runs there are."""

    transitions: int
    charges: Mapping[str, int]
    runs: int


def extent(space: Space[Any]) -> Extent | Endless:
    """The extent of all runs, or one that is endless. Costs one pass over the ways."""
    for number, ways in ((None, [space.first]), *enumerate(space.ways)):
        for way in ways:
            if isinstance(way.target, Over) and way.target.how == "endless":
                return _going_round(() if number is None else _way_to(space, number), way.edges)
    order, looping = _ordered(space)
    if looping is not None:
        return Endless(_way_to(space, looping), _edges(find_cycle(_network(space), looping)))
    known: dict[int, Extent] = {}
    for number in order:
        known[number] = _joined(space.ways[number], known)
    return _joined([space.first], known)


_OVER = Extent(0, {}, 1)


def _joined(ways: Iterable[RunPath[Any]], known: Mapping[int, Extent]) -> Extent:
    pairs = [(way, _OVER if isinstance(way.target, Over) else known[way.target]) for way in ways]
    meters = dict.fromkeys(meter for way, then in pairs for meter in (*way.charges, *then.charges))
    return Extent(
        max(len(way.edges) + then.transitions for way, then in pairs),
        {meter: max(way.charges.get(meter, 0) + then.charges.get(meter, 0) for way, then in pairs) for meter in meters},
        sum(then.runs for _, then in pairs),
    )


def _ordered(space: Space[Any]) -> tuple[list[int], int | None]:
    """The states, each behind all that it leads to; and a state on a cycle, if there is one."""
    order: list[int] = []
    if isinstance(space.first.target, Over):
        return order, None
    done: set[int] = set()
    open_: dict[int, Iterator[int]] = {}
    stack = [space.first.target]
    while stack:
        number = stack[-1]
        if number not in open_:
            open_[number] = iter({way.target for way in space.ways[number] if not isinstance(way.target, Over)} - done)
        following = next((target for target in open_[number] if target not in done), None)
        if following is None:
            done.add(number)
            order.append(number)
            stack.pop()
        elif following in open_:
            return order, following
        else:
            stack.append(following)
    return order, None


def _going_round(stem: tuple[Edge, ...], edges: tuple[Edge, ...]) -> Endless:
    """The run that took all these edges without asking for anything: the last round of it is its loop."""
    last = edges[-1].target
    sizes = [size for size in range(1, len(edges) + 1) if edges[-size].source == last]
    # The last ways back to the node where it was left: the shortest that was gone round twice, or else the shortest.
    size = next((size for size in sizes if edges[-size:] == edges[-2 * size : -size]), sizes[0])
    rest = len(edges) - size
    while rest > 0 and edges[rest - 1] == edges[rest - 1 + size]:
        rest -= 1
    return Endless((*stem, *edges[:rest]), edges[rest : rest + size])


def _way_to(space: Space[Any], number: int) -> tuple[Edge, ...]:
    """The edges of a way with the fewest choices to a state."""
    return _edges(find_path(_network(space), _BEGIN, number) or ())


def _edges(ways: Iterable[RunPath[Any]]) -> tuple[Edge, ...]:
    return tuple(edge for way in ways for edge in way.edges)


# Before the first state.
_BEGIN = -1


def _network(space: Space[Any]) -> nx.DiGraph[int]:
    """The states, with the ways between them as labels."""
    rows = ((_BEGIN, [space.first]), *enumerate(space.ways))
    return label_edges(
        (number, way.target, way) for number, ways in rows for way in ways if not isinstance(way.target, Over)
    )
