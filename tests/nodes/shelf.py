"""A sample of every piece of the shelf, with models and handlers that answer them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import graphexec.nodes
from graphexec import AgentExecutor, AskHuman, Snapshot, create_tool_calling_agent, snapshot_of
from graphexec.errors import GraphexecError
from graphexec.kernel.effects import members_of
from graphexec.kernel.events import Answered, Event
from graphexec.messages import ModelReply, ModelRequest, ToolCall
from graphexec.models import ScriptedModel
from graphexec.nodes import Piece, escalate, handoffs, map_agents, sub_agent
from graphexec.testing import scripted_tool

# Names of the package that make no piece.
NO_FACTORIES = frozenset({"HOMES", "Flow", "Piece", "Plugged", "Seats"})


def call(*arguments: str, tool: str = "look_up") -> ModelReply:
    """Return a reply that calls a tool once for each argument."""
    calls = [ToolCall(f"{tool}-{place}", tool, f'{{"input": "{one}"}}') for place, one in enumerate(arguments)]
    return ModelReply("", tuple(calls))


def make_inner() -> AgentExecutor:
    """Return an executor that a piece embeds or starts."""
    model = ScriptedModel(["inner answer"], repeat_last=True)
    return AgentExecutor(agent=create_tool_calling_agent(model, []), tools=[], handle_parsing_errors=True)


# One sample of each piece, by the name of its factory.
SAMPLES: Mapping[str, Callable[[], Piece]] = {
    "escalate": lambda: escalate(ScriptedModel(["stronger"], repeat_last=True)),
    "map_agents": lambda: map_agents(make_inner(), most=2),
    "handoffs": lambda: handoffs({"other": make_inner()}),
    "sub_agent": lambda: sub_agent(make_inner(), "helper", "Help with anything."),
}


def factories() -> set[str]:
    """Return the names of the functions of `graphexec.nodes` that make a piece."""
    return {
        name
        for name in graphexec.nodes.__all__
        if name not in NO_FACTORIES and not isinstance(getattr(graphexec.nodes, name), type)
    }


def make_executor(
    pieces: Sequence[Piece] = (), replies: Sequence[ModelReply | str] = (), **options: Any
) -> AgentExecutor:
    """Return an executor of a scripted model with one tool, and with these pieces."""
    look_up = replace(scripted_tool("look_up", []), function=lambda input: f"found {input}")
    model = ScriptedModel([*replies] or [call("a"), "done"], repeat_last=True)
    options.setdefault("handlers", {AskHuman: lambda _: "yes"})
    options.setdefault("max_iterations", 4)
    options.setdefault("max_fan_out", 4)
    return AgentExecutor(
        agent=create_tool_calling_agent(model, [look_up]),
        tools=[look_up],
        handle_parsing_errors=True,
        nodes=pieces,
        **options,
    )


class PauseError(Exception):
    """Raised by an observer to pause a run after a request was answered."""


class Pauses:
    """An observer that pauses a run each time all effects of a request have their replies."""

    raise_error = True

    def __init__(self) -> None:
        self._answered = 0

    def __call__(self, event: Event[Any]) -> None:
        if not isinstance(event, Answered) or event.call is None or event.call.request is None:
            return
        self._answered += 1
        if self._answered == len(members_of(event.call.request)):
            self._answered = 0
            raise PauseError


def run_in_pieces(make: Callable[[Sequence[Any]], AgentExecutor], inputs: Any) -> tuple[Any, int]:
    """Run to the end, stored as JSON and resumed by a new executor after each request; return the ending and pauses.

    `make` returns the executor with these observers.
    """
    start, pauses = inputs, 0
    while True:
        executor = make([Pauses()])
        try:
            return executor.run(start), pauses
        except PauseError as error:
            snapshot = snapshot_of(error)
            assert snapshot is not None
            start, pauses = Snapshot.from_json(snapshot.to_json(), executor.graph), pauses + 1
            assert pauses < 200


def refusal(build: Callable[[], object]) -> GraphexecError | None:
    """Return the error with which pieces are refused, or `None`."""
    try:
        build()
    except GraphexecError as error:
        return error
    return None


def requests_of(model: ScriptedModel) -> Sequence[ModelRequest]:
    """Return what a scripted model was asked."""
    return model.requests
