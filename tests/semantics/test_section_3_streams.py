"""Sections 3.9 and 3.10 of docs/semantics.md: events, streams, and iterating."""

import asyncio
from typing import Any

import graphexec as gx
from graphexec.messages import UserMessage
from tests.drivers import FakeClock
from tests.executor.actors import HOW, Running, answer, echo, run_by, scripted, timed
from tests.parameters import cases
from tests.semantics.endings import STOPPED, A, B, C, run_blocked, unreadable_once


def two_steps(**options: Any) -> gx.AgentExecutor:
    # In turn, since of several at once the first to return is the first step.
    agent = scripted(A, [B, C], answer("42"))
    return gx.AgentExecutor(agent=agent, tools=[echo], tool_concurrency=1, **options)


# ---- 3.9 Callbacks: events and observers are what they are here


@HOW
def test_time_limit_events_answer_each_request(run: Running) -> None:
    events: list[gx.Event[Any]] = []
    result = run_blocked(run, observers=[events.append])
    assert (result.output, result.reason, result.spent["model_calls"]) == (STOPPED, "seconds", 1)
    kinds = [type(event).__name__ for event in events]
    assert kinds == ["Entered", "Asked", "Answered", "Moved", "Entered", "Moved", "Done"]


# ---- 3.10 Iterator and streaming


def test_parse_error_chunk_has_a_step_and_no_action() -> None:
    executor = gx.AgentExecutor(agent=unreadable_once, tools=[], handle_parsing_errors=True)
    chunks = run_by("stream_chunks", executor)
    assert run_by("astream_chunks", executor) == chunks
    assert [sorted(chunk) for chunk in chunks] == [["messages", "steps"], ["messages", "output"]]
    assert chunks[0]["messages"] == [UserMessage("Say it again.")]
    assert [step.observation for step in chunks[0]["steps"]] == ["Say it again."]


@cases("seen", 0, 1, 2)
def test_resumed_stream_repeats_no_step(seen: int) -> None:
    executor = two_steps()
    pauses = [
        gx.Snapshot(event.node, event.value, spent=event.spent)
        for event in executor.stream("q")
        if isinstance(event, gx.Entered) and event.node == "plan"
    ]
    chunks = list(executor.stream_chunks("q"))
    turns = [chunks, chunks[2:], chunks[6:]]
    assert list(executor.stream_chunks(pauses[seen])) == turns[seen]


def test_consumer_time_counts_against_the_limit() -> None:
    clock = FakeClock()
    chunks = timed(two_steps(max_execution_time=5), clock).stream_chunks("q")
    next(chunks)
    clock.advance(6)
    *_, last = chunks
    assert last["output"] == STOPPED


def test_time_limit_spares_the_stream_consumer() -> None:
    async def consume() -> Any:
        last: Any = None
        past = asyncio.Event()
        asyncio.get_running_loop().call_later(0.03, past.set)
        async for one in gx.AgentExecutor(agent=scripted(A), tools=[echo], max_execution_time=0.02).astream_chunks("q"):
            last = one
            # The consumer awaits something else, until after the limit.
            await past.wait()
        return last

    assert asyncio.run(consume())["output"] == STOPPED
