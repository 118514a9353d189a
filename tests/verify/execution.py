"""One run of the table on the real engine: the one that a witness tells of, or the one that an adversary chooses."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import chain, cycle, islice
from typing import Any

from graphexec.kernel import Edge, Graph, Limits, Ranks, Snapshot
from graphexec.verify.explorer.stepping import Over
from graphexec.verify.explorer.stub_nodes import Pull, Pulled, Puppets
from graphexec.verify.proof.findings import Witness
from graphexec.verify.proof.flow import Transition


def execute(graph: Graph[Any, Any], witness: Witness, steps: int) -> int:
    """Make the engine follow the witness, its stem and then its loop repeatedly, for at most so many transitions.

    Returns the number taken: `steps`, if the loop is one. Where it is in the states that it was in a round before, it
    takes the same way for ever, and is not followed any more. Raises `AssertionError` if the engine goes another way.
    """
    puppets = Puppets(graph, witness.limits)
    places: list[Snapshot | Over] = [puppets.begun()]
    seen: set[Hashable] = set()
    for taken, transition in enumerate(islice(chain(witness.stem, cycle(witness.loop)), steps)):
        rounds = taken - len(witness.stem)
        if rounds >= 0 and not rounds % len(witness.loop):
            states = frozenset(puppets.alike(place) for place in places if not isinstance(place, Over))
            if states in seen:
                break
            seen.add(states)
        pulled = _onward(puppets, places)
        following = [one.then for one in pulled if _is(one, transition)]
        if not following:
            ways = ", ".join(f"{one.kind} {one.moved and one.moved.target}" for one in pulled if one.kind)
            raise AssertionError(
                f"{transition} ({transition.kind}) was to be step {taken + 1}; at {_where(places[0])} the engine can "
                f"only go: {ways or 'nowhere'}"
            )
        places = following
    return steps if witness.loop else min(steps, len(witness.stem))


def _onward(puppets: Puppets, places: Iterable[Snapshot | Over]) -> list[Pulled]:
    """Return every step on from any of these places, or from where they crash."""
    seen: dict[Hashable, Snapshot] = {}
    found: list[Pulled] = []
    waiting = list(places)
    while waiting:
        place = waiting.pop()
        if isinstance(place, Over) or seen.setdefault(puppets.alike(place), place) is not place:
            continue
        steps = [pulled for _, pulled in puppets.steps(place)]
        found += steps
        waiting += [pulled.then for pulled in steps if pulled.kind is None]
    return found


def _where(snapshot: Snapshot | Over) -> str:
    # Bare values cannot be shown.
    return "the end" if isinstance(snapshot, Over) else f"{snapshot.node} with {snapshot.spent}"


def _is(pulled: Pulled, transition: Transition) -> bool:
    moved = pulled.moved
    return (
        moved is not None
        and pulled.kind == transition.kind
        and (moved.node, type(moved.outcome).__name__, moved.target)
        == (transition.source, transition.outcome, transition.target)
    )


def adversary(
    graph: Graph[Any, Any],
    limits: Limits,
    choose: Callable[[Sequence[Pull]], Pull],
    most: int,
    *,
    ranks: Ranks | None = None,
) -> tuple[Edge, ...]:
    """Return the edges of a run of the puppets that `choose` pulls, up to its end or `most` transitions."""
    edges = {(edge.source, edge.outcome): edge for edge in graph.edges}
    puppets = Puppets(graph, limits, ranks)
    snapshot: Snapshot | Over = puppets.begun()
    trace: list[Edge] = []
    while len(trace) < most and not isinstance(snapshot, Over):
        pulled = puppets.pulled(snapshot, choose(list(puppets.pulls(snapshot))))
        snapshot = pulled.then
        if pulled.moved is not None:
            trace.append(edges[pulled.moved.node, type(pulled.moved.outcome)])
    return tuple(trace)
