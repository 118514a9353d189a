"""Handoffs: agents that hand the conversation over to each other, each with its own model and tools."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Union, final

from graphexec._arguments import NAME, validate, whole
from graphexec.actions import Run
from graphexec.effects import ToolResult
from graphexec.errors import InputError, format_value
from graphexec.executor.executor import AgentExecutor
from graphexec.executor.inputs import single_input_key
from graphexec.executor.nodes import make_step
from graphexec.executor.outcomes import Acted, Ready, limit_reached
from graphexec.executor.plugging import Piece
from graphexec.kernel.graph import M, change_table
from graphexec.kernel.meters import Meter
from graphexec.kernel.node import END, Edge, Node, node
from graphexec.kernel.surgery import embed
from graphexec.nodes.sub_agents import ungated_tools
from graphexec.tools import AnyTool
from graphexec.tools.tool import tool


@final
@dataclass(frozen=True, slots=True)
class Handoff:
    """The run, and the name of the agent that continues it."""

    run: Run
    to: str


def handoffs(
    members: Mapping[str, AgentExecutor],
    *,
    handoffs: int = 3,
    iterations: int = 4,
    name: str = "handoffs",
    host: str = "host",
) -> Piece:
    """Return a piece with which agents hand the conversation over to each other: a swarm, or a supervisor's team.

    The agent that the piece is plugged into is the `host`, and `members` are others by name. Each of them gets a tool
    `transfer_to_NAME` for each other one. A member continues the conversation from the question and the steps so far,
    with its own model and tools and at most `iterations` iterations per turn; its answer is that of the run. Other
    calls in a reply that hands over are answered as not done. After that many `handoffs` in a run, one more stops it.

    If the agents ask their models once per iteration, a run makes at most i + handoffs * iterations model calls, where
    i is its limit on iterations.

        hotels = create_agent(model, [book_hotel])
        executor = create_agent(model, [book_flight], nodes=[handoffs({"hotels": hotels})])
        print(executor.run("A flight to Rome, and a hotel there.").output)

    Raises `InputError` for no members, invalid names, numbers below 1, and members whose tools cannot be changed.
    """
    validate("handoffs", ("handoffs", handoffs, whole(1)), ("iterations", iterations, whole(1)), ("name", name, NAME))
    # Users without a type checker pass a list of executors.
    given: Any = members
    if not isinstance(given, Mapping):
        raise InputError(f"handoffs has members={format_value(given)}; give a dict of executors by name")
    names = [host, *members]
    wrong = [one for one in names if not one.isidentifier() or names.count(one) > 1]
    if wrong or not members:
        raise InputError(f"handoffs has the members {names[1:]} and the host {host!r}; give each a name of its own")
    tools = {one: _transfer_tool(one) for one in names}
    turns = {one: _turn_class(one) for one in members}
    # The union of classes that exist only at run time.
    leads: Any = Union[(Ready, *turns.values())]
    passes = Meter(name, handoffs)

    def switch(handoff: Handoff) -> Any:
        """Pass the run on to the agent that continues it."""
        # The tools that a piece has selected are those of the agent that handed over.
        run = handoff.run.with_aside(tools=None)
        return Ready(run) if handoff.to == host else turns[handoff.to](run)

    switch.__annotations__["return"] = leads
    passing: Node[Any, Any] = node(name=f"switch_{name}", when_spent=limit_reached, meters=[passes])(switch)
    nodes: list[Node[Any, Any]] = [_transfer_node(f"transfer_{name}", members), passing]
    for one, executor in members.items():
        # Checked here: the member receives the inputs of the host's run.
        single_input_key(executor, f"handoffs: the member {one}")
        others = [other for other in names if other != one]
        # The tools of its pieces come with them.
        plugged = {one_tool.name for piece in executor.pieces for one_tool in piece.tools}
        own = [one_tool for label, one_tool in executor.tools.items() if label not in plugged]
        member = executor.with_tools([*own, *(tools[other] for other in others)])
        whole_graph = _with_transfer(member.graph, _transfer_node(f"transfer_{name}", others))
        turn = Meter("iterations", iterations)
        nodes.append(embed(whole_graph, one, own=[turn], enter=_entering(turns[one])))
    ungated = tuple(label for executor in members.values() for label in ungated_tools(executor))
    return Piece(name, tuple(nodes), tools=tuple(tools[one] for one in members), acts=True, ungated=ungated)


def _transfer_tool(name: str) -> AnyTool:
    def transfer() -> str:
        raise InputError(f"transfer_to_{name} is carried out by a node, and a node of yours called it; pass it on")

    return tool(name=f"transfer_to_{name}", description=f"Hand the conversation over to {name}.")(transfer)


@cache
def _turn_class(name: str) -> type[Any]:
    """Return the class of the outcome that leads to a member."""
    made = dataclasses.make_dataclass(f"Turn_{name}", [("run", Run)], frozen=True)
    made.__module__ = __name__
    return final(made)


def _entering(turn: type[Any]) -> Callable[[Any], Ready]:
    def enter(given: Any) -> Ready:
        """Begin a turn of this agent."""
        return Ready(given.run)

    enter.__annotations__["given"] = turn
    return enter


def _transfer_node(name: str, members: Sequence[str] | Mapping[str, object]) -> Node[Acted, Acted | Handoff]:
    """Return the node that hands over if the model asks for one of these agents."""
    # Without regard to case, as an executor may look its tools up: no other tool has such a name.
    by_tool = {f"transfer_to_{member}".casefold(): member for member in members}

    @node(name=name)
    def transfer(acted: Acted) -> Acted | Handoff:
        """Hand over if the model asks for it; other calls of the reply are not done."""
        chosen = next((place for place in acted.open if acted.actions[place].tool.casefold() in by_tool), None)
        if chosen is None:
            return acted
        to = by_tool[acted.actions[chosen].tool.casefold()]
        for place in acted.open:
            done = ToolResult(f"Handed over to {to}.")
            left = ToolResult(f"Not done: the conversation was handed over to {to}.", "rejected")
            acted = acted.answer(place, done if place == chosen else left)
        results = acted.with_results(()).results
        steps = [make_step(action, result) for action, result in zip(acted.actions, results, strict=True)]
        return Handoff(acted.run.with_steps(steps), to)

    return transfer


def _with_transfer(machine: M, transfer: Node[Any, Any]) -> M:
    """Return the machine with a node before the one that calls tools, behind all others that its actions pass."""
    home = "dispatch_tools"
    edges = [
        dataclasses.replace(edge, target=transfer.name) if (edge.outcome, edge.target) == (Acted, home) else edge
        for edge in machine.edges
    ]
    added = [Edge(transfer.name, Acted, home), Edge(transfer.name, Handoff, END.name)]
    return change_table(machine, [*machine, transfer], [*edges, *added])
