"""Nodes that load a memory before the agent's first decision and save it at the end, and functions that add them.

Endings always carry their run: a user's node may leave it out, and the engine's value has it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final
from weakref import WeakSet

from graphexec.actions import NO_RUN, AgentFinish, Run, StoppedResponse, run_of
from graphexec.effects import LoadMemory, SaveMemory
from graphexec.errors import InputError
from graphexec.executor.inputs import InputKeys, to_outputs
from graphexec.executor.nodes import check_return_direct, generate_response, parse, parse_or_raise, stopped_response
from graphexec.executor.outcomes import Ready, Stopped, limit_reached
from graphexec.executor.result import Ending
from graphexec.kernel.effects import Asks, Effect, ask
from graphexec.kernel.graph import Graph, M, change_table
from graphexec.kernel.meters import Exhausted
from graphexec.kernel.node import END, Edge, Node, node
from graphexec.kernel.surgery import same, wrap_function

# The executor's own nodes that end a run: their endings always have it.
_STOCK = frozenset(
    stock.function for stock in (parse, parse_or_raise, check_return_direct, stopped_response, generate_response)
)

# Functions that are wrapped already: surgery derives machines from machines.
_wrapped: WeakSet[Callable[..., Any]] = WeakSet()


# Seconds that a save has beyond the deadline, so that a run stopped by its deadline is saved, too. This is enough for a
# line in a file or a row in a local database, and too short for the caller to notice.
GRACE = 0.1


@final
@dataclass(frozen=True, slots=True)
class NotSaved:
    """A limit was used up before the ending was saved."""

    ending: Ending
    limit: Exhausted

    @property
    def run(self) -> Run:
        """The run that ended."""
        return self.ending.run


@node(when_spent=limit_reached, asks=1)
def load_memory(ready: Ready, keys: InputKeys) -> Asks[LoadMemory, Ready]:
    """Add the memory's values to the inputs; inputs that the caller passed take precedence."""
    loaded = yield from ask(LoadMemory(ready.run.inputs))
    inputs = {**loaded, **ready.run.inputs}
    keys.require(*inputs)
    return Ready(dataclasses.replace(ready.run, inputs=inputs))


@node(when_spent=NotSaved, asks=1, grace=GRACE)
def save_memory(ending: AgentFinish | StoppedResponse) -> Asks[SaveMemory, AgentFinish | StoppedResponse]:
    """Save the ending to the memory, and return it unchanged."""
    yield from ask(SaveMemory(ending.run.inputs, to_outputs(ending)))
    return ending


@node
def return_unsaved(not_saved: NotSaved) -> AgentFinish | StoppedResponse:
    """Return the ending unchanged, though it was not saved."""
    return not_saved.ending


def add_memory(machine: M) -> M:
    """Return the machine with the nodes that load and save a memory added, if it lacks them.

    Every edge that led to the end then leads to `save_memory`. If the machine has its own nodes that ask for
    `LoadMemory` or `SaveMemory`, they are used instead. Raises `InputError` if another node has the name of an added
    node.
    """
    before: list[Node[Any, Any]] = []
    behind: list[Node[Any, Any]] = []
    edges, start = list(machine.edges), machine.start
    if not _asks(machine, LoadMemory):
        stop = _plain_stop(machine)
        before.append(load_memory)
        edges = [Edge(load_memory.name, Ready, start), Edge(load_memory.name, Stopped, stop.name), *edges]
        start = load_memory.name
        if machine.nodes.get(stop.name) is not stop:
            behind.append(stop)
            edges.append(Edge(stop.name, StoppedResponse, END.name))
    saved: list[Edge] = []
    if not _asks(machine, SaveMemory):
        longest = max((one.grace or 0.0 for one in machine), default=0.0)
        behind += [dataclasses.replace(save_memory, grace=longest + GRACE), return_unsaved]
        saved.append(Edge(save_memory.name, NotSaved, return_unsaved.name))
        for source in _SAVE_NODES:
            saved += [Edge(source, outcome, END.name) for outcome in save_memory.takes]
    for one in (*before, *behind):
        if one.name in machine:
            raise InputError(f"the graph has a node {one.name}, a name that the memory needs; rename the function")
    nodes = [*before, *machine, *behind]
    if save_memory.name in {one.name for one in nodes}:
        edges = [
            dataclasses.replace(edge, target=save_memory.name)
            if edge.target == END.name and edge.source not in _SAVE_NODES
            else edge
            for edge in edges
        ]
        ending = {edge.source for edge in edges if edge.target == save_memory.name}
        nodes = [attach_run(one) if one.name in ending else one for one in nodes]
    return change_table(machine, nodes, [*edges, *saved], start)


# The last nodes of a run with a memory: their outcomes lead to the end.
_SAVE_NODES = (save_memory.name, return_unsaved.name)


def is_save_node(name: str) -> bool:
    """Return whether the node of this name saves the ending of a run, or comes after the save."""
    return name in _SAVE_NODES


def _asks(machine: Graph[Any, Any], effect: type[Effect[Any]]) -> bool:
    # The nodes of an embedded agent, such as `research.load_memory`, serve that agent's runs.
    return any(effect in one.effects for one in machine if "." not in one.name)


def _plain_stop(machine: Graph[Any, Any]) -> Node[Any, Any]:
    """Return the node that ends a run stopped before its memory is loaded; it is pure, as no model can be asked yet."""
    targets = [edge.target for edge in machine.edges if edge.outcome is Stopped and edge.target in machine]
    for name in targets:
        if machine[name].kind == "pure":
            return machine[name]
    return node(name="stopped_unloaded")(stopped_response) if targets else stopped_response


def attach_run(source: Node[Any, Any]) -> Node[Any, Any]:
    """Return the node with a function that adds the run of its value to an ending without one.

    A node that returns no ending stays as it is.
    """
    if source.inner is not None or not {AgentFinish, StoppedResponse} & {*source.returns}:
        return source
    if source.function in _STOCK or source.function in _wrapped:
        return source
    wrapper = wrap_function(source, same, _with_run)
    _wrapped.add(wrapper)
    return dataclasses.replace(source, function=wrapper)


def _with_run(outcome: object, value: object) -> object:
    run = run_of(value)
    if run is None or not isinstance(outcome, (AgentFinish, StoppedResponse)) or outcome.run != NO_RUN:
        return outcome
    return dataclasses.replace(outcome, run=run)
