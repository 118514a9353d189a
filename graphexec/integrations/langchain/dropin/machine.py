"""The loop of LangChain's executor as a transition table, on LangChain's own actions and finishes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, TypeAlias, final

from langchain_core.agents import AgentAction, AgentFinish

from graphexec.effects import TOOL_CALLS
from graphexec.kernel.effects import Asks, Effect, ask_all, fill_slots
from graphexec.kernel.graph import edges, on
from graphexec.kernel.meters import ITERATIONS, Exhausted, Limits
from graphexec.kernel.node import END, node
from graphexec.machine import graph
from graphexec.verify import Verdict

# Actions with what their tools returned. Any: tools return any value.
Pairs: TypeAlias = tuple[tuple[AgentAction, Any], ...]


@final
@fill_slots
@dataclass(frozen=True, slots=True)
class TurnReady:
    """The agent decides next."""

    steps: Pairs = ()


@final
@fill_slots
@dataclass(frozen=True, slots=True)
class ToolsChosen:
    """The agent has chosen tools, or its output is `unreadable`: then the only action is what LangChain makes of it.

    The tools are called at once, or `in_turn`. If the deadline cuts one of them, the results of the others are kept,
    or with `loses_results` lost.
    """

    steps: Pairs
    actions: tuple[AgentAction, ...]
    in_turn: bool
    unreadable: bool = False
    loses_results: bool = False


@final
@fill_slots
@dataclass(frozen=True, slots=True)
class TurnsFinished:
    """The agent has finished, or a tool whose result is the answer has returned: then `finish` is `None`."""

    steps: Pairs
    finish: AgentFinish | None = None


@final
@dataclass(frozen=True, slots=True)
class TurnsStopped:
    """A limit is used up."""

    steps: Pairs
    limit: Exhausted


@final
@fill_slots
@dataclass(frozen=True, slots=True)
class ToolReturn:
    """What a tool returned for an action; `is_direct` if it may be the answer, `is_cut` if the deadline came first."""

    action: AgentAction
    observation: Any = None
    is_direct: bool = False
    is_cut: bool = False


@fill_slots
@dataclass(frozen=True, slots=True)
class PlanTurn(Effect[ToolsChosen | TurnsFinished]):
    """Ask the agent for its decision after these steps."""

    steps: Pairs


@fill_slots
@dataclass(frozen=True, slots=True)
class CallLangChainTool(Effect[ToolReturn]):
    """Call the tool of the action at this place of a turn."""

    charges: ClassVar = {TOOL_CALLS: 1}
    turn: ToolsChosen
    place: int

    def cut(self, exhausted: Exhausted) -> ToolReturn | None:
        """Return what stands for the result of a call that the deadline cut; `None` if its turn ends with it."""
        del exhausted
        return None if self.turn.loses_results else ToolReturn(self.turn.actions[self.place], is_cut=True)


def stop_turns(value: TurnReady | ToolsChosen, limit: Exhausted) -> TurnsStopped:
    """Return the outcome of a node that a limit stops."""
    return TurnsStopped(value.steps, limit)


@node(when_spent=stop_turns, meters=[ITERATIONS], asks=1)
def plan(ready: TurnReady) -> Asks[PlanTurn, ToolsChosen | TurnsFinished]:
    """Ask the agent for its next decision."""
    decision: ToolsChosen | TurnsFinished = yield PlanTurn(ready.steps)
    return decision


@node(when_spent=stop_turns)
def dispatch_tools(turn: ToolsChosen) -> Asks[CallLangChainTool, TurnReady | TurnsFinished]:
    """Call the tools, and add their steps; end the run if the only tool of this turn returns directly."""
    calls = [CallLangChainTool(turn, place) for place in range(len(turn.actions))]
    results: tuple[ToolReturn, ...] = ()
    if turn.in_turn:
        for call in calls:
            result: ToolReturn = yield call
            results += (result,)
    else:
        results = yield from ask_all(calls)
    steps = (*turn.steps, *[(one.action, one.observation) for one in results if not one.is_cut])
    return TurnsFinished(steps) if len(results) == 1 and results[0].is_direct else TurnReady(steps)


LANGCHAIN_EXECUTOR = graph(
    edges(plan, on(ToolsChosen, dispatch_tools) | on(TurnsFinished, END) | on(TurnsStopped, END))
    | edges(dispatch_tools, on(TurnReady, plan) | on(TurnsFinished, END) | on(TurnsStopped, END)),
    start=plan,
)


@lru_cache(64)
def prove(iterations: int | None, seconds: float | None) -> Verdict:
    """Return the verdict on the machine within these limits. A negative one is 0, and infinitely many seconds none."""
    limits = Limits(
        iterations=None if iterations is None else max(0, iterations),
        seconds=None if seconds is None or seconds == math.inf else max(0.0, seconds),
        # LangChain counts no runs within a run.
        depth=None,
        nested_runs=None,
    )
    return LANGCHAIN_EXECUTOR.verify(limits)
