"""THE five nodes and THE table: the agent executor as a machine.

plan → parse → dispatch_tools → check_return_direct → plan …, until an `AgentFinish` or a `StoppedResponse`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, final

from graphexec.actions import AgentAction, AgentFinish, AgentStep, Run, Steps, StoppedResponse
from graphexec.agents import Agent
from graphexec.agents.prompt import format_observation
from graphexec.effects import CallAgent, CallModel, CallTool, Decided, ToolResult
from graphexec.errors import InputError, ParseError
from graphexec.kernel.effects import Asks, ask_all
from graphexec.kernel.graph import Graph, edges, graph, on
from graphexec.kernel.meters import Exhausted
from graphexec.kernel.node import END, charged, metered, node, rename, reserved
from graphexec.kernel.surgery import replace
from graphexec.messages import ModelReply


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


# What the model is told after a reply that cannot be read, if the parser does not know better: LangChain's text.
INVALID = "Invalid or incomplete response"


def invalid(error: ParseError) -> str:
    """What the parser says that the model is to be told, or that its reply was no good."""
    return error.observation or INVALID


# Which tools' results are the answer: that of a step's only call, or also of the last one of several.
ReturnDirect: TypeAlias = Literal["single", "any"]


@dataclass(frozen=True, slots=True)
class Policies:
    """An executor's options, as its nodes use them.

    `feedback` makes what the model is told after an unreadable reply; `shown` selects the steps that the agent sees
    (`None`: all); `return_direct` says which results are the answer at once.
    """

    feedback: Callable[[ParseError], str] = invalid
    shown: Callable[[Steps], Sequence[AgentStep]] | None = None
    return_direct: ReturnDirect = "single"

    def trimmed(self, run: Run) -> Run:
        """The run as the agent is shown it."""
        if self.shown is None:
            return run
        shown = self.shown(run.steps)
        return run if shown is run.steps else Run(run.inputs, Steps(shown))


# The tool of a step in which there was none to call, as it is known.
EXCEPTION_TOOL = "_Exception"


@metered(when_spent=limit_reached, asks=1)
@node
def plan(ready: Ready, agent: Agent, policies: Policies) -> Asks[CallModel | CallAgent, Replied]:
    """Ask the model for the next decision."""
    # Not by `ask`, which would want to know which of the two it is. The reply is of the effect's type.
    reply: ModelReply | Decided = yield agent.ask(policies.trimmed(ready.run))
    return Replied(ready.run, reply)


@node
def parse(replied: Replied, agent: Agent, policies: Policies) -> Acted | AgentFinish | Ready:
    """Read the model's reply; one that cannot be read is fed back as an observation."""
    try:
        return _read_decision(replied, agent)
    except ParseError as error:
        observation = policies.feedback(error)
        action = AgentAction(EXCEPTION_TOOL, observation, error.llm_output or str(error))
        return Ready(replied.run.observed((AgentStep(action, observation, "parse_error"),)))


@node
def parse_or_raise(replied: Replied, agent: Agent) -> Acted | AgentFinish:
    """Read the model's reply; one that cannot be read ends the run with its `ParseError`."""
    try:
        return _read_decision(replied, agent)
    except ParseError as error:
        remedy = "pass handle_parsing_errors=True to tell the model about it and let it try again"
        raise ParseError(
            f"{error}; {remedy}", observation=error.observation, llm_output=error.llm_output, prose=error.prose
        ) from error


def _read_decision(replied: Replied, agent: Agent) -> Acted | AgentFinish:
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
    results = yield from ask_all(
        [CallTool(action.tool, action.tool_input, acted.run, action.call_id) for action in acted.actions]
    )
    return Observed(acted.run, acted.actions, results)


def step_of(action: AgentAction, result: ToolResult) -> AgentStep:
    """Return the step of an action that was carried out, with this result."""
    return AgentStep(action, result.observation, result.status, result.model_text, result.error)


