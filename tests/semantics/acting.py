"""A script of turns in the words of several kinds of agent, and an actor that says it and notes what it sees."""

import dataclasses
import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import graphexec as gx
from graphexec.actions import Run, Steps
from graphexec.agents import react, tool_calling
from graphexec.effects import CallModel, reported_tokens
from graphexec.executor.result import Ending
from graphexec.messages import (
    AssistantMessage,
    ChatRequest,
    Message,
    ModelReply,
    ModelRequest,
    SystemMessage,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)
from tests.drivers import FakeClock, limit_of
from tests.executor.actors import AnyTool
from tests.semantics import reference
from tests.semantics.endings import FINAL
from tests.semantics.reference import TAKES, Decision, Expected, Script, Settings
from tests.semantics.tools import TOOLS

Flavour: TypeAlias = Literal["callable", "chat", "react", "tool calling"]
FLAVOURS: tuple[Flavour, ...] = ("callable", "chat", "react", "tool calling")
# Those that can call several tools at once.
BATCHING: tuple[Flavour, ...] = ("callable", "chat", "tool calling")


# ---- turns of the agent


class Call(NamedTuple):
    """One call of a known or unknown tool, with valid or invalid arguments."""

    tool: str
    number: int | str = 0


@dataclass(frozen=True)
class Turn:
    """One turn of an agent; `feedback` is the observation of a parse error, and `{}` in a text is the turn's number."""

    kind: Literal["answer", "act", "empty", "garbage"]
    calls: tuple[Call, ...] = ()
    text: str = "answer {}"
    feedback: str | None = None
    tokens: int = 0
    flavour: Flavour = "callable"


Turns: TypeAlias = tuple[Turn, ...]
LATE = Turn("answer", text="late")


def adapt_script(turns: Sequence[Turn], flavour: Flavour) -> Turns:
    """Return the turns as an agent of this flavour takes them: a react agent calls one tool."""
    most = 1 if flavour == "react" else None
    return tuple(dataclasses.replace(turn, calls=turn.calls[:most], flavour=flavour) for turn in turns)


def make_decision(turn: Turn) -> Any:
    """Return the decision of a callable agent, or the exception that it raises."""
    if turn.kind == "answer":
        return gx.AgentFinish({"output": turn.text}, "I know")
    if turn.kind == "garbage":
        return gx.ParseError("could not read it", observation=turn.feedback, llm_output=turn.text)
    actions = [gx.AgentAction(name, {"number": number}, turn.text) for name, number in turn.calls]
    # A single action and a list of one are equivalent.
    return actions[0] if len(actions) == 1 and turn.feedback else actions


def in_json(turn: Turn) -> ModelReply:
    """Return the reply of a chat agent's model: it can express an empty list of actions."""
    return ModelReply(json.dumps(dataclasses.astuple(turn)), usage=usage_of(turn), cost=turn.tokens / 4)


def in_words(turn: Turn) -> ModelReply:
    """Return the reply of a react agent's model: at most one action."""
    if turn.kind == "answer":
        text = f"I know\nFinal Answer: {turn.text}"
    elif turn.kind == "act":
        (name, number), *_ = turn.calls
        text = f"{turn.text}\nAction: {name}\nAction Input: {number}"
    else:
        text = {"": "", "so": "Action: echo"}.get(turn.text, "no idea")
    return ModelReply(text, usage=usage_of(turn), cost=turn.tokens / 4)


def natively(turn: Turn) -> ModelReply:
    """Return the reply of a tool-calling agent's model."""
    calls = [ToolCall(f"c{at}", name, json.dumps({"number": number})) for at, (name, number) in enumerate(turn.calls)]
    if turn.kind in ("empty", "garbage"):
        calls = [ToolCall("c", "echo", '{"number": 1')]
    return ModelReply(turn.text, tuple(calls), usage_of(turn), cost=turn.tokens / 4)


