"""Recordings of runs: of random scripted agents, and of given events."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

import graphexec as gx
from graphexec import actions, effects
from graphexec.draw import Recorder, Recording
from graphexec.executor import AGENT_EXECUTOR, Acted, Observed, Ready, Replied
from graphexec.kernel import Effect, Event
from graphexec.kernel.effects import CallContext, DetachedScope
from graphexec.messages import ChatRequest, ModelReply, ToolCall, Usage, UserMessage
from graphexec.testing.clock import on_loop_time, run_virtually
from tests.checks.scripts import AgentScript
from tests.checks.strategies import agent_scripts

# Longer than every finite delay of a script; a call without end is cut.
_SECONDS = 300.0


@gx.tool
def echo(text: str) -> str:
    """Repeat the text."""
    return text


@gx.tool
def broken(text: str) -> str:
    """Fail."""
    raise RuntimeError(text)


TOOLS = [echo, broken]


class Sullen:
    """A value that cannot be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    __str__ = __repr__


def nested(depth: int, inner: object = None) -> Any:
    """Return a value in so many lists."""
    for _ in range(depth):
        inner = [inner]
    return inner


def recording_in(
    executor: gx.AgentExecutor, given: str = "q", *, model: str | None = None, agent: str | None = None
) -> Recording:
    """Record a run under a virtual clock, including failed runs."""
    recorder = Recorder(executor.graph, limits=executor.limits, inputs=given, model=model, agent=agent)
    return record_virtually(recorder, executor.astream(given))


def record_virtually(recorder: Recorder, events: AsyncIterator[Event[Any]]) -> Recording:
    """Record events under a virtual clock, and the exception that ends them."""

    async def watched() -> None:
        try:
            async for event in events:
                recorder(event)
        except Exception as error:  # noqa: BLE001 - what a run raises is recorded
            recorder.failed(error)

    run_virtually(watched())
    return recorder.recording


def recordings() -> st.SearchStrategy[Recording]:
    """Return a strategy for runs of random agents under random limits; most of them call tools."""
    names = [one.name for one in TOOLS]
    busy = agent_scripts(names, delays=False, kinds=("act", "act", "act", "garbage", "answer"))
    within = st.builds(
        effects.agent_limits,
        iterations=st.sampled_from([6, 4, 1, 0]),
        tool_calls=st.sampled_from([None, 9, 2]),
        seconds=st.sampled_from([_SECONDS, 3.0]),
    )

    def record(script: AgentScript, limits: gx.Limits) -> Recording:
        executor = gx.AgentExecutor(agent=script.agent(), tools=TOOLS, handle_parsing_errors=True).with_limits(limits)
        return recording_in(on_loop_time(executor))

    return st.builds(record, busy | busy | agent_scripts(names), within)


def records_of_version_1(recording: Recording) -> list[dict[str, Any]]:
    """Return the records of a run as they were before they had a version."""
    records = [dict(record) for record in recording.records]
    del records[0]["version"]
    for record in records:
        if record["event"] == "answered":
            reply = dict(record["replies"][0])
            record["seconds"] = reply.pop("seconds")
            del reply["began"]
            record["replies"] = [reply]
    return records


def truncate_run(recording: Recording, records: int) -> Recording:
    return Recording(recording.records[: max(records, 1)])


def record_events(
    *events: Event[Any], given: object = "q", model: str | None = None, agent: str | None = None
) -> Recording:
    """Return the recording of a run of the standard machine with exactly these events."""
    recorder = Recorder(AGENT_EXECUTOR, limits=gx.Limits(), inputs=given, model=model, agent=agent)
    for event in events:
        recorder(event)
    return recorder.recording


def call_of(effect: Effect[Any], *, sequence: int = 1, member: int = 0, node: str = "") -> CallContext[Any]:
    """Return a call that belongs to no running execution."""
    return CallContext(DetachedScope("a-run"), node, effect, effect, sequence, member)


def asked_and_answered(effect: Any, reply: Any, *, node: str = "dispatch_tools", at: float = 0.0) -> list[Event[Any]]:
    """Return the events of a node that requests an effect at `at` seconds and gets the reply after two."""
    before, after = gx.Spent(seconds=at), gx.Spent(seconds=at + 2)
    return [gx.Entered(node, None, before), gx.Asked(node, effect), gx.Answered(node, effect, reply, 2.0, after)]


