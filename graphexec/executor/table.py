"""The agent executor as a transition table: five nodes and the edges between them.

A run follows plan → parse → dispatch_tools → check_return_direct → plan and so on, until it ends with an `AgentFinish`
or a `StoppedResponse`, or in the strict variants with the `ParseError` that parse raises.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import starmap
from typing import Literal, Protocol, TypeAlias, final

from graphexec.actions import NO_ASIDE, AgentAction, AgentFinish, AgentStep, Refusal, Run, Steps, StoppedResponse
from graphexec.agents import Agent
from graphexec.agents.prompt import format_observation
from graphexec.agents.reading.answers import READ_AHEAD, read_reply
from graphexec.agents.reading.text_parsing import reject_empty
from graphexec.effects import CallAgent, CallModel, CallTool, Decided, ToolResult
from graphexec.errors import InputError, ParseError, format_value
from graphexec.kernel.effects import Asks, ask_all
from graphexec.kernel.graph import edges, on
from graphexec.kernel.meters import Exhausted
from graphexec.kernel.node import END, charged, metered, node, rename, reserved
from graphexec.kernel.surgery import replace
from graphexec.machine import Machine, graph
from graphexec.messages import ModelReply, ModelRequest


@final
@dataclass(frozen=True, slots=True)
class Ready:
    """The run is ready for the agent's next decision."""

    run: Run


@final
@dataclass(frozen=True, slots=True)
class Replied:
    """The model has replied, or a callable agent has decided."""

    run: Run
    reply: ModelReply | Decided


# The answer to an action whose tool is not called: a result, or the place of an earlier action with the same result.
Answer: TypeAlias = ToolResult | int


@final
@dataclass(frozen=True, slots=True)
class Acted:
    """The agent has chosen these actions; their tools have not been called yet.

    A node may answer an action in the place of its tool. `answers` has an entry for each action, `None` if its tool is
    to be called; it is empty if no action is answered. Raises `InputError` for more answers than actions, and for an
    answer that is neither a result nor the place of an earlier action.
    """

    run: Run
    actions: tuple[AgentAction, ...]
    answers: tuple[Answer | None, ...] = ()

    def __post_init__(self) -> None:
        if not self.answers:
            return
        # A node that leaves out an action would give its answer to another one, whose tool might then be called.
        if len(self.answers) > len(self.actions):
            raise InputError(
                f"Acted has {len(self.answers)} answers for {len(self.actions)} actions; keep the actions, and answer "
                "those that are not to be called: acted.answer(place, ToolResult(...))"
            )
        for place, answer in enumerate(self.answers):
            earlier = isinstance(answer, int) and 0 <= answer < place
            if not (answer is None or isinstance(answer, ToolResult) or earlier):
                raise InputError(
                    f"Acted has the answer {format_value(answer)} for action {place}; give None, a ToolResult, or the "
                    "place of an earlier action"
                )

    @property
    def open(self) -> tuple[int, ...]:
        """The places of the actions whose tools are to be called."""
        return tuple(place for place in range(len(self.actions)) if not self.answered(place))

    def answered(self, place: int) -> bool:
        """Return whether the action at this place has an answer, so that its tool is not called."""
        return place < len(self.answers) and self.answers[place] is not None

    def answer(self, place: int, answer: Answer) -> Acted:
        """Return the actions with the one at this place answered, so that its tool is not called.

        Raises `IndexError` for a place without an action, and `ValueError` for an answer that is the place of no
        earlier action.
        """
        if not 0 <= place < len(self.actions):
            raise IndexError(f"there is no action {place}; there are {len(self.actions)}")
        if isinstance(answer, int) and not 0 <= answer < place:
            raise ValueError(f"the answer of action {place} is {answer}; give a ToolResult, or an earlier place")
        answers = [*self.answers, *[None] * (len(self.actions) - len(self.answers))]
        answers[place] = answer
        return Acted(self.run, self.actions, tuple(answers))

    def with_results(self, called: Sequence[ToolResult]) -> Observed:
        """Return what was observed: the answers, and the results of the tools of the `open` actions in their order."""
        results: list[ToolResult] = []
        rest = iter(called)
        for place in range(len(self.actions)):
            answer = self.answers[place] if place < len(self.answers) else None
            if answer is None:
                results.append(next(rest))
            else:
                results.append(results[answer] if isinstance(answer, int) else answer)
        return Observed(self.run, self.actions, tuple(results))


@final
@dataclass(frozen=True, slots=True)
class Observed:
    """The tools have returned: one result per action, in the order of the actions."""

    run: Run
    actions: tuple[AgentAction, ...]
    results: tuple[ToolResult, ...]


@final
@dataclass(frozen=True, slots=True)
class LimitReached:
    """A limit is used up, so the run must stop. `run` holds the steps so far."""

    run: Run
    limit: Exhausted


@final
@dataclass(frozen=True, slots=True)
class Refused:
    """A node has refused to go on: the run must stop, and the model is asked nothing more.

    `by` names what refused, such as `guard_output`, and `why` is the reason for people.
    """

    run: Run
    by: str
    why: str


class HasRun(Protocol):
    """Any value that carries a run."""

    @property
    def run(self) -> Run:
        """The run so far."""
        ...


