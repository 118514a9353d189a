"""Sections 3.9 to 3.11 of docs/semantics.md: events, streams, iterating, and batches."""

import asyncio
import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

import graphexec as gx
from graphexec.actions import Run, Steps
from graphexec.effects import CallTool
from graphexec.messages import AssistantMessage, ToolMessage, UserMessage
from graphexec.models import ScriptedModel
from tests.drivers import FakeClock
from tests.executor.actors import HOW, Running, act, answer, call, echo, run_by, scripted, timed
from tests.parameters import cases
from tests.semantics.endings import STOPPED, A, B, C, noting_tool, run_blocked, unreadable_once


def turns_of(*turns: Any, **options: Any) -> gx.AgentExecutor:
    options = {"tools": [echo], **options}
    return gx.AgentExecutor(agent=scripted(*turns), **options)


def two_steps(**options: Any) -> gx.AgentExecutor:
    # In turn, since of several at once the first to return is the first step.
    return turns_of(A, [B, C], answer("42"), tool_concurrency=1, **options)


def chunks_of(make: Callable[[], gx.AgentExecutor]) -> list[dict[str, Any]]:
    """Return the events of both streams, which must be equal."""
    chunks = list(make().stream_chunks("q"))
    assert run_by("astream_chunks", make()) == chunks
    return chunks


# ---- 3.9 Callbacks: events and observers are what they are here


@HOW
def test_observers_receive_the_same_events_in_order(run: Running) -> None:
    seen: list[str] = []

    def watch(event: gx.Event[Any]) -> None:
        match event:
            case gx.Entered(node):
                seen.append(node)
            case gx.Asked(_, effect):
                seen.append(f"ask {type(effect).__name__}")
            case gx.Answered():
                seen.append("answered")
            case gx.Done():
                seen.append("done")
            case _:
                pass

    run(turns_of(A, answer(), observers=[watch]))
    decided = ["plan", "ask CallAgent", "answered", "parse"]
    acted = ["dispatch_tools", "ask CallTool", "answered", "check_return_direct"]
    assert seen == [*decided, *acted, *decided, "done"]


@HOW
def test_parse_error_events_lead_back_to_plan(run: Running) -> None:
    events: list[Any] = []
    run(gx.AgentExecutor(agent=unreadable_once, tools=[], handle_parsing_errors=True, observers=[events.append]))
    moves = [(event.node, event.target) for event in events if isinstance(event, gx.Moved)]
    assert moves == [("plan", "parse"), ("parse", "plan"), ("plan", "parse"), ("parse", "END")]


@HOW
def test_each_of_two_actions_has_its_own_events(run: Running) -> None:
    events: list[Any] = []
    run(turns_of([A, act("nope")], answer(), observers=[events.append]))
    calls = [event for event in events if isinstance(getattr(event, "effect", None), CallTool)]
    result = [(type(event).__name__, event.effect.name) for event in calls]
    assert result[:2] == [("Asked", "echo"), ("Asked", "nope")]
    assert sorted(result[2:]) == [("Answered", "echo"), ("Answered", "nope")]


@HOW
def test_time_limit_events_answer_each_request(run: Running) -> None:
    events: list[gx.Event[Any]] = []
    run_blocked(run, observers=[events.append])
    kinds = [type(event).__name__ for event in events]
    assert kinds == ["Entered", "Asked", "Answered", "Moved", "Entered", "Moved", "Done"]


@HOW
def test_verbose_prints_thoughts_and_observations(run: Running, capsys: pytest.CaptureFixture[str]) -> None:
    model = ScriptedModel(["I look.\nAction: echo\nAction Input: a", "So.\nFinal Answer: 42"])
    run(gx.AgentExecutor(agent=gx.create_react_agent(model, [echo]), tools=[echo], verbose=True))
    printed = capsys.readouterr()
    assert printed.out == ""
    for text in ("> the run begins", "I look.", "<- a", "42", "> the run ends"):
        assert text in printed.err


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


