"""Put pieces into an agent's machine: every edge of a class to its home then passes the pieces that take the class."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from graphexec.actions import NO_RUN, AgentFinish, Run, StoppedResponse, run_of
from graphexec.agents import Agent
from graphexec.effects import CallAgent, CallTool, ModelEffect
from graphexec.errors import Fault, GraphError, InputError
from graphexec.executor.nodes import Edit, edit_request
from graphexec.executor.outcomes import Ready, Stopped
from graphexec.executor.plugging.memory import attach_run, is_save_node, save_memory
from graphexec.executor.plugging.piece import HOMES, ONCE, Piece, assign_seats
from graphexec.kernel.effects import All, Request
from graphexec.kernel.graph import Graph, M, Route, Routes, Table, change_table
from graphexec.kernel.node import END, Edge, Node
from graphexec.kernel.tables import reachable

F = TypeVar("F")


def plug(machine: M, pieces: Sequence[Piece]) -> M:
    """Return the machine with these pieces, in their order.

    Raises `GraphError` for names that are taken, for outcomes without a home, for a node that asks a model behind a
    piece that reveals, for one that asks before a piece that must come first, and for an agent of a piece that calls a
    tool past the piece that gates it.
    """
    if not pieces:
        return machine
    # In a machine with a memory, endings lead to the node that saves them.
    end = save_memory.name if save_memory.name in machine else END.name
    homes = {kind: end if home == END.name else home for kind, home in HOMES.items()}
    faults = [*_find_taken_names(machine, pieces), *_find_missing_homes(machine, homes, pieces), *_find_ungated(pieces)]
    ways = _make_ways(pieces, homes)
    added = [edge for piece in pieces for edge in _edges_of(piece, ways, faults)]
    if faults:
        raise GraphError(faults)
    edges, start = _redirect(machine, ways, homes)
    asking = [hide_requests(one, pieces) for piece in pieces for one in piece.nodes]
    nodes = [attach_run(one) for one in (*machine, *asking)]
    changed = change_table(machine, nodes, [*edges, *added], start)
    if found := [*_find_leaks(changed, pieces), *_find_early(changed, pieces)]:
        raise GraphError(found)
    return changed


def pass_on(
    table: Table[F],
    machine: Graph[Any, Any],
    after: Node[Any, Any] | Sequence[Node[Any, Any]],
    on: type | Sequence[type],
) -> Table[F]:
    """Return the rows of nodes that are spliced into an edge to a home, with what they pass on led where it led.

    A route to the home itself would bypass the pieces before it.
    """
    # Any: users without a type checker pass other values, which `splice` reports.
    sources: list[Any] = [*after] if isinstance(after, (list, tuple)) else [after]
    kinds: list[Any] = [*on] if isinstance(on, (list, tuple)) else [on]
    names = {getattr(one, "name", "") for one in sources}
    led = {(edge.outcome, edge.target) for edge in machine.edges if edge.source in names and edge.outcome in kinds}

    def follow(route: Route) -> Route:
        targets = [target for kind, target in led if kind is route.outcome and target in machine]
        if len(targets) != 1 or route.target.name != HOMES.get(route.outcome):
            return route
        return dataclasses.replace(route, target=machine[targets[0]])

    return Table(tuple((source, Routes(tuple(map(follow, routes.routes)))) for source, routes in table.rows))


def _make_ways(pieces: Sequence[Piece], homes: Mapping[type, str]) -> dict[type | str, list[str]]:
    """Return for each class the nodes on its way: of the pieces that take it, in their order, and its home."""
    seats, by_name = assign_seats(pieces), {piece.name: piece for piece in pieces}
    ways: dict[type | str, list[str]] = {
        kind: [*(by_name[name].entries(kind)[0].name for name in seats[kind]), home] for kind, home in homes.items()
    }
    once = [by_name[name].entries(Ready)[0].name for name in seats[ONCE]]
    return {**ways, ONCE: [*once, *ways[Ready]]}


def _edges_of(piece: Piece, ways: Mapping[type | str, list[str]], faults: list[Fault]) -> Iterator[Edge]:
    """Yield the edges of the piece's nodes: what came with a class goes on past the piece, all else from the start."""
    own = {kind: one.name for one in piece.nodes for kind in one.takes if kind not in HOMES}
    for one in piece.nodes:
        for outcome in one.outcomes:
            if outcome in own:
                yield Edge(one.name, outcome, own[outcome])
            elif outcome in HOMES:
                target = ways[outcome][0]
                for entry in piece.entries(outcome):
                    if one in piece.inside(entry):
                        way = ways[ONCE if piece.once and outcome is Ready else outcome]
                        target = way[way.index(entry.name) + 1]
                yield Edge(one.name, outcome, target)
            else:
                homes = ", ".join(kind.__name__ for kind in HOMES)
                text = (
                    f"{one.name} returns {outcome.__name__}, which has no home, and no node of {piece.name} takes "
                    f"it; return one of {homes}, or add a node that takes {outcome.__name__} to the piece"
                )
                faults.append(Fault("GX028", one.name, outcome.__name__, text))


