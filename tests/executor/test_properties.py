"""Property tests: for any model, tools and limits, every run ends as the semantics table specifies.

An adversarial model follows a script whose last turn repeats endlessly, so each short script is an endless attack.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import graphexec as gx
from graphexec.actions import Run, Steps
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
from graphexec.runtime import run
from tests.drivers import DriverResult, limit_of, run_script
from tests.executor.actors import script_of
from tests.parameters import cases
from tests.semantics import reference
from tests.semantics.reference import Settings
from tests.semantics.tools import TOOLS

Flavour: TypeAlias = Literal["callable", "chat", "tool calling"]
FLAVOURS: tuple[Flavour, ...] = ("callable", "chat", "tool calling")


@dataclass(frozen=True)
class Call:
    """One call of a known or unknown tool, with valid or invalid arguments."""

    tool: str
    number: int | str = 0


@dataclass(frozen=True)
class Turn:
    """One turn of the model, and the tokens that it reports."""

    kind: Literal["answer", "act", "empty", "garbage"]
    calls: tuple[Call, ...] = ()
    tokens: int = 0


@dataclass
class Outcome:
    """The ending of a run: an answer, a stop by a limit, or an unhandled parse error."""

    end: str = ""
    output: object = None
    # Tool, observation and status of each step.
    steps: list[tuple[str, object, str]] = field(default_factory=list[tuple[str, object, str]])
    iterations: int = 0
    model_calls: int = 0
    tool_calls: int = 0
    tokens: int = 0


def turn_at(steps: Steps, turns: tuple[Turn, ...]) -> tuple[int, Turn]:
    """Return the next turn, which depends on the steps alone, so that runs share no state."""
    position = number = 0
    while position < len(steps):
        turn = turns[min(number, len(turns) - 1)]
        position += max(1, len(turn.calls))
        number += 1
    return number, turns[min(number, len(turns) - 1)]


def actions(turn: Turn) -> list[gx.AgentAction]:
    return [gx.AgentAction(call.tool, {"number": call.number}) for call in turn.calls]


def callable_agent(turns: tuple[Turn, ...]) -> Any:
    def decide(steps: Steps, inputs: dict[str, Any]) -> Any:
        number, turn = turn_at(steps, turns)
        return gx.AgentFinish({"output": f"answer {number + 1}"}) if turn.kind == "answer" else actions(turn)

    return decide


class Adversary:
    """A model that replies by its script; it reads the position of the turn from the request."""

    def __init__(self, turns: tuple[Turn, ...], flavour: Flavour) -> None:
        self.turns = turns
        self.flavour = flavour
        self.instant = len(turns) % 2 == 0

    def complete(self, request: ModelRequest, *, timeout: float | None = None) -> ModelReply:
        assert isinstance(request, ChatRequest)
        if self.flavour == "tool calling":
            check_conversation(request.messages)
            number = sum(isinstance(message, AssistantMessage) for message in request.messages)
        else:
            (message,) = request.messages
            assert isinstance(message, UserMessage)
            number = int(message.content)
        turn = self.turns[min(number, len(self.turns) - 1)]
        reply = self._native(turn, number) if self.flavour == "tool calling" else ModelReply(describe(turn, number))
        return dataclasses.replace(reply, usage=usage(turn))

    async def acomplete(self, request: ModelRequest, *, timeout: float | None = None) -> ModelReply:
        return self.complete(request, timeout=timeout)

    def _native(self, turn: Turn, number: int) -> ModelReply:
        if turn.kind == "answer":
            return ModelReply(f"answer {number + 1}")
        if turn.kind == "garbage":
            return ModelReply("", (ToolCall("a", "echo", '{"number": 1'),))
        calls = [
            ToolCall(f"call{i}", call.tool, json.dumps({"number": call.number})) for i, call in enumerate(turn.calls)
        ]
        return ModelReply("", tuple(calls))


def check_conversation(messages: Any) -> None:
    """Reject a conversation whose results do not follow their calls, as providers do."""
    waiting: list[str] = []
    conversation: list[Message] = list(messages)
    assert isinstance(conversation[0], SystemMessage)
    for message in conversation:
        if isinstance(message, ToolMessage):
            assert waiting.pop(0) == message.call_id
        else:
            assert not waiting
        if isinstance(message, AssistantMessage):
            waiting = [call.id for call in message.tool_calls]
    assert not waiting


def describe(turn: Turn, number: int) -> str:
    return json.dumps([turn.kind, number + 1, [[call.tool, call.number] for call in turn.calls]])


def usage(turn: Turn) -> Usage:
    """Return a usage with so many tokens; an odd one is a completion token."""
    return Usage(turn.tokens - turn.tokens // 2, turn.tokens // 2)


def read(reply: ModelReply) -> gx.AgentFinish | tuple[gx.AgentAction, ...]:
    kind, number, calls = json.loads(reply.content)
    if kind == "garbage":
        raise gx.ParseError("could not read it", observation="unreadable", llm_output=reply.content)
    if kind == "answer":
        return gx.AgentFinish({"output": f"answer {number}"})
    return tuple(gx.AgentAction(name, {"number": argument}) for name, argument in calls)


def interpret(turns: tuple[Turn, ...], given: Settings) -> Outcome:
    """Return the outcome of the naive reference loop for the script."""
    replies = tuple(ModelReply(describe(turn, number), usage=usage(turn)) for number, turn in enumerate(turns))
    driver_result = reference.interpret(reference.Script(replies, None, read), given)
    return Outcome(
        "parse error" if driver_result.end == "ParseError" else driver_result.end,
        driver_result.values.get("output") if driver_result.end in ("finished", "return_direct") else None,
        [(step.action.tool, step.observation, step.status) for step in driver_result.steps],
        driver_result.iterations,
        driver_result.model_calls,
        driver_result.tool_calls,
        driver_result.tokens,
    )


def text_agent(model: Adversary) -> gx.Agent:
    """Return a custom agent whose model replies in JSON: it can return an empty list of actions, and garbage."""

    def question(asked: Run) -> CallModel:
        return CallModel(ChatRequest((UserMessage(str(turn_at(asked.steps, model.turns)[0])),)))

    return gx.chat_agent(question, read, model)


def make_executor(turns: tuple[Turn, ...], given: Settings, flavour: Flavour) -> gx.AgentExecutor:
    agent: Any = callable_agent(turns)
    if flavour == "chat":
        agent = text_agent(Adversary(turns, flavour))
    if flavour == "tool calling":
        agent = gx.create_tool_calling_agent(Adversary(turns, flavour), TOOLS)
    return gx.AgentExecutor(
        agent=agent,
        tools=TOOLS,
        max_iterations=given.iterations,
        max_execution_time=given.seconds,
        max_model_calls=given.model_calls,
        max_tool_calls=given.tool_calls,
        max_tokens=given.tokens,
        handle_parsing_errors=given.parsing,
        tool_concurrency=given.at_once,
    )


def adapt_script(turns: tuple[Turn, ...], flavour: Flavour) -> tuple[Turn, ...]:
    """Return the script without turns that an agent of this flavour cannot express (garbage, empty lists, tokens)."""
    adapted: list[Turn] = []
    for turn in turns:
        if flavour == "callable":
            adapted.append(Turn("empty" if turn.kind == "garbage" else turn.kind, turn.calls))
        elif flavour == "tool calling" and turn.kind == "empty":
            adapted.append(Turn("garbage", turn.calls, turn.tokens))
        else:
            adapted.append(turn)
    return tuple(adapted)


CALLS = st.builds(
    Call,
    st.sampled_from(["echo", "aecho", "fail", "direct", "direct_fail", "nope", ""]),
    st.sampled_from([0, 1, 7, "x"]),
)
TOKENS = st.sampled_from([0, 0, 1, 5])
TURNS = st.one_of(
    st.builds(Turn, st.just("answer"), st.just(()), TOKENS),
    st.builds(Turn, st.just("act"), st.lists(CALLS, min_size=1, max_size=1).map(tuple), TOKENS),
    st.builds(Turn, st.just("act"), st.lists(CALLS, min_size=2, max_size=4).map(tuple), TOKENS),
    st.builds(Turn, st.just("empty"), st.just(()), TOKENS),
    st.builds(Turn, st.just("garbage"), st.just(()), TOKENS),
)
SCRIPTS = st.lists(TURNS, min_size=1, max_size=5).map(tuple)


# Most handle parse errors, because a run that raises tests less.
POLICIES: st.SearchStrategy[bool | str] = st.sampled_from([True, True, "Try again!", "", False])


def none_or(most: int) -> st.SearchStrategy[int | None]:
    return st.none() | st.integers(0, most)


@st.composite
def all_settings(draw: st.DrawFn) -> Settings:
    model_calls = draw(none_or(6))
    # One of these two always limits the run; the others may be unlimited.
    iterations = draw(st.integers(0, 6) if model_calls is None else none_or(6))
    return Settings(
        iterations=iterations,
        model_calls=model_calls,
        tool_calls=draw(none_or(8)),
        tokens=draw(none_or(12)),
        seconds=draw(st.sampled_from((None,) * 9 + (0,))),
        parsing=draw(POLICIES),
        at_once=draw(st.sampled_from([1, 2, 8])),
    )


def make_outcome(ending: Ending, driver_result: Any) -> Outcome:
    end: str = limit_of(ending).limit if isinstance(ending, gx.StoppedResponse) else "finished"
    if isinstance(ending, gx.AgentFinish) and ending.return_direct:
        end = "return_direct"
    return Outcome(
        end,
        None if isinstance(ending, gx.StoppedResponse) else ending.output,
        [(step.action.tool, in_few_words(step.observation), step.status) for step in ending.steps],
        driver_result.spent.iterations,
        driver_result.spent["model_calls"],
        driver_result.spent["tool_calls"],
        reported_tokens(driver_result.spent),
    )


def in_few_words(observation: Any) -> Any:
    """Shorten an error, because the reference does not reproduce the JSON parser's message."""
    broken = str(observation).startswith("The arguments of the call to echo are not a JSON object: EOF")
    return "unreadable" if broken else observation


