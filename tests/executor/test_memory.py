"""The memory of an executor: it is loaded before each run, and saved after it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import graphexec as gx
from graphexec import actions, agents, effects, models
from graphexec.errors import InputError, ServerError
from graphexec.memory import (
    BufferMemory,
    MemoryHistory,
    SummaryFailed,
    SummaryMemory,
    SummaryRequested,
    Turn,
    WindowMemory,
)
from tests.executor.actors import answer, echo, run_async, run_by, run_sync, scripted
from tests.executor.test_memory_nodes import Diary
from tests.executor.test_observers import Failing
from tests.parameters import cases
from tests.semantics.endings import paused_at

Run = Callable[..., Any]
HOW = cases("run", [run_sync, run_async])


def answer_at_once(steps: actions.Steps, inputs: dict[str, Any]) -> gx.AgentFinish:
    return gx.AgentFinish({"output": f"{inputs['before']}; {inputs['input']}"})


def executor_of(memory: Any, agent: Any = answer_at_once, **options: Any) -> gx.AgentExecutor:
    return gx.AgentExecutor(agent=agent, tools=[echo], memory=memory, **options)


ANSWER = "nothing; tea?"
SAVED = [({"before": "nothing", "input": "tea?"}, {"output": ANSWER})]


@HOW
def test_inputs_of_the_caller_take_precedence(run: Run) -> None:
    assert run(executor_of(Diary()), {"input": "?", "before": "mine"}).output == "mine; ?"


@HOW
def test_failing_summary_loses_nothing(run: Run) -> None:
    def greeting(steps: actions.Steps, inputs: dict[str, Any]) -> gx.AgentFinish:
        return gx.AgentFinish({"output": f"hello; before: {inputs['chat_history']}"})

    memory = SummaryMemory(models.ScriptedModel([ServerError("gone"), "They met."]))
    executor = executor_of(memory, greeting)
    assert run(executor, "tea?").output == "hello; before: "
    assert run(executor, "milk?").output == "hello; before: Human: tea?\nAI: hello; before: "
    assert [turn.input for turn in memory.history.turns()] == ["tea?", "milk?"]
    assert memory.load({}) == {"chat_history": "Summary: They met."}


@cases("how", ["sync", "async"])
def test_reports_of_a_memory_name_its_effect(how: str) -> None:
    watched: list[Any] = []
    memory = SummaryMemory(models.ScriptedModel([ServerError("gone")]))
    executor = executor_of(memory, scripted(answer("hello")), observers=[watched.append])
    events = run_by("stream" if how == "sync" else "astream", executor, "tea?")
    assert events == watched
    asked, requested, failed, answered = events[-6:-2]
    assert isinstance(asked, gx.Asked)
    for reported, news in ((requested, SummaryRequested), (failed, SummaryFailed)):
        assert isinstance(reported, gx.Reported)
        assert isinstance(reported.news, news)
        assert (reported.node, reported.effect) == ("save_memory", asked.effect)
    assert isinstance(answered, gx.Answered)


@cases("how", ["sync", "async"])
def test_invalid_inputs_are_refused_before_loading(how: str) -> None:
    memory = Diary()
    executor = executor_of(memory)
    many: Any = ["tea?"]
    with pytest.raises(InputError, match="pass a dict of inputs by name"):
        executor.stream(many) if how == "sync" else executor.astream(many)

    async def first() -> Any:
        events = executor.astream("tea?")
        while (event := await anext(events)) and not isinstance(event, gx.Answered):
            assert memory.loaded == []
        return memory.loaded

    if how == "async":
        assert asyncio.run(first()) == [{"input": "tea?"}]
        return
    events = executor.stream("tea?")
    while not isinstance(next(events), gx.Answered):
        assert memory.loaded == []
    assert memory.loaded == [{"input": "tea?"}]


def test_effects_of_the_memory_come_first_and_last() -> None:
    events = list(executor_of(Diary()).stream("tea?"))
    ((inputs, outputs),) = SAVED
    assert [(event.node, event.effect) for event in events if isinstance(event, gx.Asked)][::2] == [
        ("load_memory", effects.LoadMemory({"input": "tea?"})),
        ("save_memory", effects.SaveMemory(inputs, outputs)),
    ]
    assert [event.reply for event in events if isinstance(event, gx.Answered)][::2] == [{"before": "nothing"}, None]


def test_conversation_continues_over_runs() -> None:
    def counting(steps: actions.Steps, inputs: dict[str, Any]) -> gx.AgentFinish:
        return answer(str(inputs["chat_history"].count("Human")))

    executor = executor_of(BufferMemory(), counting)
    assert [executor.run("again").output for _ in range(3)] == ["0", "1", "2"]
    # Another executor has a separate conversation.
    other = executor_of(WindowMemory(1), counting)
    assert [other.run("again").output for _ in range(3)] == ["0", "1", "1"]


def test_missing_input_of_the_memory_is_named() -> None:
    with pytest.raises(InputError, match="question"):
        executor_of(BufferMemory(input_key="question"), scripted(answer())).run("tea?")


def test_messages_of_a_memory_survive_a_pause() -> None:
    memory = BufferMemory(as_messages=True)
    memory.history.add(Turn("I am Ada.", "Hello."))
    model = models.ScriptedModel([ServerError("gone"), "Ada."])
    executor = gx.AgentExecutor(agent=gx.create_tool_calling_agent(model, []), tools=[], memory=memory)
    with pytest.raises(ServerError) as caught:
        executor.run("Who am I?")
    snapshot = paused_at(caught.value)
    again = gx.Snapshot.from_json(snapshot.to_json(), executor.graph)
    assert executor.run(again).output == "Ada."
    first, second = model.requests
    assert first == second
    assert memory.history.turns()[-1] == Turn("Who am I?", "Ada.")


def test_string_is_the_input_not_provided_by_memory() -> None:
    model = models.ScriptedModel(["AI: hello"], repeat_last=True)
    executor = gx.AgentExecutor(agent=agents.create_conversational_agent(model, []), tools=[], memory=BufferMemory())
    assert executor.invoke("I am Ada.") == {"input": "I am Ada.", "output": "hello"}
    assert executor.run("Who am I?").output == "hello"
    assert "Human: I am Ada." in str(model.requests[-1])
    with pytest.raises(InputError, match=r"the inputs lack input; pass \{'input': \.\.\.\}$"):
        executor.run({})


@cases(
    ("memory", "create", "facts"),
    [
        (BufferMemory, gx.create_react_agent, ["; make one, for example with BufferMemory"]),
        (MemoryHistory(), gx.create_react_agent, ["which has no keys, load, save, aload, asave; make one"]),
        # The agent does not read it.
        (BufferMemory(), gx.create_react_agent, ["provides chat_history", "write {chat_history} into its prompt"]),
        (BufferMemory(key="before"), gx.create_tool_calling_agent, ["or make the memory with key='chat_history'"]),
    ],
)
def test_invalid_memory_is_refused(memory: Any, create: Callable[..., gx.Agent], facts: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        gx.AgentExecutor(agent=create(models.ScriptedModel([]), []), tools=[], memory=memory)
    assert all(fact in str(caught.value) for fact in facts)


def test_observer_failing_at_the_end_loses_nothing() -> None:
    memory = Diary()
    with pytest.raises(LookupError) as caught:
        executor_of(memory, observers=[Failing(gx.Done, LookupError, raise_error=True)]).run("tea?")
    assert len(memory.saved) == 1
    assert gx.snapshot_of(caught.value) is not None
