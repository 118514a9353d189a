"""A script of turns in the words of several kinds of agent, and an actor that says it and notes what it sees."""

from __future__ import annotations

import dataclasses
import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import graphexec as gx
from graphexec.actions import Steps
from graphexec.agents import react, tool_calling
from graphexec.messages import ChatRequest, ModelReply, ModelRequest, ToolCall, ToolMessage, Usage, UserMessage
from tests.drivers import FakeClock
from tests.executor.actors import AnyTool
from tests.semantics.endings import FINAL
from tests.semantics.reference import TAKES, Decision, Script, Settings
from tests.semantics.tools import TOOLS

Flavour: TypeAlias = Literal["callable", "react", "tool calling"]
FLAVOURS: tuple[Flavour, ...] = ("callable", "react", "tool calling")


# ---- turns of the agent


@dataclass(frozen=True)
class Turn:
    """One turn of the agent, independent of its protocol; `feedback` is the observation of a parse error."""

    kind: Literal["answer", "act", "empty", "garbage"]
    calls: tuple[tuple[str, int | str], ...] = ()
    text: str = "so"
    feedback: str | None = None
    tokens: int = 0


def make_decision(turn: Turn) -> Any:
    """Return the decision of a callable agent, or the exception that it raises."""
    if turn.kind == "answer":
        return gx.AgentFinish({"output": turn.text}, "I know")
    if turn.kind == "garbage":
        return gx.ParseError("could not read it", observation=turn.feedback, llm_output=turn.text)
    actions = [gx.AgentAction(name, {"number": number}, turn.text) for name, number in turn.calls]
    # A single action and a list of one are equivalent.
    return actions[0] if len(actions) == 1 and turn.feedback else actions


def in_words(turn: Turn) -> ModelReply:
    """Return the reply of a react agent's model: at most one action."""
    if turn.kind == "answer":
        text = f"I know\nFinal Answer: {turn.text}"
    elif turn.kind == "act":
        (name, number), *_ = turn.calls
        text = f"{turn.text}\nAction: {name}\nAction Input: {number}"
    else:
        text = {"": "", "so": "Action: echo"}.get(turn.text, "no idea")
    return ModelReply(text, usage=Usage(turn.tokens), cost=turn.tokens / 4)


def natively(turn: Turn) -> ModelReply:
    """Return the reply of a tool-calling agent's model."""
    calls = [ToolCall(f"c{at}", name, json.dumps({"number": number})) for at, (name, number) in enumerate(turn.calls)]
    if turn.kind in ("empty", "garbage"):
        calls = [ToolCall("c", "echo", '{"number": 1')]
    return ModelReply(turn.text, tuple(calls), Usage(0, turn.tokens), cost=turn.tokens / 4)


def read_decision(decision: Any) -> Decision:
    if isinstance(decision, gx.ParseError):
        raise decision
    if isinstance(decision, gx.AgentFinish):
        return decision
    return (decision,) if isinstance(decision, gx.AgentAction) else tuple(decision)


SAY: dict[Flavour, tuple[Callable[[Turn], Any], Callable[[Any], Decision]]] = {
    "callable": (make_decision, read_decision),
    "react": (in_words, react.read),
    "tool calling": (natively, tool_calling.read),
}


def script_in(turns: Sequence[Turn], conclusion: Turn, flavour: Flavour) -> Script:
    say, read = SAY[flavour]
    return Script(tuple(say(turn) for turn in turns), say(conclusion), read)


# ---- who says it, and notes what it is shown


PROMPT = "{tools}{tool_names}{input}>>>{agent_scratchpad}"


class Actor:
    """Model and callable agent in one: it goes through its script, from the turn `begun` on."""

    def __init__(self, script: Script, begun: int) -> None:
        self.script = script
        self.turn = begun
        self.shown: list[list[str]] = []
        self.called: list[str] = []
        # The reference loop takes no real time.
        self.clock = FakeClock()
        self.passing = threading.Lock()
        self.instant = len(script.turns) % 2 == 0

    def complete(self, request: ModelRequest, *, timeout: float | None = None) -> ModelReply:
        assert isinstance(request, ChatRequest)
        texts = [one.content for one in request.messages[1:] if isinstance(one, (UserMessage, ToolMessage))]
        if request.tools == ():
            (message,) = request.messages
            texts = ["the question", message.content.partition(">>>")[2]]
        concluding = texts[-1].endswith(FINAL)
        texts[-1] = texts[-1].removesuffix(FINAL).removesuffix("\n\n")
        alone = concluding and isinstance(request.messages[-1], UserMessage) and request.messages[-1].content == FINAL
        self.shown.append(texts[1:-1] if alone else texts[1:])
        reply = self._next(concluding=concluding)
        assert isinstance(reply, ModelReply)
        return reply

    async def acomplete(self, request: ModelRequest, *, timeout: float | None = None) -> ModelReply:
        return self.complete(request, timeout=timeout)

    def decide(self, steps: Steps, inputs: dict[str, Any]) -> Any:
        self.shown.append(as_shown(list(steps), "callable"))
        decision = self._next(concluding=inputs.get("conclude", False))
        if isinstance(decision, gx.ParseError):
            raise decision
        return decision

    def _take_time(self) -> None:
        with self.passing:
            self.clock.advance(TAKES)

    def _next(self, *, concluding: bool) -> Any:
        self._take_time()
        if concluding:
            return self.script.conclusion
        self.turn += 1
        return self.script.turns[min(self.turn, len(self.script.turns)) - 1]

    @property
    def tools(self) -> list[AnyTool]:
        """The tools, whose calls are noted."""
        return [dataclasses.replace(one, function=self._noting(one)) for one in TOOLS]

    def _noting(self, one: AnyTool) -> Callable[..., Any]:
        def noting(number: int) -> Any:
            self.called.append(one.name)
            self._take_time()
            return one.function(number)

        return noting


def as_shown(steps: Sequence[gx.AgentStep], flavour: Flavour) -> list[str]:
    """Return the part of the steps that an agent sees."""
    if flavour == "callable":
        return [f"{step.action} {step.observation}" for step in steps]
    if flavour == "react":
        return ["".join(f"{step.action.log}\nObservation: {step.observation}\nThought: " for step in steps)]
    return [str(step.observation) for step in steps]


def executor_of(script: Script, given: Settings, flavour: Flavour, begun: int = 0) -> tuple[gx.AgentExecutor, Actor]:
    actor = Actor(script, begun)
    tools = actor.tools
    agent: Any = actor.decide
    if flavour == "react":
        agent = gx.create_react_agent(actor, tools, prompt=PROMPT)
    if flavour == "tool calling":
        agent = gx.create_tool_calling_agent(actor, tools)
    executor = gx.AgentExecutor(
        agent=agent,
        tools=tools,
        max_iterations=given.iterations,
        max_execution_time=given.seconds,
        max_model_calls=given.model_calls,
        max_tool_calls=given.tool_calls,
        max_tokens=given.tokens,
        max_cost=given.cost,
        max_fan_out=given.fan_out,
        handle_parsing_errors=given.parsing,
        trim_intermediate_steps=given.trim,
        return_direct=given.return_direct,
        early_stopping_method=given.early_stopping,
        handle_tool_errors=given.tool_errors,
        tool_lookup=given.lookup,
        return_intermediate_steps=given.with_steps,
        tool_concurrency=given.at_once,
    )
    executor.run_context = dataclasses.replace(executor.run_context, clock=actor.clock)
    return executor, actor
