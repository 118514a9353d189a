"""`stream_chunks`: a run as the chunks that LangChain's executor streams."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from graphexec import (
    AgentExecutor,
    AgentFinish,
    AgentStep,
    Asks,
    ask,
    charged,
    create_react_agent,
    create_tool_calling_agent,
    edges,
    node,
    on,
    replace,
    snapshot_of,
    splice,
    tool,
)
from graphexec.actions import Run, Steps
from graphexec.effects import CallTool
from graphexec.executor import Acted, Observed, Ready, check_return_direct, limit_reached, plan
from graphexec.executor.streams import Chunks
from graphexec.kernel import Moved, renamed
from graphexec.messages import AssistantMessage, ModelReply, ToolMessage, UserMessage
from graphexec.models import ScriptedModel
from tests.executor.actors import act, answer, call, echo, fail, scripted


def chunks_of(executor: AgentExecutor, how: str, inputs: Any = "q") -> list[dict[str, Any]]:
    if how == "sync":
        return list(executor.stream_chunks(inputs))

    async def collected() -> list[dict[str, Any]]:
        return [chunk async for chunk in executor.astream_chunks(inputs)]

    return asyncio.run(collected())


both = pytest.mark.parametrize("how", ["sync", "async"])


def executor_of(*turns: Any, **settings: Any) -> AgentExecutor:
    return AgentExecutor(agent=scripted(*turns), tools=[echo, fail], **settings)


@both
def test_an_action_a_step_and_the_output_are_a_chunk_each(how: str) -> None:
    action = act("echo", text="hi")
    assert chunks_of(executor_of(action, answer()), how) == [
        {"actions": [action], "messages": [AssistantMessage("")]},
        {"steps": [AgentStep(action, "hi")], "messages": [UserMessage("hi")]},
        {"output": "done", "messages": [AssistantMessage("")]},
    ]


@both
def test_actions_of_one_step_come_before_any_of_them_is_done(how: str) -> None:
    first, second = act("echo", text="a"), act("fail", text="b")
    chunks = chunks_of(executor_of([first, second], answer()), how)
    assert [next(iter(chunk)) for chunk in chunks] == ["actions", "actions", "steps", "steps", "output"]
    assert [chunk["actions"] for chunk in chunks[:2]] == [[first], [second]]
    assert [chunk["steps"][0].status for chunk in chunks[2:4]] == ["ok", "error"]


@both
def test_a_parse_error_is_a_step_without_an_action(how: str) -> None:
    chunks = chunks_of(executor_of([], answer(), handle_parsing_errors="what?"), how)
    assert [next(iter(chunk)) for chunk in chunks] == ["steps", "output"]
    assert chunks[0]["steps"][0].status == "parse_error"
    assert chunks[0]["messages"] == [UserMessage("what?")]


@both
def test_a_stopped_run_ends_with_its_output(how: str) -> None:
    chunks = chunks_of(executor_of(act("echo", text="hi"), max_iterations=1), how)
    assert chunks[-1] == {
        "output": "Agent stopped due to iteration limit or time limit.",
        "messages": [AssistantMessage("")],
    }


@both
def test_steps_that_are_wanted_stand_in_the_last_chunk_only(how: str) -> None:
    action = act("echo", text="hi")
    chunks = chunks_of(executor_of(action, answer(), return_intermediate_steps=True), how)
    assert ["intermediate_steps" in chunk for chunk in chunks] == [False, False, True]
    assert chunks[-1]["intermediate_steps"] == [(action, "hi")]


@both
def test_every_return_value_and_the_log_are_in_the_last_chunk(how: str) -> None:
    finish = AgentFinish({"output": "42", "sure": True}, "I know")
    assert chunks_of(executor_of(finish), how) == [
        {"output": "42", "sure": True, "messages": [AssistantMessage("I know")]}
    ]


@both
def test_the_messages_of_native_calls_are_the_models_and_the_tools(how: str) -> None:
    model = ScriptedModel([[call("echo", "c1", text="a"), call("echo", "c2", text="b")], "done"])
    executor = AgentExecutor(agent=create_tool_calling_agent(model, [echo]), tools=[echo])
    chunks = chunks_of(executor, how)
    message = ModelReply("", (call("echo", "c1", text="a"), call("echo", "c2", text="b"))).message
    assert [chunk["messages"] for chunk in chunks] == [
        [message],
        [message],
        [ToolMessage("c1", "a")],
        [ToolMessage("c2", "b")],
        [AssistantMessage("done")],
    ]


@tool(return_direct=True)
def tell(text: str) -> str:
    """Say it, and be done."""
    return text


@both
def test_the_step_of_a_direct_answer_comes_before_it(how: str) -> None:
    action = act("tell", text="so")
    executor = AgentExecutor(agent=scripted(action), tools=[tell])
    assert [next(iter(chunk)) for chunk in chunks_of(executor, how)] == ["actions", "steps", "output"]


def test_an_action_is_told_before_its_tool_runs() -> None:
    ran: list[str] = []

    @tool
    def note(text: str) -> str:
        """Note it."""
        ran.append(text)
        return text

    chunks = AgentExecutor(agent=scripted(act("note", text="x"), answer()), tools=[note]).stream_chunks("q")
    assert "actions" in next(chunks)
    assert ran == []
    chunks.close()
    assert ran == []


@node
def one_by_one(acted: Acted) -> Asks[CallTool, Observed]:
    """Call the tools, each when the one before has answered."""
    first, second = acted.actions
    one = yield from ask(CallTool(first.tool, first.tool_input, acted.run))
    other = yield from ask(CallTool(second.tool, second.tool_input, acted.run))
    return Observed(acted.run, acted.actions, (one, other))


@both
def test_actions_whose_tools_are_called_one_by_one_are_told_once(how: str) -> None:
    executor = executor_of([act("echo", text="a"), act("echo", text="b")], answer())
    slowly = charged(when_spent=limit_reached)(renamed(one_by_one, "dispatch_tools"))
    executor = executor.with_graph(replace(executor.graph, slowly))
    told = [next(iter(chunk)) for chunk in chunks_of(executor, how)]
    assert told == ["actions", "actions", "steps", "steps", "output"]


def test_a_run_that_goes_on_in_the_middle_of_a_step_tells_its_actions_again() -> None:
    executor = AgentExecutor(agent=scripted(act("fail", text="a"), answer()), tools=[fail], handle_tool_errors="raise")
    with pytest.raises(ValueError, match="no a") as caught:
        chunks_of(executor, "sync")
    executor = AgentExecutor(agent=scripted(answer()), tools=[fail])
    told = [next(iter(chunk)) for chunk in chunks_of(executor, "sync", snapshot_of(caught.value))]
    assert told == ["actions", "steps", "output"]


@both
def test_steps_that_come_after_some_were_taken_away_are_told(how: str) -> None:
    @node
    def forget(ready: Ready) -> Ready:
        return Ready(Run(ready.run.inputs, Steps(ready.run.steps[-1:])))

    model = ScriptedModel([*[f"Action: echo\nAction Input: {letter}" for letter in "abcd"], "Final Answer: so"])
    executor = AgentExecutor(agent=create_react_agent(model, [echo]), tools=[echo])
    graph = splice(executor.graph, edges(forget, on(Ready, plan)), after=check_return_direct, on=Ready)
    told = [next(iter(chunk)) for chunk in chunks_of(executor.with_graph(graph), how)]
    assert told == [*["actions", "steps"] * 4, "output"]


def test_what_is_no_news_to_a_chunk_brings_none() -> None:
    assert Chunks().of(Moved("plan", object(), "parse")) == []
