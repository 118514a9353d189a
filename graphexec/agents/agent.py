"""An agent: a pure function that writes the model request, and one that parses the reply."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from graphexec._arguments import MODEL, has_methods, validate, validate_each
from graphexec.actions import AgentAction, AgentFinish, Run, Steps
from graphexec.agents.answers import AnswerReader
from graphexec.effects import CallAgent, CallModel, Decided, Unreadable
from graphexec.errors import AgentError, InputError, ParseError, format_value
from graphexec.messages import CompletionRequest, Message, Model, ModelReply, ModelRequest, UserMessage
from graphexec.tools import AnyTool, tools_by_name


class Runnable(Protocol):
    """An object with `invoke`, such as a LangChain runnable, that returns the agent's decision.

    Its argument is the run's inputs with `intermediate_steps`: pairs of action and observation.
    """

    def invoke(self, inputs: dict[str, Any], /) -> Any:
        """Return an action, a list of actions or a finish: of our classes, or with the same attributes."""


def make_agent_function(runnable: Runnable) -> Callable[[Steps, dict[str, Any]], Any]:
    """Make a function of the steps and the inputs that invokes the runnable; async runs call it in a thread.

    An error of an output parser becomes a `ParseError`. Actions from native tool calls raise `AgentError`.
    """
    name = type(runnable).__name__

    def decide(steps: Steps, inputs: dict[str, Any]) -> Any:
        pairs = [(step.action, step.observation) for step in steps]
        try:
            return _convert_decision(name, runnable.invoke({**inputs, "intermediate_steps": pairs}))
        except ValueError as error:
            # Any: the class of the error is not known here.
            other: Any = error
            if isinstance(error, ParseError) or not hasattr(other, "llm_output"):
                raise
            raise ParseError(
                str(error), observation=getattr(other, "observation", None), llm_output=other.llm_output or ""
            ) from error

    decide.__name__ = name
    return decide


def _convert_decision(name: str, decision: Any) -> Any:
    if isinstance(decision, (list, tuple)):
        several: list[Any] = list(decision)  # pyright: ignore[reportUnknownArgumentType]
        return [_convert_decision(name, one) for one in several]
    if isinstance(decision, (AgentAction, AgentFinish)):
        return decision
    if getattr(decision, "message_log", None):
        raise AgentError(
            f"{name} decided by native tool calls, {type(decision).__name__}; make the agent with "
            "create_tool_calling_agent, which sends the results back to the model"
        )
    if hasattr(decision, "return_values"):
        return AgentFinish(decision.return_values, decision.log)
    if hasattr(decision, "tool_input"):
        return AgentAction(decision.tool, decision.tool_input, decision.log)
    return decision


Decision: TypeAlias = AgentFinish | tuple[AgentAction, ...]

# A callable agent, `def` or `async def`: from the steps so far and the run's inputs to its decision. The result is
# `Any`, because it may be a decision, a coroutine or a generator.
AgentFunction: TypeAlias = Callable[[Steps, dict[str, Any]], Any]
_RUNNABLE = has_methods("an object with invoke", "invoke")


@dataclass(frozen=True, slots=True)
class Agent:
    """The part of an agent that needs no I/O: how to write the request, and how to parse the reply.

    `ask(run)` returns the request for the inputs and the steps so far; `read(reply)` returns the decision in the reply,
    or raises `ParseError`. Both are pure. The request goes to `model`, or to `function`, which decides without a model.
    A run must have the inputs `input_keys`, and may have the `optional_keys`. `conclude(run)` returns the last request
    of a run that `early_stopping_method="generate"` stops. `answer()` makes a reader that extracts the final answer
    from a reply while it streams. `tools` are those that the model is told of, which an executor must have; `None` if
    the agent does not know them. `kind` names the format of requests and replies, such as `react`.
    """

    ask: Callable[[Run], CallModel | CallAgent]
    read: Callable[[ModelReply | Decided], Decision]
    model: Model | None = None
    function: AgentFunction | None = None
    input_keys: tuple[str, ...] = ("input",)
    conclude: Callable[[Run], CallModel | CallAgent] | None = None
    answer: Callable[[], AnswerReader] | None = None
    optional_keys: tuple[str, ...] = ()
    tools: tuple[AnyTool, ...] | None = None
    kind: str = "custom"


# The request for a final answer when a run must stop: LangChain's sentence.
FINAL = "I now need to return a final answer based on the previous steps:"


# Each parameter is a separate part of an agent.
def chat_agent(  # noqa: PLR0913
    ask: Callable[[Run], CallModel],
    read: Callable[[ModelReply], Decision],
    model: Model,
    *,
    input_keys: Sequence[str] = ("input",),
    conclude: Callable[[Run], CallModel] | None = None,
    answer: Callable[[], AnswerReader] | None = None,
    optional_keys: Sequence[str] = (),
    tools: Iterable[AnyTool] | None = None,
    kind: str = "custom",
) -> Agent:
    """Make an agent from a model and the two functions.

    Without `conclude`, the last request is the next request with LangChain's sentence, without schema and tool calls.
    An executor must have exactly the `tools` that you name. Raises `InputError` for an invalid model or list of keys,
    and `ToolDefinitionError` for invalid tools.
    """
    validate("", ("the model", model, MODEL))

    def read_reply(reply: ModelReply | Decided) -> Decision:
        assert isinstance(reply, ModelReply), "CallModel is answered with a ModelReply"
        return read(reply)

    def conclude_now(run: Run) -> CallModel:
        return CallModel(conclude_request(ask(run).request))

    return Agent(
        ask,
        read_reply,
        model=model,
        input_keys=validate_each("input_keys", input_keys, str, "strings"),
        conclude=conclude or conclude_now,
        answer=answer,
        optional_keys=validate_each("optional_keys", optional_keys, str, "strings"),
        tools=None if tools is None else tuple(tools_by_name(tools).values()),
        kind=kind,
    )


def conclude_request(request: ModelRequest) -> ModelRequest:
    """Return a request that asks for the final answer, without schema and tool calls."""
    if isinstance(request, CompletionRequest):
        return dataclasses.replace(request, prompt=f"{request.prompt}\n\n{FINAL}")
    return dataclasses.replace(request, messages=conclude_messages(request.messages), schema=None, tool_choice="none")


def conclude_messages(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return the messages with a request for the final answer at the end."""
    *before, last = messages
    if isinstance(last, UserMessage):
        return (*before, UserMessage(f"{last.content}\n\n{FINAL}"))
    return (*before, last, UserMessage(FINAL))