def asked_together(
    *asked: tuple[Effect[Any], Any, float], node: str = "dispatch_tools", at: float = 0.0, in_turn: bool = False
) -> list[Event[Any]]:
    """Return the events of a node that requests all effects at `at` seconds; each reply takes its own time."""
    calls = [call_of(effect, member=member, node=node) for member, (effect, _, _) in enumerate(asked)]
    begun: list[Event[Any]] = [gx.Asked(node, effect, call) for (effect, _, _), call in zip(asked, calls, strict=True)]
    answers: list[gx.Answered] = []
    now = at
    for (effect, reply, seconds), call in zip(asked, calls, strict=True):
        now = now + seconds if in_turn else at + seconds
        answers.append(gx.Answered(node, effect, reply, seconds, gx.Spent(seconds=now), call))
    if in_turn:
        events = [event for pair in zip(begun, answers, strict=True) for event in pair]
    else:
        events = [*begun, *sorted(answers, key=lambda event: event.spent.seconds)]
    return [gx.Entered(node, None, gx.Spent(seconds=at)), *events]


def sample_conversation() -> Recording:
    """Return a run with two concurrent tool calls, one of them a failure, and an answer after a retry."""
    first = effects.CallModel(ChatRequest((UserMessage("What is 37 * 48, and 1 / 0?"),)))
    given = [{"expression": "37 * 48"}, {"expression": "1 / 0"}]
    calls = tuple(ToolCall(str(at), "calculator", json.dumps(one)) for at, one in enumerate(given))
    sound, broken = (effects.CallTool("calculator", one) for one in given)
    quick, slow = call_of(sound, sequence=2), call_of(broken, sequence=2, member=1)

    def spent(seconds: float, iterations: int, prompt: int, completion: int, **calls: int) -> gx.Spent:
        tokens = {"prompt_tokens": prompt, "completion_tokens": completion, "tokens": prompt + completion}
        return gx.Spent(iterations=iterations, seconds=seconds, meters={"model_calls": iterations, **calls, **tokens})

    one = spent(3.92, 1, 735, 25)
    two, three = spent(4.0, 1, 735, 25, tool_calls=2), spent(8.0, 2, 1500, 40, tool_calls=2)
    answer = gx.AgentFinish({"output": "1776; the other has no value."})
    return record_events(
        gx.Entered("plan", None, gx.Spent()),
        gx.Asked("plan", first),
        gx.Answered("plan", first, ModelReply("", calls, Usage(735, 25)), 3.92, one),
        gx.Moved("plan", Replied(actions.Run({}), ModelReply("")), "parse"),
        gx.Entered("parse", None, one),
        gx.Moved("parse", Acted(actions.Run({}), ()), "dispatch_tools"),
        gx.Entered("dispatch_tools", None, one),
        gx.Asked("dispatch_tools", sound, quick),
        gx.Asked("dispatch_tools", broken, slow),
        gx.Answered("dispatch_tools", sound, effects.ToolResult("1776"), 0.02, replace(two, seconds=3.94), quick),
        gx.Answered("dispatch_tools", broken, effects.ToolResult("division by zero", "error"), 0.08, two, slow),
        gx.Moved("dispatch_tools", Observed(actions.Run({}), (), ()), "check_return_direct"),
        gx.Entered("check_return_direct", None, two),
        gx.Moved("check_return_direct", Ready(actions.Run({})), "plan"),
        gx.Entered("plan", None, two),
        gx.Asked("plan", first),
        gx.Reported("plan", first, "tried again in 1 s: busy"),
        gx.Answered("plan", first, ModelReply("1776; the other has no value.", (), Usage(765, 15)), 4.0, three),
        gx.Moved("plan", Replied(actions.Run({}), ModelReply("")), "parse"),
        gx.Entered("parse", None, three),
        gx.Moved("parse", answer, "END"),
        gx.Done(answer, gx.Snapshot("parse", None, spent=three)),
        given="What is 37 * 48, and 1 / 0?",
        model="a-model",
        agent="tool_calling",
    )