def _redirect(
    machine: Graph[Any, Any], ways: Mapping[type | str, list[str]], homes: Mapping[type, str]
) -> tuple[list[Edge], str]:
    """Return the machine's edges, each with the pieces before its home, and the start."""
    home, end = homes[Ready], homes[AgentFinish]
    # What the first decision leads to; other sources run before it.
    later = reachable(home, [(edge.source, edge.target) for edge in machine.edges])
    edges: list[Edge] = []
    for edge in machine.edges:
        target = edge.target
        if not is_save_node(edge.source):
            # A node that surgery has added may end the run past the node that saves it.
            target = end if target == END.name else target
            if homes.get(edge.outcome) == target:
                first = edge.outcome is Ready and edge.source not in later
                target = ways[ONCE if first else edge.outcome][0]
        edges.append(dataclasses.replace(edge, target=target))
    return edges, ways[ONCE][0] if machine.start == home else machine.start


def _find_taken_names(machine: Graph[Any, Any], pieces: Sequence[Piece]) -> Iterator[Fault]:
    names = [*machine.nodes, *(one.name for piece in pieces for one in piece.nodes)]
    for name in dict.fromkeys(one.name for piece in pieces for one in piece.nodes):
        if names.count(name) > 1:
            owners = [other.name for other in pieces if name in [node.name for node in other.nodes]]
            where = " and ".join(owners) if len(owners) > 1 else f"the machine and {owners[0]}"
            text = f"{where} have a node {name}; rename one of the functions, or unplug a piece"
            yield Fault("GX020", name, None, text)


def _find_missing_homes(
    machine: Graph[Any, Any], homes: Mapping[type, str], pieces: Sequence[Piece]
) -> Iterator[Fault]:
    for piece in pieces:
        for kind in piece.takes:
            if homes[kind] not in (*machine.nodes, END.name):
                text = (
                    f"{piece.name} takes {kind.__name__}, whose home {homes[kind]} is not in the machine; make the "
                    "machine from executor.graph, or splice the node into an edge"
                )
                yield Fault("GX028", piece.name, kind.__name__, text)


def _find_ungated(pieces: Sequence[Piece]) -> Iterator[Fault]:
    """Yield the tools that one piece gates, and that the agents of another call without a gate."""
    for gate in pieces:
        for piece in pieces:
            for name in sorted({*gate.tool_names} & {*piece.ungated}) if gate.gates else ():
                text = (
                    f"{piece.name} has an agent that calls {name} past {gate.name}; plug a piece like {gate.name} into "
                    f"the executor of that agent, or make it without {name}"
                )
                yield Fault("GX030", piece.name, None, text)


