"""A machine with the setup of its trials: its limits, its start value, and the possible replies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from graphexec.actions import Run
from graphexec.effects import CallAgent, CallModel, LoadMemory, SaveMemory
from graphexec.errors import InputError
from graphexec.executor.executor import AgentExecutor
from graphexec.executor.table import Ready
from graphexec.kernel.effects import Effect
from graphexec.kernel.graph import Graph
from graphexec.kernel.meters import Limits
from graphexec.messages import ModelReply
from graphexec.testing.adversary import Part, replies_by_part
from graphexec.testing.own_code.watchdog import Watchdog
from graphexec.verify.explorer.explore import RAISES
from graphexec.verify.explorer.oracle import Oracle, Replies, replies_of
from graphexec.verify.explorer.stub_nodes import WIDEST
from graphexec.verify.proof.flow import lower_limits

Verifiable: TypeAlias = AgentExecutor | Graph[Any, Any]

# The time limit, in seconds, of runs that would take endless time, or none.
ENDLESS = 64.0


@dataclass(frozen=True, slots=True)
class Trial:
    """A machine that can be run from `start`, within `limits`, with the replies of an oracle.

    It may end with an exception of one of the classes `raises`. `parts` are the names of the possible replies.
    """

    graph: Graph[Any, Any]
    limits: Limits
    # Any value that the first node takes.
    start: Any
    oracle: Oracle
    parts: Mapping[Part, tuple[str, ...]]
    raises: tuple[type[BaseException], ...] = RAISES
    # Names the script of the current run in its errors.
    watchdog: Watchdog = field(default_factory=Watchdog)


def graph_of(machine: Verifiable) -> Graph[Any, Any]:
    """Return the graph of a machine."""
    return machine if isinstance(machine, Graph) else machine.graph


def limits_of(machine: Verifiable, limits: Limits | None) -> Limits:
    """Return the given limits, or the executor's, or the default limits."""
    if limits is not None:
        return limits
    return Limits() if isinstance(machine, Graph) else machine.limits


def trial_of(
    machine: Verifiable,
    *,
    start: object = None,
    limits: Limits | None = None,
    replies: Replies | None = None,
    raises: tuple[type[BaseException], ...] = RAISES,
    watchdog: Watchdog | None = None,
) -> Trial:
    """Return the trial of an executor, or of a graph that begins with `start`.

    Raises `InputError` if no start value, or no reply to a user's effect, is known (`replies={Fetch: [Page("")]}`), and
    if `machine` is not a machine.
    """
    graph = graph_of(machine)
    tools: tuple[str, ...] = ()
    decides: type[Effect[Any]] | None = None
    if isinstance(machine, AgentExecutor):
        tools = tuple(machine.tools)
        decides = CallAgent if machine.agent.model is None else CallModel
        if decides is CallAgent:
            # A plan declares both; only users' nodes ask the model of a callable agent.
            replies = {CallModel: [ModelReply("done"), ModelReply("")], **(replies or {})}
        provided: tuple[str, ...] = ()
        if machine.memory is not None:
            provided = tuple(machine.memory.keys)
            # An empty conversation, as messages or as a string.
            nothing: object = () if getattr(machine.memory, "as_messages", False) else ""
            known: Replies = {LoadMemory: [dict.fromkeys(provided, nothing)], SaveMemory: [None]}
            replies = {**known, **(replies or {})}
        if start is None:
            start = Ready(Run({key: "q" for key in machine.agent.input_keys or ("input",) if key not in provided}))
    if start is None:
        takes = " | ".join(kind.__name__ for kind in graph[graph.start].takes)
        raise InputError(f"the graph starts with {takes}, but no start value is known; pass start={takes}(...)")
    oracle = replies_of(machine, replies)
    parts = replies_by_part(graph, oracle, tools, decides=decides)
    return Trial(graph, limits_of(machine, limits), start, oracle, parts, raises, watchdog or Watchdog())


def small(graph: Graph[Any, Any], limits: Limits, most: int) -> Limits:
    """Return limits lowered to `most`, including the machine's own budgets.

    The fan-out is lowered to 8, so that a node that asks for several effects can finish, and one that asks repeatedly
    reaches its limit. An absent limit stays absent, so the proof for the given limits holds for the lowered ones.
    """
    restarts = None if limits.restarts is None else min(limits.restarts, most)
    fan_out = None if limits.fan_out is None else min(limits.fan_out, max(most, WIDEST))
    return replace(lower_limits(limits, graph.budgets, most), restarts=restarts, fan_out=fan_out)