@node
def check_return_direct(observed: Observed, policies: Policies) -> Ready | AgentFinish:
    """Take the steps into the run; the result of a single call of a return-direct tool is the answer.

    Of several calls it is the last such result, where the policies say so.
    """
    actions, results = observed.actions, observed.results
    run = observed.run.observed([step_of(action, result) for action, result in zip(actions, results, strict=True)])
    if len(results) == 1 or policies.return_direct == "any":
        for result in reversed(results):
            if result.return_direct:
                return AgentFinish({"output": result.observation}, "", run, return_direct=True)
    return Ready(run)


# The text that callers of LangChain's executor compare with, for the two limits it has.
STOPPED = "Agent stopped due to iteration limit or time limit."


@node
def stopped_response(reached: LimitReached) -> StoppedResponse:
    """Say that the run was stopped, by which limit, and with which steps; it asks for nothing."""
    return _make_stopped_response(reached)


def _make_stopped_response(reached: LimitReached) -> StoppedResponse:
    limit = reached.limit
    known = limit.limit in ("iterations", "seconds")
    text = STOPPED if known else f"Agent stopped due to {limit.limit.replace('_', ' ').removesuffix('s')} limit."
    return StoppedResponse(text, limit, reached.run)


def unanswered(reached: LimitReached, limit: Exhausted) -> StoppedResponse:
    """Say that the run was stopped, where the model did not answer in time: by the limit that stopped it first."""
    del limit
    return _make_stopped_response(reached)


@reserved(when_spent=unanswered)
@node
def generate_response(
    reached: LimitReached, agent: Agent, policies: Policies
) -> Asks[CallModel | CallAgent, StoppedResponse]:
    """Ask the model once more, for an answer from the steps so far; plain text is taken as it is.

    A reply that tries to act again, or is empty, is none: then the text is that of `stopped_response`.
    """
    reply: ModelReply | Decided = yield (agent.conclude or agent.ask)(policies.trimmed(reached.run))
    try:
        decision = agent.read(reply)
    except ParseError as error:
        text = error.llm_output if error.prose else ""
    else:
        text = format_observation(decision.answer) if isinstance(decision, AgentFinish) else ""
    stopped = _make_stopped_response(reached)
    return dataclasses.replace(stopped, output=text.strip(), generated=True) if text.strip() else stopped


AGENT_EXECUTOR = graph(
    edges(plan, on(Replied, parse) | on(LimitReached, stopped_response))
    | edges(parse, on(Acted, dispatch_tools) | on(Ready, plan) | on(AgentFinish, END))
    | edges(dispatch_tools, on(Observed, check_return_direct) | on(LimitReached, stopped_response))
    | edges(check_return_direct, on(Ready, plan) | on(AgentFinish, END))
    | edges(stopped_response, on(StoppedResponse, END)),
    start=plan,
)

# The variants are the same table with other nodes. They are proved where an executor is made of them, not at import.
# `handle_parsing_errors=False`: without the edge from parse back to plan.
_raising = rename(parse_or_raise, "parse")
# `early_stopping_method="generate"`: the model has the last word.
_generating = rename(generate_response, "stopped_response")

STRICT_AGENT_EXECUTOR = replace(AGENT_EXECUTOR, _raising, narrowed=True, allow_nonterminating=True)
GENERATING_AGENT_EXECUTOR = replace(AGENT_EXECUTOR, _generating, allow_nonterminating=True)
STRICT_GENERATING_AGENT_EXECUTOR = replace(STRICT_AGENT_EXECUTOR, _generating, allow_nonterminating=True)


def require_agent_graph(machine: Graph[Ready, AgentFinish | StoppedResponse]) -> None:
    """Raise `InputError` unless a graph starts with `Ready` and ends with an `AgentFinish` or a `StoppedResponse`."""
    # Users without a type checker pass what they like.
    if not isinstance(machine, Graph) or Ready not in machine[machine.start].takes:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(f"{machine!r} does not start with Ready; make it from executor.graph, with splice say")
    for edge in machine.edges:
        if edge.target == END.name and edge.outcome not in (AgentFinish, StoppedResponse):
            raise InputError(f"{edge} ends the run; end it with an AgentFinish or a StoppedResponse")
