"""An agent: a pure function that writes the model request, and one that parses the reply."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial, wraps
from inspect import signature
from types import FunctionType
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeAlias, final, get_args

from graphexec._arguments import (
    FUNCTION,
    MODEL,
    LangChainObject,
    adapt,
    is_executor,
    optional,
    validate,
    validate_each,
    whole,
)
from graphexec._mistakes import explain_class
from graphexec._mistakes.remedies import AGENT_OPTIONS
from graphexec.actions import Decision, Run, Steps
from graphexec.agents.reading.answers import AnswerReader, skip_reasoning
from graphexec.effects import CallAgent, CallModel, Decided, Unreadable
from graphexec.errors import InputError, ParseError, format_value
from graphexec.messages import (
    CompletionRequest,
    Message,
    Model,
    ModelReply,
    ModelRequest,
    ToolMessage,
    UserMessage,
    separate_reasoning,
)
from graphexec.tools import AnyTool, tools_by_name

if TYPE_CHECKING:
    from graphexec.runtime.handlers import Handler
    from graphexec.runtime.observers import AroundCall

P = ParamSpec("P")

# A callable agent, `def` or `async def`: from the steps so far and the run's inputs to its decision. The result is
# `Any`, because it may be a decision or a coroutine.
AgentFunction: TypeAlias = Callable[[Steps, dict[str, Any]], Any]
# Returns the inputs with which a run starts.
Prepare: TypeAlias = Callable[[Mapping[str, Any]], Mapping[str, Any]]

# - no_dummies: no argument is copied from a worked example.
# - no_repeats: a call that has succeeded is not made again with the same arguments.
# - no_immediate_repeats: a call that has succeeded is not made again before a later reply has made another call.
RuleName: TypeAlias = Literal["no_dummies", "no_repeats", "no_immediate_repeats"]


@explain_class("create_agent(model, tools), or Agent(ask, read)", options=AGENT_OPTIONS)
@dataclass(frozen=True, slots=True)
class Agent:
    """The part of an agent that needs no I/O: how to write the request, and how to parse the reply.

    `ask(run)` returns the request for the inputs and the steps so far; `read(reply)` returns the decision in the reply,
    or raises `ParseError`. Both are pure. The request goes to `model`, or to `function`, which decides without a model,
    or is the handler of `CallAgent`. A run must have the inputs `input_keys`, and may have the `optional_keys`.
    `conclude(run)` returns the last request of a run that `early_stopping_method="generate"` stops. `answer()` makes a
    reader that extracts the final answer from a reply while it streams. `tools` are those that the model is told of,
    which an executor must have; `None` if the agent does not know them. `kind` names the format of requests and
    replies, such as `react`.
    `prepare(inputs)` returns the inputs with which a run starts, or raises `InputError` for those that the agent cannot
    use.

    `rules` names the pieces that an executor plugs first. They may ask the model again, with `narrow(run, tools)`: the
    request for a decision that calls only the tools of these names, or none; without it, an answer is asked for with
    `conclude`. `dummies` are the arguments in the agent's worked examples, which belong to no question but those of
    the examples, `example_questions`. `tool_choice` says whether the model must call a tool before it answers: `auto`,
    `required`, the name of a tool, or `inferred` from the question.

    A reply of the model has at most `max_actions` actions (`None`: any number): `parse` refuses one with more, so an
    executor can prove that so many tools are called after each.

    `remake(tools)` makes the agent again with other tools; the functions that make agents set it. `around_tools`
    returns a context manager for each call of a tool.
    """

    ask: Callable[[Run], CallModel | CallAgent]
    read: Callable[[ModelReply | Decided], Decision]
    model: Model | None = None
    function: AgentFunction | Handler | None = None
    input_keys: tuple[str, ...] = ("input",)
    conclude: Callable[[Run], CallModel | CallAgent] | None = None
    answer: Callable[[], AnswerReader] | None = None
    optional_keys: tuple[str, ...] = ()
    tools: tuple[AnyTool, ...] | None = None
    kind: str = "custom"
    prepare: Prepare | None = None
    rules: tuple[RuleName, ...] = ()
    narrow: Callable[[Run, frozenset[str]], CallModel | CallAgent] | None = None
    dummies: tuple[Any, ...] = ()
    example_questions: tuple[str, ...] = ()
    tool_choice: str = "auto"
    max_actions: int | None = None
    remake: Callable[[Sequence[AnyTool]], Agent] | None = field(default=None, compare=False, repr=False)
    around_tools: AroundCall | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        most = optional(whole(1), "any number")
        validate(
            "Agent", ("ask", self.ask, FUNCTION), ("read", self.read, FUNCTION), ("max_actions", self.max_actions, most)
        )

    def with_tools(self, tools: Iterable[AnyTool]) -> Agent:
        """Return the agent with these tools in place of its own, which its prompt, examples and schema then describe.

        It keeps its model and its rules. An agent without a list of tools is returned as it is. Raises
        `ToolDefinitionError` for invalid tools, and `InputError` for an agent that knows its tools but not how to make
        its requests with others.
        """
        new = tuple(tools)
        if self.tools is None or new == self.tools:
            return self
        remake = find_remake(self)
        if remake is None:
            changed = ", and its functions were replaced after that" if isinstance(self.remake, Recipe) else ""
            made = "was made with its tools" if changed else "has a list of tools"
            raise InputError(
                f"the agent ({self.kind}) {made}{changed}, so it cannot be made again with others; give it "
                "remake(tools), or make another agent with the new tools"
            )
        return dataclasses.replace(remake(new), model=self.model, rules=self.rules, max_actions=self.max_actions)


# The fields of an agent that the tools may be written into.
_FUNCTIONS = ("ask", "read", "conclude", "answer", "prepare", "narrow", "tools", "dummies", "tool_choice")


@final
@dataclass(frozen=True, eq=False, slots=True)
class Recipe:
    """The call of a function that made an agent: it makes the agent again with other tools. `made` is the agent."""

    create: Callable[..., Agent]
    arguments: tuple[Any, ...]
    options: Mapping[str, Any]
    made: Agent

    def __call__(self, tools: Sequence[AnyTool]) -> Agent:
        """Make the agent again. Raises what the function raises."""
        return _remake(self, tuple(tools))


# The sets of tools that the latest requests offered: making an agent again takes milliseconds.
@lru_cache(maxsize=64)
def _remake(recipe: Recipe, tools: tuple[AnyTool, ...]) -> Agent:
    given = signature(recipe.create).bind(*recipe.arguments, **recipe.options)
    given.arguments["tools"] = tools
    return recipe.create(*given.args, **given.kwargs)


def remakeable(create: Callable[P, Agent]) -> Callable[P, Agent]:
    """Record how a function makes an agent, so that it can make the agent again with other tools; a decorator."""

    @wraps(create)
    def make(*args: P.args, **options: P.kwargs) -> Agent:
        try:
            agent = create(*args, **options)
            return dataclasses.replace(agent, remake=Recipe(make, args, dict(options), agent))
        finally:
            # The frame of an error shows its variables, and an option may be an API key.
            options.clear()

    return make


def find_remake(agent: Agent) -> Callable[[Sequence[AnyTool]], Agent] | None:
    """Return what makes an agent again; `None` if nothing does, or if its functions were replaced since."""
    remake = agent.remake
    if isinstance(remake, Recipe) and any(
        getattr(agent, name) is not getattr(remake.made, name) for name in _FUNCTIONS
    ):
        return None
    return remake


def validate_rules(rules: Sequence[RuleName]) -> tuple[RuleName, ...]:
    """Return the names of rules. Raises `InputError` for other values, and for both rules against repetitions."""
    known = ", ".join(get_args(RuleName))
    for name in validate_each("rules", rules, str, f"names of rules: {known}"):
        if name not in get_args(RuleName):
            raise InputError(f"rules has {format_value(name)}; give names of {known}")
    if "no_repeats" in rules and "no_immediate_repeats" in rules:
        raise InputError("rules has no_repeats and no_immediate_repeats; give one of them")
    return tuple(rules)


# The request for a final answer when a run must stop: LangChain's sentence.
FINAL_REQUEST = "I now need to return a final answer based on the previous steps:"


# Each parameter is a separate part of an agent.
def chat_agent(  # noqa: PLR0913
    ask: Callable[[Run], CallModel],
    read: Callable[[ModelReply], Decision],
    model: Model | LangChainObject,
    *,
    input_keys: Sequence[str] = ("input",),
    conclude: Callable[[Run], CallModel] | None = None,
    answer: Callable[[], AnswerReader] | None = None,
    optional_keys: Sequence[str] = (),
    tools: Iterable[AnyTool | LangChainObject] | None = None,
    kind: str = "custom",
    prepare: Prepare | None = None,
    max_actions: int | None = None,
) -> Agent:
    """Make an agent from a model and the two functions.

    Without `conclude`, the last request is the next request with LangChain's sentence, without schema and tool calls.
    The reasoning that a reply begins with, such as `<think>...</think>`, is neither in the content that `read` receives
    nor in the text that `answer` reads.
    An executor must have exactly the `tools` that you name. Raises `InputError` for an invalid model or list of keys,
    and `ToolDefinitionError` for invalid tools.
    """
    known: Model = adapt(model, "model")
    validate("", ("the model", known, MODEL))

    def read_reply(reply: ModelReply | Decided) -> Decision:
        assert type(reply) is not Decided, "CallModel is answered with a ModelReply"
        return read(separate_reasoning(reply))

    return Agent(
        ask,
        read_reply,
        model=known,
        input_keys=validate_each("input_keys", input_keys, str, "strings"),
        conclude=conclude or (lambda run: CallModel(conclude_request(ask(run).request))),
        answer=None if answer is None else partial(skip_reasoning, answer),
        optional_keys=validate_each("optional_keys", optional_keys, str, "strings"),
        tools=None if tools is None else tuple(tools_by_name(tools).values()),
        kind=kind,
        prepare=prepare,
        max_actions=max_actions,
    )


def conclude_request(request: ModelRequest) -> ModelRequest:
    """Return a request that asks for the final answer, without schema and tool calls."""
    if isinstance(request, CompletionRequest):
        return dataclasses.replace(request, prompt=f"{request.prompt}\n\n{FINAL_REQUEST}")
    return dataclasses.replace(request, messages=conclude_messages(request.messages), schema=None, tool_choice="none")


def conclude_messages(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return the messages with a request for the final answer at the end."""
    *before, last = messages
    if isinstance(last, UserMessage | ToolMessage):
        # Some servers refuse a message of the user's after results.
        return (*before, dataclasses.replace(last, content=f"{last.content}\n\n{FINAL_REQUEST}"))
    return (*before, last, UserMessage(FINAL_REQUEST))


