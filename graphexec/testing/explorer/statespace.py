"""The graph of the states that an exploration found, and the extent of its runs.

A graph without a cycle has a longest run and a number of runs; one with a cycle has an endless run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from graphexec.kernel.events import Event
from graphexec.kernel.node import Edge
from graphexec.testing.explorer.stepping import Over
from graphexec.testing.explorer.temporal import Assertion
from graphexec.verify.paths import find_cycle, find_path, label_edges
from graphexec.verify.proof.components import strongly_connected_components

C = TypeVar("C")

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


@dataclass(frozen=True, slots=True)
class Space(Generic[C]):
    """The states found: `first` is the beginning of a run, and `paths` are the continuations of each state.

    `broken` has the shortest run for each failed assertion, `thrown` for each node and the exception it raises.
    """

    first: RunPath[C]
    paths: Sequence[Sequence[RunPath[C]]]
    broken: Mapping[Assertion, Discovery[C]]
    thrown: Mapping[tuple[str, str], Discovery[C]]

    def rows(self) -> Iterator[tuple[int, RunPath[C]]]:
        """Yield each path with the state that it starts from; the beginning of a run comes first."""
        yield _BEGIN, self.first
        for number, paths in enumerate(self.paths):
            yield from ((number, path) for path in paths)


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


def measure_extent(space: Space[Any]) -> Extent | Endless:
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
        max(len(path.edges) + then.transitions for path, then in pairs),
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