def usage_of(turn: Turn) -> Usage:
    """Return a usage with so many tokens; an odd one is a prompt token."""
    return Usage(turn.tokens - turn.tokens // 2, turn.tokens // 2)


def read_decision(decision: Any) -> Decision:
    if isinstance(decision, gx.ParseError):
        raise decision
    if isinstance(decision, gx.AgentFinish):
        return decision
    return (decision,) if isinstance(decision, gx.AgentAction) else tuple(decision)


def read_json(reply: ModelReply) -> Decision:
    return read_decision(make_decision(Turn(*json.loads(reply.content))))


SAY: dict[Flavour, tuple[Callable[[Turn], Any], Callable[[Any], Decision]]] = {
    "callable": (make_decision, read_decision),
    "chat": (in_json, read_json),
    "react": (in_words, react.read),
    "tool calling": (natively, tool_calling.read),
}


def script_in(turns: Turns, conclusion: Turn) -> Script:
    say, read = SAY[turns[0].flavour]
    numbered = [dataclasses.replace(turn, text=turn.text.format(at)) for at, turn in enumerate(turns, 1)]
    return Script(tuple(say(turn) for turn in numbered), say(conclusion), read)


def interpret(turns: Turns, given: Settings, conclusion: Turn = LATE) -> Expected:
    """Return the result of the naive reference loop for the adapted turns."""
    return reference.interpret(script_in(turns, conclusion), given)


# Any: the result of a driver or of an executor, or the last event.
def make_outcome(ending: Ending, result: Any) -> Expected:
    """Return the ending of a real run in the words of the reference."""
    if isinstance(ending, gx.StoppedResponse):
        outcome = Expected(limit_of(ending).limit, {"output": ending.output}, ending.generated)
    else:
        outcome = Expected("return_direct" if ending.return_direct else "finished", dict(ending.return_values))
    return dataclasses.replace(
        outcome,
        steps=list(ending.steps),
        iterations=result.spent.iterations,
        model_calls=result.spent["model_calls"],
        tool_calls=result.spent["tool_calls"],
        tokens=reported_tokens(result.spent),
        cost=result.spent["cost"],
        seconds=result.spent.seconds,
    )


# ---- who says it, and notes what it is shown


PROMPT = "{tools}{tool_names}{input}>>>{agent_scratchpad}"


class Actor:
    """Model and callable agent in one, and the executor in which it goes through its script.

    Its turn depends on the steps that it sees, so that several runs may share it. If it does not see all, it counts.
    """

    def __init__(self, turns: Sequence[Turn], given: Settings, flavour: Flavour, conclusion: Turn = LATE) -> None:
        self.turns = adapt_script(turns, flavour)
        self.flavour = flavour
        self.script = script_in(self.turns, conclusion)
        self.sees_all = given.trim in (-1, 0)
        self.turn = 0
        self.shown: list[list[str]] = []
        self.called: list[str] = []
        # The reference loop takes no real time.
        self.clock = FakeClock()
        self.passing = threading.Lock()
        self.instant = len(turns) % 2 == 0
        self.executor = self._make_executor(given)

    def complete(self, request: ModelRequest, *, timeout: float | None = None) -> ModelReply:
        assert isinstance(request, ChatRequest)
        texts = [one.content for one in request.messages[1:] if isinstance(one, (UserMessage, ToolMessage))]
        if self.flavour == "tool calling":
            check_conversation(request.messages)
        else:
            (message,) = request.messages
            texts = ["the question", message.content.partition(">>>")[2]]
        concluding = texts[-1].endswith(FINAL)
        texts[-1] = texts[-1].removesuffix(FINAL).removesuffix("\n\n")
        alone = concluding and isinstance(request.messages[-1], UserMessage) and request.messages[-1].content == FINAL
        shown = texts[1:-1] if alone else texts[1:]
        self.shown.append(shown)
        steps = len(shown) if self.flavour == "tool calling" else shown[0].count("\nObservation: ")
        reply = self._next(steps, concluding=concluding)
        assert isinstance(reply, ModelReply)
        return reply

    async def acomplete(self, request: ModelRequest, *, timeout: float | None = None) -> ModelReply:
        return self.complete(request, timeout=timeout)

    def decide(self, steps: Steps, inputs: dict[str, Any]) -> Any:
        self.shown.append(as_shown(list(steps), "callable"))
        decision = self._next(len(steps), concluding=inputs.get("conclude", False))
        if isinstance(decision, gx.ParseError):
            raise decision
        return decision

    def _take_time(self) -> None:
        with self.passing:
            self.clock.advance(TAKES)

    def _next(self, steps: int, *, concluding: bool) -> Any:
        self._take_time()
        if concluding:
            return self.script.conclusion
        at = turn_after(steps, self.turns) if self.sees_all else self.turn
        self.turn += 1
        return self.script.turns[min(at, len(self.turns) - 1)]

    def _make_executor(self, given: Settings) -> gx.AgentExecutor:
        # The calls of the tools are noted.
        tools = [dataclasses.replace(one, function=self._noting(one)) for one in TOOLS]
        agent: Any = self.decide
        if self.flavour == "chat":
            agent = gx.chat_agent(ask_in_words, read_json, self)
        if self.flavour == "react":
            agent = gx.create_react_agent(self, tools, prompt=PROMPT)
        if self.flavour == "tool calling":
            agent = gx.create_tool_calling_agent(self, tools)
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
        return executor.with_context(dataclasses.replace(executor.run_context, clock=self.clock))

    def _noting(self, one: AnyTool) -> Callable[..., Any]:
        def noting(number: int) -> Any:
            self.called.append(one.name)
            self._take_time()
            return one.function(number)

        return noting


def make_executor(turns: Sequence[Turn], given: Settings, flavour: Flavour) -> gx.AgentExecutor:
    return Actor(turns, given, flavour).executor


def turn_after(steps: int, turns: Turns) -> int:
    """Return the index of the turn after so many steps; the last turn repeats endlessly."""
    at = 0
    while steps > 0:
        steps -= max(1, len(turns[min(at, len(turns) - 1)].calls))
        at += 1
    return at


def check_conversation(conversation: Sequence[Message]) -> None:
    """Reject a conversation whose results do not follow their calls, as providers do."""
    waiting: list[str] = []
    assert isinstance(conversation[0], SystemMessage)
    for message in conversation:
        if isinstance(message, ToolMessage):
            assert waiting.pop(0) == message.call_id
        else:
            assert not waiting
        if isinstance(message, AssistantMessage):
            waiting = [call.id for call in message.tool_calls]
    assert not waiting


def ask_in_words(run: Run) -> CallModel:
    return CallModel(ChatRequest((UserMessage(f">>>{as_shown(list(run.steps), 'chat')[0]}"),)))


def as_shown(steps: Sequence[gx.AgentStep], flavour: Flavour) -> list[str]:
    """Return the part of the steps that an agent sees."""
    if flavour == "callable":
        return [f"{step.action} {step.observation}" for step in steps]
    if flavour in ("chat", "react"):
        return ["".join(f"{step.action.log}\nObservation: {step.observation}\nThought: " for step in steps)]
    return [str(step.observation) for step in steps]
