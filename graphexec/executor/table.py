"""The agent executor as a transition table: five nodes and the edges between them.

A run follows plan → parse → dispatch_tools → check_return_direct → plan and so on, until it ends with an `AgentFinish`
or a `StoppedResponse`, or in the strict variants with the `ParseError` that parse raises.
"""

from __future__ import annotations

import dataclasses
from functools import cache

from graphexec.actions import AgentFinish, StoppedResponse
from graphexec.errors import InputError, ParseError
from graphexec.executor.nodes import (
    check_return_direct,
    dispatch_tools,
    generate_response,
    parse,
    parse_or_raise,
    plan,
    stopped_response,
)
from graphexec.executor.outcomes import Acted, Observed, Ready, Replied, Stopped
from graphexec.kernel.graph import edges, on
from graphexec.kernel.node import END, node
from graphexec.kernel.surgery import replace
from graphexec.machine import Machine, graph

AGENT_EXECUTOR = graph(
    edges(plan, on(Replied, parse) | on(Stopped, stopped_response))
    | edges(parse, on(Acted, dispatch_tools) | on(Ready, plan) | on(AgentFinish, END))
    | edges(dispatch_tools, on(Observed, check_return_direct) | on(Stopped, stopped_response))
    | edges(check_return_direct, on(Ready, plan) | on(AgentFinish, END))
    | edges(stopped_response, on(StoppedResponse, END)),
    start=plan,
)


def agent_graph(*, strict: bool = False, generate: bool = False) -> Machine[Ready, AgentFinish | StoppedResponse]:
    """Return the agent's table, or a variant of it.

    If `strict`, a reply that cannot be read is not sent back to the model: the edge from parse back to plan is dropped,
    and the `ParseError` is a third exit (`handle_parsing_errors=False`). With `generate`, the node that ends a stopped
    run asks the model for a last answer (`early_stopping_method="generate"`).
    """
    return _variant(strict=strict, generate=generate)


@cache
def _variant(*, strict: bool, generate: bool) -> Machine[Ready, AgentFinish | StoppedResponse]:
    machine = AGENT_EXECUTOR
    if strict:
        strict_parse = dataclasses.replace(node(name="parse")(parse_or_raise), raises=(ParseError,))
        machine = replace(machine, strict_parse, narrowed=True)
    return replace(machine, node(name="stopped_response")(generate_response)) if generate else machine


def require_agent_graph(machine: Machine[Ready, AgentFinish | StoppedResponse]) -> None:
    """Raise `InputError` unless a machine starts with `Ready` and ends with an `AgentFinish` or a `StoppedResponse`."""
    # Callers without a type checker may pass another object.
    if not isinstance(machine, Machine) or Ready not in machine[machine.start].takes:  # pyright: ignore[reportUnnecessaryIsInstance]
        remedy = "make it from executor.graph, for example with splice"
        raise InputError(f"{machine!r} is not a machine that starts with Ready; {remedy}")
    for edge in machine.edges:
        if edge.target == END.name and edge.outcome not in (AgentFinish, StoppedResponse):
            raise InputError(f"{edge} ends a run of an agent; only AgentFinish and StoppedResponse may lead to END")