@cases("at_once", [1, 8])
def test_action_chunks_precede_step_chunks(at_once: int) -> None:
    def make() -> gx.AgentExecutor:
        return turns_of([A, B, C], answer(), tool_concurrency=at_once)

    chunks = chunks_of(make) if at_once == 1 else list(make().stream_chunks("q"))
    assert [chunk["actions"] for chunk in chunks[:3]] == [[A], [B], [C]]
    texts = [chunk["steps"][0].observation for chunk in chunks[3:6]]
    assert (texts if at_once == 1 else sorted(texts)) == [*"abc"]


MESSAGES: list[tuple[Any, list[Any], Callable[[list[Any]], list[Any]]]] = [
    (
        gx.create_react_agent,
        ["I look.\nAction: echo\nAction Input: a", "So.\nFinal Answer: 42"],
        lambda replies: [AssistantMessage(replies[0]), UserMessage("a"), AssistantMessage(replies[1])],
    ),
    (
        gx.create_tool_calling_agent,
        [call("echo", text="a"), "done"],
        lambda replies: [AssistantMessage("", (replies[0],)), ToolMessage("c1", "a"), AssistantMessage("done")],
    ),
]


@cases(("make", "replies", "expected"), MESSAGES)
def test_messages_of_actions_steps_and_finish(make: Any, replies: list[Any], expected: Any) -> None:
    chunks = chunks_of(lambda: gx.AgentExecutor(agent=make(ScriptedModel(replies), [echo]), tools=[echo]))
    assert [chunk["messages"] for chunk in chunks] == [[message] for message in expected(replies)]


def test_stopping_after_action_chunk_prevents_the_tool() -> None:
    note, called = noting_tool()
    chunks = turns_of(act("note", text="a"), answer(), tools=[note]).stream_chunks("q")
    assert "actions" in next(chunks)
    chunks.close()
    assert called == []


def test_iter_yields_steps_then_the_result() -> None:
    turns = two_steps().iter("q")
    for yielded in (list(turns), run_by("aiter", two_steps())):
        assert [[observation for _, observation in steps] for steps in yielded] == [["a"], ["b", "c"]]
    assert (turns.result.output, turns.spent.iterations) == ("42", 3)
    # It can be restarted.
    turns = two_steps().iter("q")
    assert len(list(turns)) == len(list(turns)) == 2
    nothing: Any = turns
    with pytest.raises(TypeError):
        next(nothing)


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


def test_stop_adds_a_final_chunk() -> None:
    chunks = chunks_of(lambda: two_steps(max_iterations=1))
    assert [set(chunk) for chunk in chunks] == [{name, "messages"} for name in ("actions", "steps", "output")]
    assert (chunks[-1]["output"], chunks[-1]["messages"]) == (STOPPED, [AssistantMessage("")])


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


# ---- 3.11 Runnable surface


def doubling(steps: Any, inputs: dict[str, Any]) -> gx.AgentFinish:
    if inputs["input"] == "bad":
        raise LookupError("bad")
    return answer(inputs["input"] * 2)


def test_batch_returns_results_and_exceptions_in_order() -> None:
    executor = gx.AgentExecutor(agent=doubling, tools=[])
    many: list[Any] = ["a", {"input": "b"}, "bad"]
    options: dict[str, Any] = {"return_exceptions": True, "max_concurrency": 2}
    for returned in (executor.batch(many, **options), asyncio.run(executor.abatch(many, **options))):
        a, b, error = returned
        assert (a, b) == ({"input": "a", "output": "aa"}, {"input": "b", "output": "bb"})
        assert isinstance(error, LookupError)
    with pytest.raises(LookupError):
        executor.batch(many)


def test_consumer_time_counts_against_the_limit() -> None:
    clock = FakeClock()
    chunks = timed(two_steps(max_execution_time=5), clock).stream_chunks("q")
    next(chunks)
    clock.advance(6)
    *_, last = chunks
    assert last["output"] == STOPPED
