"""A machine with the setup of its trials: its limits, its start value, and the possible replies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from graphexec.actions import Run
from graphexec.effects import CallModel, LoadMemory, SaveMemory
from graphexec.errors import InputError, did_you_mean
from graphexec.executor.executor import AgentExecutor
from graphexec.executor.outcomes import Ready
from graphexec.kernel.graph import Graph
from graphexec.kernel.meters import Limits
from graphexec.messages import ModelReply
from graphexec.testing.adversary import Part, numbers_by_part
from graphexec.testing.explorer.explore import RAISES
from graphexec.testing.explorer.oracle import Oracle, Replies, replies_of
from graphexec.testing.explorer.stub_nodes import WIDEST
from graphexec.testing.own_code.watchdog import Watchdog
from graphexec.verify.proof.flow import lower_limits

Verifiable: TypeAlias = AgentExecutor | Graph[Any, Any]

# Exhaustive checks use no limit above this: enough to take every loop and to leave it.
EXHAUSTIVE = 2

# The time limit, in seconds, of runs that would take endless time, or none.
ENDLESS = 64.0


@dataclass(frozen=True, slots=True)
class Trial:
    """A machine that can be run from `start`, within `limits`, with the replies of an oracle.

    It may end with an exception of one of the classes `raises`. `numbers` are those of the replies to each part of its
    effects.
    """

    graph: Graph[Any, Any]
    limits: Limits
    # Any value that the first node takes.
    start: Any
    oracle: Oracle
    numbers: Mapping[Part, range]
    raises: tuple[type[BaseException], ...] = RAISES
    # Names the replies of the current run in its errors.
    watchdog: Watchdog = field(default_factory=Watchdog)
    # The names of nodes that may behave differently in each run.
    stateful: frozenset[str] = frozenset()
    # The context of the runs.
    context: object = None


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
    stateful: Sequence[str] = (),
    context: object = None,
    watchdog: Watchdog | None = None,
) -> Trial:
    """Return the trial of an executor, or of a graph that begins with `start`.

    Raises `InputError` if no start value, or no reply to a user's effect, is known (`replies={Fetch: [Page("")]}`), for
    unknown names in `stateful`, and if `machine` is not a machine.
    """
    graph = graph_of(machine)
    check_names("stateful", stateful, [*graph.nodes], "no node of the machine")
    if isinstance(machine, AgentExecutor):
        if machine.agent.model is None:
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
    within = limits_of(machine, limits)
    oracle = replies_of(machine, replies)
    watchdog, stays = watchdog or Watchdog(), frozenset(stateful)
    return Trial(graph, within, start, oracle, numbers_by_part(oracle), raises, watchdog, stays, context)


def check_names(option: str, given: Sequence[str], known: Sequence[str], fact: str) -> None:
    """Raise `InputError` for a single string, and for a name that is not `known`, which the `fact` says."""
    # A string is also a sequence of strings.
    if isinstance(given, str):
        raise InputError(f"{option} is {given!r}; give a list of names: [{given!r}]")
    for name in given:
        if name not in known:
            hint = did_you_mean(str(name), known, f"there are {', '.join(known)}")
            raise InputError(f"{option} has {name!r}, which is {fact}; {hint}")


def small(graph: Graph[Any, Any], limits: Limits) -> Limits:
    """Return limits lowered to 2, including those of the machine's own meters.

    The fan-out is lowered to 8, so that a node that asks for several effects can finish, and one that asks repeatedly
    reaches its limit. An absent limit stays absent, so the proof for the given limits holds for the lowered ones.
    """
    restarts = None if limits.restarts is None else min(limits.restarts, EXHAUSTIVE)
    fan_out = None if limits.fan_out is None else min(limits.fan_out, WIDEST)
    return replace(lower_limits(limits, graph.meters, EXHAUSTIVE), restarts=restarts, fan_out=fan_out)