def check_limits(outcome: Outcome, given: Settings, driver_result: DriverResult[Ending]) -> None:
    """Check that every count, and the path through the table, is within its limit."""
    spent = driver_result.spent
    for limit, reached in (
        (given.iterations, spent.iterations),
        (given.model_calls, spent["model_calls"]),
        (given.tool_calls, spent["tool_calls"]),
    ):
        assert limit is None or reached <= limit
    if given.iterations is not None:
        moves = [event for event in driver_result.events if isinstance(event, gx.Moved)]
        assert len(moves) <= 4 * given.iterations + 2
    asked = sum(len(getattr(effect, "effects", (effect,))) for effect in driver_result.asked)
    assert asked == spent["model_calls"] + spent["tool_calls"]
    assert outcome.end != "seconds" or given.seconds == 0


def check(turns: tuple[Turn, ...], given: Settings, flavour: Flavour) -> None:
    turns = adapt_script(turns, flavour)
    expected = interpret(turns, given)
    if expected.end == "parse error":
        with pytest.raises(gx.ParseError) as raised:
            run_script(lambda: script_of(make_executor(turns, given, flavour)))
        kept = gx.snapshot_of(raised.value)
        assert kept is None or kept.spent["model_calls"] == expected.model_calls
        return
    driver_result = run_script(lambda: script_of(make_executor(turns, given, flavour)))
    assert make_outcome(driver_result.outcome, driver_result) == expected
    check_limits(expected, given, driver_result)
    # A second run of the same executor is equal.
    executor = make_executor(turns, given, flavour)
    results: list[gx.RunResult] = [executor.run("q"), executor.run("q")]
    assert [make_outcome(result.ending, result) for result in results] == [expected, expected]
    # A run that is paused before any effect, and resumed, has the same ending.
    for text in driver_result.texts:
        paused = gx.Snapshot.from_json(text, executor.graph)
        resumed = run(executor.graph, paused, executor.run_context)
        assert make_outcome(resumed.outcome, resumed) == expected


