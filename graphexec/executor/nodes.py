"""The agent executor as a transition table: five nodes and the edges between them.

The nodes are pure functions that decide, and ask for the calls of the model and the tools. A run follows plan → parse →
dispatch_tools → check_return_direct → plan and so on, until it ends with an `AgentFinish` or a `StoppedResponse`, or in
the strict variants with the `ParseError` that parse raises.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import starmap
from typing import Any, Literal, TypeAlias, TypeVar

from graphexec.actions import NO_ASIDE, AgentAction, AgentFinish, AgentStep, Run, Steps, StoppedResponse
from graphexec.agents import Agent
from graphexec.agents.prompt import format_observation
from graphexec.agents.reading.answers import READ_AHEAD, read_reply
from graphexec.agents.reading.text_parsing import reject_empty
from graphexec.effects import CallAgent, CallModel, CallTool, Decided, ModelEffect, ToolResult
from graphexec.errors import InputError, ParseError
from graphexec.executor.outcomes import Acted, Observed, Ready, Replied, Stopped, limit_reached
from graphexec.kernel.effects import Asks, Effect, ask_all
from graphexec.kernel.graph import edges, on
from graphexec.kernel.meters import ITERATIONS, Exhausted
from graphexec.kernel.node import END, node
from graphexec.kernel.surgery import replace
from graphexec.machine import Machine, graph
from graphexec.messages import ModelReply, ModelRequest

E = TypeVar("E", bound=Effect[Any])


def default_feedback(error: ParseError) -> str:
    """Return the parser's observation, or LangChain's text if it has none."""
    return error.observation or "Invalid or incomplete response"


# The result of a return-direct tool is the answer if it was the only call of the turn ("single"), or always ("any").
ReturnDirect: TypeAlias = Literal["single", "any"]


# Changes a request to a model: from the request, and the run so far.
Edit: TypeAlias = Callable[[ModelRequest, Run], ModelRequest]


@dataclass(frozen=True, slots=True)
class Policies:
    """The executor's options that its nodes read.

    `feedback` returns the observation after an unreadable reply. `select_steps` returns the steps that the agent sees
    (`None`: all of them). `return_direct` decides when the result of a return-direct tool is the answer. `piece_tools`
    are the names of the tools that pieces have brought. `edits` change each request of the agent, in their order.
    """

    feedback: Callable[[ParseError], str] = default_feedback
    select_steps: Callable[[Steps], Sequence[AgentStep]] | None = None
    return_direct: ReturnDirect = "single"
    piece_tools: tuple[str, ...] = ()
    edits: tuple[Edit, ...] = ()

    def trim(self, run: Run) -> Run:
        """Return the run with only the steps that the agent sees, and the summary in place of hidden ones."""
        # By identity: an equal aside, as a stored run has it, shows the same steps.
        if self.select_steps is None and run.aside is NO_ASIDE:
            return run
        from graphexec.agents.asides import show_steps

        return show_steps(run, self.select_steps)

    def request(
        self, agent: Agent, run: Run, ask: Callable[[Agent, Run], CallModel | CallAgent] | None = None
    ) -> CallModel | CallAgent:
        """Return the request that `ask` makes of the agent for what it sees of the run, with the run's aside applied.

        Without `ask`, it is the request for the next decision. Every request of an agent is made here. The edits are
        made last, so they see the notes of the aside, too.
        """
        seen = self.trim(run)
        if run.aside is NO_ASIDE:
            effect = agent.ask(seen) if ask is None else ask(agent, seen)
        else:
            from graphexec.agents.asides import ask_with_aside

            effect = ask_with_aside(agent, seen, ask or ask_agent)
        return edit_request(effect, self.edits, run)


def edit_request(effect: E, edits: Sequence[Edit], run: Run) -> E:
    """Return an effect whose request, if it asks a model, is changed by the edits in their order."""
    if not isinstance(effect, ModelEffect):
        return effect
    # Any: the class of the reply does not matter here.
    asking: ModelEffect[Any] = effect
    request = asking.request
    for edit in edits:
        request = edit(request, run)
    return effect if request is asking.request else dataclasses.replace(effect, request=request)


def ask_agent(agent: Agent, run: Run) -> CallModel | CallAgent:
    """Return the agent's request for its next decision."""
    return agent.ask(run)


def conclude(agent: Agent, run: Run) -> CallModel | CallAgent:
    """Return the agent's request for its final answer."""
    return (agent.conclude or agent.ask)(run)


# The tool name in the step that records an unreadable reply. The name is LangChain's.
EXCEPTION_TOOL = "_Exception"


@node(when_spent=limit_reached, meters=[ITERATIONS], asks=1)
def plan(ready: Ready, agent: Agent, policies: Policies) -> Asks[CallModel | CallAgent, Replied]:
    """Ask the model for the next decision."""
    run = ready.run
    # Written out here, as `Policies.request` would be one more call for each step.
    plain = run.aside is NO_ASIDE and not policies.edits and policies.select_steps is None
    request = agent.ask(run) if plain else policies.request(agent, run)
    # Yielded directly: `ask` is typed for one class of effects, and the request is one of two.
    reply: ModelReply | Decided = yield request
    return Replied(ready.run, reply)


@node
def parse(replied: Replied, agent: Agent, policies: Policies) -> Acted | AgentFinish | Ready:
    """Parse the model's reply; if that fails, return feedback to the model as an observation."""
    try:
        return _read_decision(replied, agent)
    except ParseError as error:
        observation = policies.feedback(error)
        action = AgentAction(EXCEPTION_TOOL, observation, error.llm_output or str(error))
        return Ready(replied.run.with_steps((AgentStep(action, observation, "parse_error"),)))


