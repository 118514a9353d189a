"""Sections 3.9 and 3.10 of docs/semantics.md: events, streams, and iterating."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

import graphexec as gx
from graphexec.actions import Run, Steps
from graphexec.messages import UserMessage
from tests.drivers import FakeClock
from tests.executor.actors import HOW, Running, answer, echo, run_by, scripted, timed
from tests.parameters import cases
from tests.semantics.endings import STOPPED, A, B, C, run_blocked, unreadable_once


def two_steps(**options: Any) -> gx.AgentExecutor:
    # In turn, since of several at once the first to return is the first step.
    agent = scripted(A, [B, C], answer("42"))
    return gx.AgentExecutor(agent=agent, tools=[echo], tool_concurrency=1, **options)


def chunks_of(make: Callable[[], gx.AgentExecutor]) -> list[dict[str, Any]]:
    """Return the events of both streams, which must be equal."""
    chunks = list(make().stream_chunks("q"))
    assert run_by("astream_chunks", make()) == chunks
    return chunks


# ---- 3.9 Callbacks: events and observers are what they are here


@HOW
def test_time_limit_events_answer_each_request(run: Running) -> None:
    events: list[gx.Event[Any]] = []
    run_blocked(run, observers=[events.append])
    kinds = [type(event).__name__ for event in events]
    assert kinds == ["Entered", "Asked", "Answered", "Moved", "Entered", "Moved", "Done"]


# ---- 3.10 Iterator and streaming


def test_stream_chunks_omit_the_inputs() -> None:
    chunks = chunks_of(lambda: two_steps(return_intermediate_steps=True))
    acting, seeing = ["actions", "messages"], ["steps", "messages"]
    end = ["output", "intermediate_steps", "messages"]
    assert [list(chunk) for chunk in chunks] == [acting, seeing, *[acting] * 2, *[seeing] * 2, end]
    *_, last = chunks
    assert last["output"] == "42"
    assert [observation for _, observation in last["intermediate_steps"]] == ["a", "b", "c"]
    # Added up, they give the actions and the steps.
    actions, steps = ([one for chunk in chunks for one in chunk.get(name, [])] for name in ("actions", "steps"))
    assert actions == [step.action for step in steps] == [A, B, C]
    assert [step.observation for step in steps] == ["a", "b", "c"]


def test_parse_error_chunk_has_a_step_and_no_action() -> None:
    chunks = chunks_of(lambda: gx.AgentExecutor(agent=unreadable_once, tools=[], handle_parsing_errors=True))
    assert [sorted(chunk) for chunk in chunks] == [["messages", "steps"], ["messages", "output"]]
    assert chunks[0]["messages"] == [UserMessage("Say it again.")]
    assert [step.observation for step in chunks[0]["steps"]] == ["Say it again."]


def test_steps_can_be_edited_between_iterations() -> None:
    def decide(steps: Any, inputs: Any) -> Any:
        return answer([observation for _, observation in steps]) if len(steps) else A

    turns = gx.AgentExecutor(agent=decide, tools=[echo]).iter("q")
    for (step,) in turns:
        changed = dataclasses.replace(step, observation="edited")
        turns.run = Run(turns.run.inputs, Steps([changed]))
    assert turns.result.output == ["edited"]
    with pytest.raises(gx.InputError):
        turns.run = Run({})


@cases("seen", [0, 1, 2])
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
