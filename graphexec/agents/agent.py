"""An agent is two pure functions: what to ask the model, and how to read its reply."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from graphexec.actions import AgentAction, AgentFinish, Run, Steps
from graphexec.effects import CallAgent, CallModel, Decided, Unreadable
from graphexec.errors import InputError, ParseError
from graphexec.messages import Model, ModelReply

Decision: TypeAlias = AgentFinish | tuple[AgentAction, ...]

# A callable agent, `def` or `async def`: from the steps so far and the run's inputs to its decision. (What a coroutine
# function returns cannot be written beside what a function returns without naming both here.)
AgentFunction: TypeAlias = Callable[[Steps, dict[str, Any]], Any]


@dataclass(frozen=True, slots=True)
class Agent:
    """How a model decides, without the model's being called.

    `ask(run)` makes the question from the inputs and the steps so far; `read(reply)` makes a decision of the answer, or
    raises `ParseError`. Both are pure. The question goes to `model`, or to `function`, which decides by itself.
    `input_keys` are the inputs that a run needs.
    """

    ask: Callable[[Run], CallModel | CallAgent]
    read: Callable[[ModelReply | Decided], Decision]
    model: Model | None = None
    function: AgentFunction | None = None
    input_keys: tuple[str, ...] = ("input",)


def chat_agent(
    ask: Callable[[Run], CallModel],
    read: Callable[[ModelReply], Decision],
    model: Model,
    *,
    input_keys: Sequence[str] = ("input",),
) -> Agent:
    """Make an agent of a model and the two functions. Raises `InputError` for what is no model."""
    # Users of other libraries pass the model's name.
    if not callable(getattr(model, "complete", None)):
        raise InputError(f"the model is {model!r}; make one, such as graphexec.models.OpenAICompatible('gpt-5-mini')")

    def read_reply(reply: ModelReply | Decided) -> Decision:
        assert isinstance(reply, ModelReply), "CallModel is answered with a ModelReply"
        return read(reply)

    return Agent(ask, read_reply, model=model, input_keys=tuple(input_keys))


def callable_agent(function: AgentFunction) -> Agent:
    """Make an agent of a function `(steps, inputs) -> AgentAction | list[AgentAction] | AgentFinish`.

    Each call counts as a model call. An empty list is a parse error; anything else raises `AgentError`.
    """
    return Agent(CallAgent, _read_decision, function=function, input_keys=())


def _read_decision(reply: ModelReply | Decided) -> Decision:
    assert isinstance(reply, Decided), "CallAgent is answered with Decided"
    decision = reply.decision
    if isinstance(decision, Unreadable):
        raise ParseError(decision.text, observation=decision.observation, llm_output=decision.llm_output)
    return decision