@node
def parse_or_raise(replied: Replied, agent: Agent) -> Acted | AgentFinish:
    """Parse the model's reply; if that fails, end the run with the `ParseError`."""
    try:
        return _read_decision(replied, agent)
    except ParseError as error:
        remedy = "pass handle_parsing_errors=True to send the error to the model and let it try again"
        raise ParseError(
            f"{error}; {remedy}", observation=error.observation, llm_output=error.llm_output, prose=error.prose
        ) from error


def _read_decision(replied: Replied, agent: Agent) -> Acted | AgentFinish:
    # Few runs read ahead.
    decision = read_reply(agent.read, replied.reply) if READ_AHEAD else agent.read(replied.reply)
    if type(decision) is not tuple and isinstance(decision, AgentFinish):
        reject_empty(replied.reply)
        # A copy with the run: the agent's own object stays unchanged.
        return AgentFinish(decision.return_values, decision.log, replied.run, unread=decision.unread)
    if not decision:
        raise ParseError("the agent returned an empty list of actions", observation="Decide on an action, or finish.")
    most = agent.max_actions
    if most is not None and decision[most:]:
        raise ParseError(
            f"the agent returned {len(decision)} actions, and declares max_actions={most}",
            observation="Decide on fewer actions at a time.",
        )
    return Acted(replied.run, decision)


@node(when_spent=limit_reached)
def dispatch_tools(acted: Acted) -> Asks[CallTool, Observed]:
    """Call the tools of the actions that have no answer, concurrently; the results keep the order of the actions."""
    results: tuple[ToolResult, ...]
    match acted.actions if not acted.answers else [acted.actions[place] for place in acted.open]:
        case (action,):
            # Yielded directly: a batch of one would cost three more calls at each step.
            result: ToolResult = yield CallTool(action.tool, action.tool_input, acted.run, action.call_id)
            results = (result,)
        case actions:
            results = yield from ask_all(
                [CallTool(action.tool, action.tool_input, acted.run, action.call_id) for action in actions]
            )
    if acted.answers:
        return acted.with_results(results)
    return Observed(acted.run, acted.actions, results)


def make_step(action: AgentAction, result: ToolResult) -> AgentStep:
    """Return the step that records an action and the result of its tool."""
    return AgentStep(action, result.observation, result.status, result.excerpt, result.error)


def add_steps(observed: Observed) -> Run:
    """Return the run with the steps that record what was observed."""
    return observed.run.with_steps(tuple(starmap(make_step, zip(observed.actions, observed.results, strict=True))))


@node
def check_return_direct(observed: Observed, policies: Policies) -> Ready | AgentFinish:
    """Add the steps to the run; end it if the result of a return-direct tool is the answer.

    With `return_direct="any"`, several tools may have been called: the last return-direct result is the answer.
    """
    results = observed.results
    # As `add_steps` does, which would be a call at each step.
    run = observed.run.with_steps(tuple(starmap(make_step, zip(observed.actions, results, strict=True))))
    answer: ToolResult | None = None
    for result in results:
        if result.return_direct:
            answer = result
    if answer is None or (results[1:] and policies.return_direct != "any"):
        return Ready(run)
    return AgentFinish({"output": answer.observation}, "", run, return_direct=True)


# LangChain's text for its two limits, iterations and time: callers compare with it.
STOPPED = "Agent stopped due to iteration limit or time limit."


@node
def stopped_response(stopped: Stopped) -> StoppedResponse:
    """End the run with a text that names the limit, or what refused. This node asks for no effects."""
    return end_stopped(stopped)


def end_stopped(stopped: Stopped) -> StoppedResponse:
    """Return the end of a run that stops, with the executor's own text."""
    match stopped.cause:
        case Exhausted("iterations" | "seconds"):
            text = STOPPED
        case Exhausted(limit):
            text = f"Agent stopped due to {limit.replace('_', ' ').removesuffix('s')} limit."
        case cause:
            text = f"Agent stopped: {cause}"
    return StoppedResponse(text, stopped.cause, stopped.run)


def stop_without_answer(stopped: Stopped, limit: Exhausted) -> StoppedResponse:
    """Return the stopped response of a run whose model did not give its last answer in time.

    The response names the limit that stopped the run, not `limit`, which stopped that last call.
    """
    del limit
    return end_stopped(stopped)


@node(when_spent=stop_without_answer, asks=(0, 1), grace=10.0)
def generate_response(
    stopped: Stopped, agent: Agent, policies: Policies
) -> Asks[CallModel | CallAgent, StoppedResponse]:
    """Ask the model once more, for an answer from the steps so far.

    The request is counted, but no limit on calls, tokens or cost stops it, and it may take 10 seconds beyond the
    deadline. A reply in plain text is an answer, too. If the reply is empty or chooses more actions, the run ends as
    with `stopped_response`. After a refusal nothing is asked, nor before a memory has loaded the inputs of the prompt.
    """
    ending = end_stopped(stopped)
    if not isinstance(stopped.cause, Exhausted) or {*agent.input_keys} - {*stopped.run.inputs}:
        return ending
    reply: ModelReply | Decided = yield policies.request(agent, stopped.run, conclude)
    if isinstance(reply, ModelReply) and reply.finish_reason == "failed":
        return ending
    try:
        decision = read_reply(agent.read, reply)
    except ParseError as error:
        text = error.llm_output if error.prose else ""
    else:
        text = format_observation(decision.answer) if isinstance(decision, AgentFinish) else ""
    return dataclasses.replace(ending, output=text.strip(), generated=True) if text.strip() else ending


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