def limit_reached(value: HasRun, limit: Exhausted) -> LimitReached:
    """Return the outcome of a `metered` or `charged` node of an agent's graph when a limit is used up."""
    return LimitReached(value.run, limit)


# The observation after an unreadable reply, if the parser provides none. The text is LangChain's.
DEFAULT_FEEDBACK = "Invalid or incomplete response"


def default_feedback(error: ParseError) -> str:
    """Return the parser's observation, or `DEFAULT_FEEDBACK` if it has none."""
    return error.observation or DEFAULT_FEEDBACK


# The result of a return-direct tool is the answer if it was the only call of the turn ("single"), or always ("any").
ReturnDirect: TypeAlias = Literal["single", "any"]


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
    edits: tuple[Callable[[ModelRequest, Run], ModelRequest], ...] = ()

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
        if not self.edits or isinstance(effect, CallAgent):
            return effect
        request = effect.request
        for edit in self.edits:
            request = edit(request, run)
        return effect if request is effect.request else dataclasses.replace(effect, request=request)


def ask_agent(agent: Agent, run: Run) -> CallModel | CallAgent:
    """Return the agent's request for its next decision."""
    return agent.ask(run)


def conclude(agent: Agent, run: Run) -> CallModel | CallAgent:
    """Return the agent's request for its final answer."""
    return (agent.conclude or agent.ask)(run)


# The tool name in the step that records an unreadable reply. The name is LangChain's.
EXCEPTION_TOOL = "_Exception"


@metered(when_spent=limit_reached, asks=1)
@node
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


@charged(when_spent=limit_reached)
@node
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


@node
def check_return_direct(observed: Observed, policies: Policies) -> Ready | AgentFinish:
    """Add the steps to the run; end it if the result of a return-direct tool is the answer.

    With `return_direct="any"`, several tools may have been called: the last return-direct result is the answer.
    """
    results = observed.results
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
def stopped_response(reached: LimitReached | Refused) -> StoppedResponse:
    """End the run with a text that names the limit, or what refused. This node asks for no effects."""
    return _make_stopped_response(reached)


def _make_stopped_response(reached: LimitReached | Refused) -> StoppedResponse:
    if isinstance(reached, Refused):
        refusal = Refusal(reached.by, reached.why)
        return StoppedResponse(f"Agent stopped: {refusal}", None, reached.run, refusal=refusal)
    exhausted = reached.limit
    name = exhausted.limit.replace("_", " ").removesuffix("s")
    text = STOPPED if exhausted.limit in ("iterations", "seconds") else f"Agent stopped due to {name} limit."
    return StoppedResponse(text, exhausted, reached.run)


def stop_without_answer(reached: LimitReached | Refused, limit: Exhausted) -> StoppedResponse:
    """Return the stopped response of a run whose model did not give its last answer in time.

    The response names the limit that stopped the run, not `limit`, which stopped that last call.
    """
    del limit
    return _make_stopped_response(reached)


@reserved(when_spent=stop_without_answer, asks=(0, 1))
@node
def generate_response(
    reached: LimitReached | Refused, agent: Agent, policies: Policies
) -> Asks[CallModel | CallAgent, StoppedResponse]:
    """Ask the model once more, for an answer from the steps so far.

    The request is counted, but no limit on calls, tokens or cost stops it, and it may take 10 seconds beyond the
    deadline. A reply in plain text is an answer, too. If the reply is empty or chooses more actions, the run ends as
    with `stopped_response`. After a refusal nothing is asked.
    """
    if isinstance(reached, Refused):
        return _make_stopped_response(reached)
    reply: ModelReply | Decided = yield policies.request(agent, reached.run, conclude)
    try:
        decision = read_reply(agent.read, reply)
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

# For `handle_parsing_errors=False`: the edge from parse back to plan is dropped, and the error is a third exit.
_strict_parse = dataclasses.replace(rename(parse_or_raise, "parse"), raises=(ParseError,))
# For `early_stopping_method="generate"`: this node asks the model for a last answer.
_generated_response = rename(generate_response, "stopped_response")

STRICT_AGENT_EXECUTOR = replace(AGENT_EXECUTOR, _strict_parse, narrowed=True)
GENERATING_AGENT_EXECUTOR = replace(AGENT_EXECUTOR, _generated_response)
STRICT_GENERATING_AGENT_EXECUTOR = replace(STRICT_AGENT_EXECUTOR, _generated_response)


def require_agent_graph(machine: Machine[Ready, AgentFinish | StoppedResponse]) -> None:
    """Raise `InputError` unless a machine starts with `Ready` and ends with an `AgentFinish` or a `StoppedResponse`."""
    # Callers without a type checker may pass another object.
    if not isinstance(machine, Machine) or Ready not in machine[machine.start].takes:  # pyright: ignore[reportUnnecessaryIsInstance]
        remedy = "make it from executor.graph, for example with splice"
        raise InputError(f"{machine!r} is not a machine that starts with Ready; {remedy}")
    for edge in machine.edges:
        if edge.target == END.name and edge.outcome not in (AgentFinish, StoppedResponse):
            raise InputError(f"{edge} ends a run of an agent; only AgentFinish and StoppedResponse may lead to END")