# The package of the functions that make agents; users sometimes pass such a function without calling it.
_PACKAGE = __name__.rpartition(".")[0]


def callable_agent(function: AgentFunction | Runnable) -> Agent:
    """Make an agent from a function `(steps, inputs) -> AgentAction | list[AgentAction] | AgentFinish`.

    The function may be a generator, sync or async, that yields decisions in chunks: actions are collected, and a finish
    must be the only chunk. An object with `invoke`, such as LangChain's runnables, receives the inputs with
    `intermediate_steps`; it may return actions and a finish of LangChain's classes.

    Each call counts as a model call. An empty list is a parse error; any other value raises `AgentError`. If a run must
    stop and asks for a final answer, the function is called with the input `conclude=True`. Raises `InputError` for an
    invalid function.
    """
    # Users may pass a class, a model, or a name.
    if isinstance(function, type) or not (callable(function) or _RUNNABLE.fits(function)):
        raise InputError(
            f"agent is {format_value(function)}; make one with create_react_agent, say, or give a function"
        )
    if getattr(function, "__module__", "").startswith(_PACKAGE):
        name = getattr(function, "__name__", "")
        raise InputError(f"agent is the function {name}; call it: {name}(model, tools)")
    decides = function if callable(function) else make_agent_function(function)

    def conclude(run: Run) -> CallAgent:
        return CallAgent(Run({**run.inputs, "conclude": True}, run.steps))

    return Agent(CallAgent, _read_decision, function=decides, input_keys=(), conclude=conclude, kind="function")


def _read_decision(reply: ModelReply | Decided) -> Decision:
    assert isinstance(reply, Decided), "CallAgent is answered with Decided"
    decision = reply.decision
    if isinstance(decision, Unreadable):
        raise ParseError(
            decision.text, observation=decision.observation, llm_output=decision.llm_output, prose=decision.prose
        )
    return decision