# The modules of the functions that make agents; users sometimes pass such a function without calling it.
_OWN = ("graphexec.agents.", "graphexec.create", "graphexec.integrations.")


def callable_agent(function: AgentFunction | LangChainObject) -> Agent:
    """Make an agent from a function `(steps, inputs) -> AgentAction | list[AgentAction] | AgentFinish`.

    Each call counts as a model call. An empty list is a parse error; any other value raises `AgentError`. If a run must
    stop and asks for a final answer, the function is called with the input `conclude=True`. A runnable of LangChain is
    taken as `runnable_agent` takes it. Raises `InputError` for an invalid function.
    """
    reject_executor(function)
    # Any: users may pass anything instead of a function.
    known: Any = adapt(function, "agent")
    given: object = known
    if isinstance(given, Agent) and not isinstance(function, Agent):
        return given
    if isinstance(given, FunctionType) and (given.__module__ or "").startswith(_OWN):
        name = given.__name__
        raise InputError(f"agent is the function {name}; call it: {name}(model, tools)")
    others = [name for name in ("invoke", "ainvoke", "plan") if callable(getattr(given, name, None))]
    if isinstance(given, type) or not callable(given) or len(others) > 1:
        remedy = "make one with create_react_agent, say, or give a function"
        if others and not isinstance(given, type):
            remedy = "write runnable_agent(runnable), of graphexec.integrations.langchain"
        raise InputError(f"agent is {format_value(given)}; {remedy}")
    return deciding_agent(known, kind="function")


def deciding_agent(function: AgentFunction | Handler, *, kind: str, input_keys: Sequence[str] = ()) -> Agent:
    """Make an agent that decides without a model of its own: by a function, or by a handler of `CallAgent`."""

    def conclude(run: Run) -> CallAgent:
        return CallAgent(dataclasses.replace(run, inputs={**run.inputs, "conclude": True}))

    keys = tuple(input_keys)
    return Agent(CallAgent, _read_decision, function=function, input_keys=keys, conclude=conclude, kind=kind)


def reject_executor(agent: object) -> None:
    """Raise `InputError` for an executor, or one of its methods, in the place of an agent."""
    if is_executor(agent) or is_executor(getattr(agent, "__self__", None)):
        raise InputError(
            "agent is an executor, which runs an agent already; run it as it is, or pass "
            "executor.as_tool(name, description) in tools"
        )


def _read_decision(reply: ModelReply | Decided) -> Decision:
    assert type(reply) is Decided, "CallAgent is answered with Decided"
    decision = reply.decision
    if type(decision) is Unreadable:
        raise ParseError(
            decision.text, observation=decision.observation, llm_output=decision.llm_output, prose=decision.prose
        )
    return decision
