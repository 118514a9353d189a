"""THE five nodes and THE table: the agent executor as a machine.

plan → parse → dispatch_tools → check_return_direct → plan …, until an `AgentFinish` or a `StoppedResponse`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, final

from graphexec.actions import AgentAction, AgentFinish, AgentStep, Run, StoppedResponse
from graphexec.agents import Agent
from graphexec.edge import END
from graphexec.effects import Asks, CallAgent, CallModel, CallTool, Decided, ToolResult, ask, ask_all
from graphexec.errors import ParseError
from graphexec.graph import edges, graph, on
from graphexec.limits import Exhausted
from graphexec.messages import ModelReply
from graphexec.node import charged, metered, node, renamed


@final
@dataclass(frozen=True, slots=True)
class Ready:
    """The run is ready for the agent's next decision."""

    run: Run


@final
@dataclass(frozen=True, slots=True)
class Replied:
    """The model has replied (or a callable agent decided)."""

    run: Run
    reply: ModelReply | Decided


@final
@dataclass(frozen=True, slots=True)
class Acted:
    """The agent has decided on these actions; they are not carried out yet."""

    run: Run
    actions: tuple[AgentAction, ...]


@final
@dataclass(frozen=True, slots=True)
class Observed:
    """The tools have answered: one result per action, in the order of the actions."""

    run: Run
    actions: tuple[AgentAction, ...]
    results: tuple[ToolResult, ...]


@final
@dataclass(frozen=True, slots=True)
class LimitReached:
    """A limit is spent; the run, with the steps it has done, goes to its stopped response."""

    run: Run
    limit: Exhausted


class HasRun(Protocol):
    """A value that carries the run; `limit_reached` takes any."""

    @property
    def run(self) -> Run:
        """The run so far."""
        ...


def limit_reached(given: HasRun, limit: Exhausted) -> LimitReached:
    """Leave a node because a limit is spent: what `metered` and `charged` nodes of an agent's graph are given."""
    return LimitReached(given.run, limit)


@dataclass(frozen=True, slots=True)
class Feedback:
    """What the model is told after a reply that could not be read: a text made of the error."""

    observation: Callable[[ParseError], str]


# The tool of a step in which there was none to call, as it is known.
EXCEPTION_TOOL = "_Exception"


@metered(when_spent=limit_reached, asks=1)
@node
def plan(ready: Ready, agent: Agent) -> Asks[CallModel | CallAgent, Replied]:
    """Ask the model for the next decision."""
    match agent.ask(ready.run):
        case CallModel() as question:
            reply: ModelReply | Decided = yield from ask(question)
        case CallAgent() as question:
            reply = yield from ask(question)
    return Replied(ready.run, reply)


@node
def parse(replied: Replied, agent: Agent, feedback: Feedback) -> Acted | AgentFinish | Ready:
    """Read the model's reply; one that cannot be read is fed back as an observation."""
    try:
        return _decided(replied, agent)
    except ParseError as error:
        observation = feedback.observation(error)
        action = AgentAction(EXCEPTION_TOOL, observation, error.llm_output or str(error))
        return Ready(replied.run.observed((AgentStep(action, observation, "parse_error"),)))


@node
def parse_or_raise(replied: Replied, agent: Agent) -> Acted | AgentFinish:
    """Read the model's reply; one that cannot be read ends the run with its `ParseError`."""
    try:
        return _decided(replied, agent)
    except ParseError as error:
        remedy = "pass handle_parsing_errors=True to tell the model about it and let it try again"
        raise ParseError(f"{error}; {remedy}", observation=error.observation, llm_output=error.llm_output) from error


def _decided(replied: Replied, agent: Agent) -> Acted | AgentFinish:
    decision = agent.read(replied.reply)
    if isinstance(decision, AgentFinish):
        # A finish of its own: the agent's is not touched.
        return AgentFinish(decision.return_values, decision.log, replied.run)
    if not decision:
        raise ParseError("the agent returned an empty list of actions", observation="Decide on an action, or finish.")
    return Acted(replied.run, decision)


@charged(when_spent=limit_reached)
@node
def dispatch_tools(acted: Acted) -> Asks[CallTool, Observed]:
    """Call the tools, all at once; the results come in the order of the actions."""
    results = yield from ask_all([CallTool(action.tool, action.tool_input, acted.run) for action in acted.actions])
    return Observed(acted.run, acted.actions, results)


@node
def check_return_direct(observed: Observed) -> Ready | AgentFinish:
    """Take the steps into the run; the result of a single call of a return-direct tool is the answer."""
    actions, results = observed.actions, observed.results
    run = observed.run.observed(
        [
            AgentStep(action, result.observation, result.status, result.told)
            for action, result in zip(actions, results, strict=True)
        ]
    )
    if len(results) == 1 and results[0].return_direct:
        return AgentFinish({"output": results[0].observation}, "", run, return_direct=True)
    return Ready(run)


# The text that callers of LangChain's executor compare with, for the two limits it has.
STOPPED = "Agent stopped due to iteration limit or time limit."


@node
def stopped_response(reached: LimitReached) -> StoppedResponse:
    """Say that the run was stopped, by which limit, and with which steps; it asks for nothing."""
    limit = reached.limit
    known = limit.limit in ("iterations", "seconds")
    text = STOPPED if known else f"Agent stopped due to {limit.limit.replace('_', ' ').removesuffix('s')} limit."
    return StoppedResponse(text, limit, reached.run)


_acting = (
    edges(dispatch_tools, on(Observed, check_return_direct) | on(LimitReached, stopped_response))
    | edges(check_return_direct, on(Ready, plan) | on(AgentFinish, END))
    | edges(stopped_response, on(StoppedResponse, END))
)  # fmt: skip

AGENT_EXECUTOR = graph(
    edges(plan, on(Replied, parse) | on(LimitReached, stopped_response))
    | edges(parse, on(Acted, dispatch_tools) | on(Ready, plan) | on(AgentFinish, END))
    | _acting,
    start=plan,
)

# `handle_parsing_errors=False`: the same table without the edge back to plan.
_strict_parse = renamed(parse_or_raise, "parse")
STRICT_AGENT_EXECUTOR = graph(
    edges(plan, on(Replied, _strict_parse) | on(LimitReached, stopped_response))
    | edges(_strict_parse, on(Acted, dispatch_tools) | on(AgentFinish, END))
    | _acting,
    start=plan,
)