def _find_leaks(machine: Graph[Any, Any], pieces: Sequence[Piece]) -> Iterator[Fault]:
    """Yield the nodes that ask a model, and can be reached with an ending that a piece has revealed."""
    steps = [(edge.source, edge.target) for edge in machine.edges]
    seats = assign_seats(pieces)
    for piece in pieces:
        if not piece.reveals:
            continue
        revealing = [one.name for one in piece.nodes if {AgentFinish, StoppedResponse} & {*one.takes}]
        behind = {name for source in revealing for name in reachable(source, steps) if name != source}
        asking = [one.name for one in machine if one.name in behind and one.grace is None and _asks_model(one)]
        if asking:
            chains = [seats[kind] for kind in (AgentFinish, StoppedResponse)]
            behind_it = [chain[chain.index(piece.name) + 1 :] for chain in chains if piece.name in chain]
            later = dict.fromkeys(name for chain in behind_it for name in chain)
            text = (
                f"{', '.join(asking)} may ask a model after {piece.name}, which reveals what is for people only; put "
                f"{piece.name} before {', '.join(later)} in the list, so that it comes last on the way out"
            )
            yield Fault("GX030", piece.name, None, text)


def _find_early(machine: Graph[Any, Any], pieces: Sequence[Piece]) -> Iterator[Fault]:
    """Yield the nodes that ask a model or call a tool before a piece that must come first has seen the inputs.

    It is one that runs once, and gates or reveals. A piece that gates may itself ask before another one does.
    """
    gates = {piece.name for piece in pieces if piece.gates}
    for piece in pieces:
        if not (piece.once and (piece.gates or piece.reveals)):
            continue
        first = {one.name for one in piece.entries(Ready)}
        edges = [(edge.source, edge.target) for edge in machine.edges if edge.outcome not in _STOPS]
        before = {*reachable(machine.start, [edge for edge in edges if edge[1] not in first])}
        for one in machine:
            asks = _asks_model(one) or CallTool in one.effects
            if machine.start not in first and one.name in before and one.group not in gates - {""} and asks:
                group = one.group or one.name
                text = f"{one.name} asks before {piece.name} is done; put {piece.name} before {group} in the list"
                yield Fault("GX030", one.name, None, text)


# What ends a run: nothing that follows may ask, except for the last word of a stopped run.
_STOPS = (AgentFinish, Stopped, StoppedResponse)


def _asks_model(one: Node[Any, Any]) -> bool:
    """Return whether a node may ask a model."""
    return any(issubclass(kind, (ModelEffect, CallAgent)) for kind in one.effects)


def edits_of(agent: Agent, pieces: Sequence[Piece]) -> tuple[Edit, ...]:
    """Return the changes that pieces make to an agent's requests, in the order of the pieces.

    Raises `InputError` for an agent that makes no requests, which a function decides.
    """
    edits = tuple(piece.edits for piece in pieces if piece.edits is not None)
    if edits and agent.function is not None:
        raise InputError(
            f"a piece changes the requests of the agent, and a {agent.kind} agent makes none; make the agent with "
            "create_agent, or leave out the piece"
        )
    typed = (piece.output.edit_for(agent) for piece in pieces if piece.output is not None)
    return (*(edit for edit in typed if edit is not None), *edits)


def hide_requests(source: Node[Any, Any], pieces: Sequence[Piece]) -> Node[Any, Any]:
    """Return a piece's node that makes the edits of the pieces that reveal in each of its requests to a model.

    A node that asks no model stays as it is.
    """
    edits = [piece.edits for piece in pieces if piece.reveals and piece.edits is not None]
    if not edits or source.kind != "asks" or not any(issubclass(kind, ModelEffect) for kind in source.effects):
        return source
    function: Callable[..., Generator[Request, Any, Any]] = source.function

    def call_generator(value: Any, **settings: Any) -> Generator[Request, Any, Any]:
        run = run_of(value) or NO_RUN
        inner = function(value, **settings)
        try:
            request = next(inner)
            while True:
                try:
                    reply = yield _edit(request, edits, run)
                # The node may handle what the engine raises in it.
                except BaseException as error:  # noqa: BLE001
                    request = inner.throw(error)
                else:
                    request = inner.send(reply)
        except StopIteration as done:
            return done.value

    return dataclasses.replace(source, function=functools.update_wrapper(call_generator, function))


def _edit(asked: Request, edits: Sequence[Edit], run: Run) -> Request:
    if isinstance(asked, All):
        return dataclasses.replace(asked, effects=tuple(edit_request(one, edits, run) for one in asked.effects))
    return edit_request(asked, edits, run)
