"""The nodes that load a memory before the agent's first decision and save it at the end, and their place in a table."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeVar, final
from weakref import WeakSet

from graphexec.actions import NO_RUN, AgentFinish, Run, StoppedResponse, run_of
from graphexec.effects import LoadMemory, SaveMemory
from graphexec.errors import InputError
from graphexec.executor.inputs import InputKeys, outputs_of
from graphexec.executor.result import Ending
from graphexec.executor.table import (
    LimitReached,
    Ready,
    check_return_direct,
    generate_response,
    limit_reached,
    parse,
    parse_or_raise,
    stopped_response,
)
from graphexec.kernel.effects import Asks, Effect, ask
from graphexec.kernel.graph import Graph, Route, Routes, Table, check_table
from graphexec.kernel.meters import Exhausted
from graphexec.kernel.node import END, Edge, Node, charged, node, rename, reserved

S = TypeVar("S")
F = TypeVar("F")

# Seconds that a save has beyond what the rest of the machine may take, so that a run that its deadline stopped is
# saved: enough for a line in a file or a row in a local database, and too little for a caller to mind.
GRACE = 0.1


@final
@dataclass(frozen=True, slots=True)
class NotSaved:
    """A limit was spent before the ending was saved."""

    ending: Ending
    limit: Exhausted

    @property
    def run(self) -> Run:
        """The run that ended."""
        return self.ending.run


@charged(when_spent=limit_reached, asks=1)
@node
def load_memory(ready: Ready, keys: InputKeys) -> Asks[LoadMemory, Ready]:
    """Add what the memory knows to the inputs; what the caller passed counts more."""
    loaded = yield from ask(LoadMemory(ready.run.inputs))
    inputs = {**loaded, **ready.run.inputs}
    keys.require(*inputs)
    return Ready(Run(inputs, ready.run.steps))


@reserved(when_spent=NotSaved, asks=1, grace=GRACE)
@node
def save_memory(ending: AgentFinish | StoppedResponse) -> Asks[SaveMemory, AgentFinish | StoppedResponse]:
    """Tell the memory of the run's end, which stays as it is."""
    yield from ask(SaveMemory(ending.run.inputs, outputs_of(ending)))
    return ending


@node
def return_unsaved(not_saved: NotSaved) -> AgentFinish | StoppedResponse:
    """End the run as it would have ended."""
    return not_saved.ending


def add_memory(machine: Graph[S, F]) -> Graph[S, F]:
    """Return the machine with the nodes that load and save a memory, as far as it lacks them.

    Every edge that leads to the end leads to `save_memory` then. A machine with nodes of its own that ask for
    `LoadMemory` or `SaveMemory` loads or saves as they do. Raises `InputError` if another node has the name of one that
    is added.
    """
    before: list[Node[Any, Any]] = []
    behind: list[Node[Any, Any]] = []
    edges, start = list(machine.edges), machine.start
    if not _asks(machine, LoadMemory):
        stop = _plain_stop(machine)
        before.append(load_memory)
        edges = [Edge(load_memory.name, Ready, start), Edge(load_memory.name, LimitReached, stop.name), *edges]
        start = load_memory.name
        if machine.nodes.get(stop.name) is not stop:
            behind.append(stop)
            edges.append(Edge(stop.name, StoppedResponse, END.name))
    saved: list[Edge] = []
    if not _asks(machine, SaveMemory):
        longest = max((one.grace or 0.0 for one in machine), default=0.0)
        behind += [dataclasses.replace(save_memory, grace=longest + GRACE), return_unsaved]
        saved.append(Edge(save_memory.name, NotSaved, return_unsaved.name))
        for source in _SAVING:
            saved += [Edge(source, outcome, END.name) for outcome in save_memory.takes]
    for one in (*before, *behind):
        if one.name in machine:
            raise InputError(f"the graph has a node {one.name} of its own, which a memory needs; rename the function")
    nodes = [*before, *machine, *behind]
    if save_memory.name in {one.name for one in nodes}:
        edges = [_to_save(edge) for edge in edges]
        ending = {edge.source for edge in edges if edge.target == save_memory.name}
        nodes = [_carrying_run(one) if one.name in ending else one for one in nodes]
    return check_table(nodes, [*edges, *saved], start)


# The nodes behind which a run is over.
_SAVING = (save_memory.name, return_unsaved.name)


def _to_save(edge: Edge) -> Edge:
    if edge.target != END.name or edge.source in _SAVING:
        return edge
    return dataclasses.replace(edge, target=save_memory.name)


def save_endings(table: Table[F], machine: Graph[Any, Any]) -> Table[F]:
    """Return rows whose endings lead to the node that saves the memory, where the machine they are for has it."""
    if save_memory.name not in machine:
        return table
    save = machine[save_memory.name]

    def to_save(way: Route) -> Route:
        return dataclasses.replace(way, target=save) if way.target is END and way.outcome in save.takes else way

    return Table(tuple((source, Routes(tuple(map(to_save, routes.routes)))) for source, routes in table.rows))


def is_saving(name: str) -> bool:
    """Return whether the node of this name saves the end of a run, or comes after that."""
    return name in _SAVING


def _asks(machine: Graph[Any, Any], effect: type[Effect[Any]]) -> bool:
    # The nodes of an embedded agent, `research.load_memory` say, are about that agent's runs.
    return any(effect in one.effects for one in machine if "." not in one.name)


def _plain_stop(machine: Graph[Any, Any]) -> Node[Any, Any]:
    """Return the node that ends a stopped run, or another one: where memory is not loaded, no model can be asked."""
    targets = [edge.target for edge in machine.edges if edge.outcome is LimitReached and edge.target in machine]
    for name in targets:
        if machine[name].kind == "pure":
            return machine[name]
    return rename(stopped_response, "stopped_unloaded") if targets else stopped_response


# Of the nodes that end a run, those that give every ending its run.
_STOCK = frozenset(
    stock.function for stock in (parse, parse_or_raise, check_return_direct, stopped_response, generate_response)
)

# The functions that have been given that by `_carrying_run`; a graph may be given a memory again after surgery.
_carrying: WeakSet[Callable[..., Any]] = WeakSet()


def _carrying_run(source: Node[Any, Any]) -> Node[Any, Any]:
    """Return the node such that its endings carry the run of its value where they carry none: a user may leave it out.

    The memory is told of that run's inputs.
    """
    function: Callable[..., Any] = source.function
    # What `bind` has supplied the settings of is a partial function.
    plain: Any = getattr(function, "func", function)
    if plain in _STOCK or plain in _carrying:
        return source

    def returned(value: Any, **settings: Any) -> Any:
        return _with_run(function(value, **settings), value)

    def asked(value: Any, **settings: Any) -> Generator[Any, Any, Any]:
        inner: Generator[Any, Any, Any] = function(value, **settings)
        return _with_run((yield from inner), value)

    async def awaited(value: Any, **settings: Any) -> Any:
        return _with_run(await function(value, **settings), value)

    wrapper = asked if source.kind == "asks" else awaited if inspect.iscoroutinefunction(function) else returned
    _carrying.add(functools.update_wrapper(wrapper, function))
    return dataclasses.replace(source, function=wrapper)


def _with_run(outcome: object, value: object) -> object:
    run = run_of(value)
    if run is None or not isinstance(outcome, (AgentFinish, StoppedResponse)) or outcome.run != NO_RUN:
        return outcome
    return dataclasses.replace(outcome, run=run)