ACT = Turn("act", (Call("echo"),))
ANSWER = Turn("answer")
GARBAGE = Turn("garbage")
# Known bugs of agent loops, one example each.
TRAPS: dict[str, tuple[tuple[Turn, ...], Settings]] = {
    "no iteration is allowed": ((ACT,), Settings(iterations=0)),
    "endless actions": ((ACT,), Settings(iterations=3)),
    "an answer at the last iteration": ((ACT, ACT, ANSWER), Settings(iterations=3)),
    "an answer at the last model call": ((ACT, ACT, ANSWER), Settings(iterations=None, model_calls=3)),
    "endless garbage": ((GARBAGE,), Settings(iterations=3)),
    "endless empty lists": ((Turn("empty"),), Settings(iterations=3)),
    "an unhandled empty list": ((Turn("empty"),), Settings(iterations=3, parsing=False)),
    "endless unknown tools": ((Turn("act", (Call("nope"),)),), Settings(iterations=None, tool_calls=2, model_calls=6)),
    "endless failing tools": ((Turn("act", (Call("fail"),)),), Settings(tool_calls=3)),
    "a fan-out beyond what is left": ((Turn("act", (Call("echo"), Call("echo", 1))),), Settings(tool_calls=3)),
    "a direct answer at every limit": (
        (Turn("act", (Call("direct"),)),),
        Settings(iterations=1, tool_calls=1, model_calls=1),
    ),
    "two direct answers at once": ((Turn("act", (Call("direct"), Call("direct", 1))), ANSWER), Settings()),
    "a direct tool with bad arguments": ((Turn("act", (Call("direct", "x"),)), ANSWER), Settings()),
    "a direct tool that fails": ((Turn("act", (Call("direct_fail"),)), ANSWER), Settings()),
    "endless tokens": ((Turn("act", (Call("echo"),), tokens=5),), Settings(tokens=5)),
    "no time": ((ANSWER,), Settings(seconds=0)),
    "no tokens": ((ANSWER,), Settings(tokens=0)),
}


@cases("flavour", FLAVOURS)
@cases("trap", TRAPS)
def test_no_run_falls_into_a_known_trap(trap: str, flavour: Flavour) -> None:
    turns, given = TRAPS[trap]
    check(turns, given, flavour)


@given(turns=SCRIPTS, given=all_settings(), flavour=st.sampled_from(FLAVOURS))
@example(
    turns=(GARBAGE, Turn("act", (Call("echo"), Call("", "x")))), given=Settings(iterations=2), flavour="tool calling"
)
def test_every_driver_agrees_with_the_semantics(turns: tuple[Turn, ...], given: Settings, flavour: Flavour) -> None:
    check(turns, given, flavour)


@pytest.mark.slow
@pytest.mark.slowest
@settings(max_examples=3000)
@given(turns=SCRIPTS, given=all_settings(), flavour=st.sampled_from(FLAVOURS))
def test_long_runs_agree_with_the_semantics(turns: tuple[Turn, ...], given: Settings, flavour: Flavour) -> None:
    check(turns, given, flavour)
