"""An agent is two pure functions: what to ask the model, and how to read its reply."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from graphexec._arguments import MODEL, has_methods, validate, validate_each
from graphexec.actions import AgentAction, AgentFinish, Run, Steps
from graphexec.agents.answers import AnswerReader
from graphexec.effects import CallAgent, CallModel, Decided, Unreadable
from graphexec.errors import AgentError, InputError, ParseError, format_value
from graphexec.messages import CompletionRequest, Message, Model, ModelReply, ModelRequest, UserMessage


class Runnable(Protocol):
    """What decides when it is invoked with a run's inputs and its `intermediate_steps`, pairs of both kinds."""

    def invoke(self, inputs: dict[str, Any], /) -> Any:
        """Return an action, a list of actions or a finish, of these classes or with the same attributes."""


def make_decide(runnable: Runnable) -> Callable[[Steps, dict[str, Any]], Any]:
    """Return a function of the steps and the inputs that invokes it; in an async run it gets a thread.

    A parser's error becomes a `ParseError`. The function raises `AgentError` for actions of native tool calls.
    """
    name = type(runnable).__name__

    def decide(steps: Steps, inputs: dict[str, Any]) -> Any:
        pairs = [(step.action, step.observation) for step in steps]
        try:
            return _convert_decision(name, runnable.invoke({**inputs, "intermediate_steps": pairs}))
        except ValueError as error:
            # Any: it is of a class that is not known here.
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
            "create_tool_calling_agent, which tells a model what came of them"
        )
    if hasattr(decision, "return_values"):
        return AgentFinish(decision.return_values, decision.log)
    if hasattr(decision, "tool_input"):
        return AgentAction(decision.tool, decision.tool_input, decision.log)
    return decision


Decision: TypeAlias = AgentFinish | tuple[AgentAction, ...]

# A callable agent, `def` or `async def`: from the steps so far and the run's inputs to its decision. (What a coroutine
# function returns cannot be written beside what a function returns without naming both here.)
AgentFunction: TypeAlias = Callable[[Steps, dict[str, Any]], Any]
_INVOKED = has_methods("an object that is invoked", "invoke")


@dataclass(frozen=True, slots=True)
class Agent:
    """How a model decides, without the model's being called.

    `ask(run)` makes the question from the inputs and the steps so far; `read(reply)` makes a decision of the answer, or
    raises `ParseError`. Both are pure. The question goes to `model`, or to `function`, which decides by itself.
    `input_keys` are the inputs that a run needs, `optional_keys` those that it may have. `conclude(run)` makes the last
    question of a run that `early_stopping_method="generate"` stops. `answer()` makes a reader that finds the final
    answer in a reply while it streams.
    """

    ask: Callable[[Run], CallModel | CallAgent]
    read: Callable[[ModelReply | Decided], Decision]
    model: Model | None = None
    function: AgentFunction | None = None
    input_keys: tuple[str, ...] = ("input",)
    conclude: Callable[[Run], CallModel | CallAgent] | None = None
    answer: Callable[[], AnswerReader] | None = None
    optional_keys: tuple[str, ...] = ()


# What a run that has to answer at once is told: LangChain's sentence.
FINAL = "I now need to return a final answer based on the previous steps:"


def chat_agent(
    ask: Callable[[Run], CallModel],
    read: Callable[[ModelReply], Decision],
    model: Model,
    *,
    input_keys: Sequence[str] = ("input",),
    conclude: Callable[[Run], CallModel] | None = None,
    answer: Callable[[], AnswerReader] | None = None,
    optional_keys: Sequence[str] = (),
) -> Agent:
    """Make an agent of a model and the two functions. Raises `InputError` for an invalid model or list of keys.

    Without `conclude`, the last question is the next one with LangChain's sentence, without schema and tool calls.
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
    )


def conclude_request(request: ModelRequest) -> ModelRequest:
    """Return the question with the sentence that asks for a final answer, which nothing but an answer can follow."""
    if isinstance(request, CompletionRequest):
        return dataclasses.replace(request, prompt=f"{request.prompt}\n\n{FINAL}")
    return dataclasses.replace(request, messages=conclude_messages(request.messages), schema=None, tool_choice="none")


def conclude_messages(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return a conversation at whose end the model is told to give its final answer."""
    *before, last = messages
    if isinstance(last, UserMessage):
        return (*before, UserMessage(f"{last.content}\n\n{FINAL}"))
    return (*before, last, UserMessage(FINAL))


# Where the functions are that make agents, of which some are given uncalled.
_MAKERS = __name__.rpartition(".")[0]


def callable_agent(function: AgentFunction | Runnable) -> Agent:
    """Make an agent of a function `(steps, inputs) -> AgentAction | list[AgentAction] | AgentFinish`.

    Or of a generator, sync or async, that yields these in chunks: actions add up, a finish comes alone. Or of an object
    with `invoke`, such as LangChain's runnables, which gets the inputs with `intermediate_steps`; its actions and its
    finish may be of LangChain's classes. Each call counts as a model call. An empty list is a parse error; anything
    else raises `AgentError`. A run that is stopped and has to answer at once calls the function with the input
    `conclude`, which is `True`. Raises `InputError` for an invalid function.
    """
    # Users without a type checker pass classes, models, and the names of these.
    if isinstance(function, type) or not (callable(function) or _INVOKED.fits(function)):
        raise InputError(
            f"agent is {format_value(function)}; make one with create_react_agent, say, or give a function"
        )
    if getattr(function, "__module__", "").startswith(_MAKERS):
        name = getattr(function, "__name__", "")
        raise InputError(f"agent is the function {name}; call it: {name}(model, tools)")
    decides = function if callable(function) else make_decide(function)

    def conclude(run: Run) -> CallAgent:
        return CallAgent(Run({**run.inputs, "conclude": True}, run.steps))

    return Agent(CallAgent, _read_decision, function=decides, input_keys=(), conclude=conclude)


def _read_decision(reply: ModelReply | Decided) -> Decision:
    assert isinstance(reply, Decided), "CallAgent is answered with Decided"
    decision = reply.decision
    if isinstance(decision, Unreadable):
        told, raw = decision.observation, decision.llm_output
        raise ParseError(decision.text, observation=told, llm_output=raw, prose=decision.prose)
    return decision
