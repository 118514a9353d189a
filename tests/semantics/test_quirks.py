"""Section 6 of docs/semantics.md, quirks of LangChain's executor that are arguably bugs: none of them is here."""

from __future__ import annotations

import asyncio
import copy
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import graphexec as gx
from graphexec.agents import create_xml_agent
from graphexec.errors import InputError, ServerError
from graphexec.memory import BufferMemory
from graphexec.messages import ToolCall, UserMessage
from graphexec.models import ScriptedModel, retrying
from tests.executor.actors import (
    HOW,
    BlockingModel,
    Running,
    act,
    answer,
    call,
    echo,
    fail,
    messages,
    observations,
    prompt,
    run_executor,
    scripted,
    statuses,
    until,
)
from tests.parameters import cases
from tests.semantics.endings import FINAL, finish_of


def unreadable(steps: Any, inputs: Any) -> Any:
    raise gx.ParseError("no", llm_output="garbage")


@cases("limit", [None, 20.0])
def test_q1_tool_timeout_error_is_not_the_deadline(limit: float | None) -> None:
    @gx.tool
    def connect() -> str:
        """Fail with a timeout."""
        raise TimeoutError("the socket's")

    result = run_executor(
        lambda: gx.AgentExecutor(agent=scripted(act("connect"), answer()), tools=[connect], max_execution_time=limit)
    )
    assert finish_of(result).output == "done"
    assert observations(result) == ["connect failed: TimeoutError: the socket's"]


def test_q1_model_timeout_error_is_raised() -> None:
    with pytest.raises(TimeoutError, match="the model's"):
        run_executor(
            lambda: gx.AgentExecutor(
                agent=gx.create_react_agent(ScriptedModel([TimeoutError("the model's")]), []), tools=[]
            )
        )


def test_q2_time_limit_spares_the_stream_consumer() -> None:
    async def consumed() -> Any:
        executor = gx.AgentExecutor(agent=scripted(act("echo", text="a")), tools=[echo], max_execution_time=0.02)
        last: Any = None
        past = asyncio.Event()
        asyncio.get_running_loop().call_later(0.03, past.set)
        async for chunk in executor.astream_chunks("q"):
            last = chunk
            # The consumer awaits something else, until after the limit.
            await past.wait()
        return last

    assert asyncio.run(consumed())["output"] == "Agent stopped due to iteration limit or time limit."


def test_q3_generate_works_for_every_agent() -> None:
    def concluding(steps: Any, inputs: dict[str, Any]) -> Any:
        return answer("the last word") if "conclude" in inputs else act("echo", text="a")

    agents: dict[str, Callable[[], Any]] = {
        "react": lambda: gx.create_react_agent(
            ScriptedModel(["Action: echo\nAction Input: a", "Final Answer: the last word"]), [echo]
        ),
        "tool calling": lambda: gx.create_tool_calling_agent(
            ScriptedModel([call("echo", text="a"), "the last word"]), [echo]
        ),
        "callable": lambda: concluding,
    }

    def executor(make: Callable[[], Any]) -> gx.AgentExecutor:
        return gx.AgentExecutor(agent=make(), tools=[echo], max_iterations=1, early_stopping_method="generate")

    for make in agents.values():
        result = run_executor(partial(executor, make))
        assert isinstance(result.outcome, gx.StoppedResponse)
        assert (result.outcome.output, result.outcome.generated) == ("the last word", True)


@cases(
    ("reply", "output"),
    [
        ("Action: echo\nAction Input: a", "Agent stopped due to iteration limit or time limit."),
        ("It is 42, I think.", "It is 42, I think."),
    ],
)
def test_q4_final_answer_is_readable(reply: str, output: str) -> None:
    result = run_executor(
        lambda: gx.AgentExecutor(
            agent=gx.create_react_agent(ScriptedModel([reply]), [echo]),
            tools=[echo],
            max_iterations=0,
            early_stopping_method="generate",
        )
    )
    assert result.outcome.output == output
    # It is an effect like any other: watched, and awaited in an async run.
    assert [event.node for event in result.events if isinstance(event, gx.Asked)] == ["stopped_response"]


@HOW
def test_q5_time_limit_interrupts_sync_runs(run: Running) -> None:
    model = BlockingModel()
    try:
        result = run(gx.AgentExecutor(agent=gx.create_react_agent(model, []), tools=[], max_execution_time=0.3))
    finally:
        model.released.set()
    assert (result.reason, result.spent["model_calls"]) == ("seconds", 1)


@HOW
def test_q6_stop_keeps_finished_results(run: Running) -> None:
    released = threading.Event()

    @gx.tool
    async def slow() -> str:
        """Take half a minute."""
        await until(released)
        return "late"

    batch = [act("echo", text="a"), act("slow"), act("echo", text="b")]
    try:
        # The others end in this time on a busy machine, too.
        result = run(gx.AgentExecutor(agent=scripted(batch), tools=[echo, slow], max_execution_time=1.5))
    finally:
        released.set()
    assert [step.status for step in result.steps] == ["ok", "cut", "ok"]
    assert [step.observation for step in result.steps][::2] == ["a", "b"]


def test_q7_failing_tool_keeps_other_results() -> None:
    batch = [act("echo", text="a"), act("fail", text="b"), act("echo", text="c")]
    result = run_executor(lambda: gx.AgentExecutor(agent=scripted(batch, answer()), tools=[echo, fail]))
    assert observations(result) == ["a", "fail failed: ValueError: no b", "c"]


def test_q8_tool_exception_is_an_observation() -> None:
    result = run_executor(lambda: gx.AgentExecutor(agent=scripted(act("fail", text="b"), answer()), tools=[fail]))
    assert isinstance(result.outcome, gx.AgentFinish)
    assert statuses(result) == ["error"]


def test_q9_one_direct_result_may_be_the_answer() -> None:
    @gx.tool(return_direct=True)
    def direct() -> str:
        """Answer."""
        return "42"

    batch = [act("direct"), act("echo", text="a")]
    result = run_executor(lambda: gx.AgentExecutor(agent=scripted(batch), tools=[direct, echo], return_direct="any"))
    assert (result.outcome.output, finish_of(result).return_direct) == ("42", True)


def test_q10_parse_error_emits_equal_events() -> None:
    # The drivers agree on every event.
    result = run_executor(
        lambda: gx.AgentExecutor(agent=unreadable, tools=[], handle_parsing_errors=True, max_iterations=2)
    )
    assert statuses(result) == ["parse_error"] * 2


def fix(error: gx.ParseError) -> str:
    return "Fix it!"


@cases("policy", ["Fix it!", fix])
def test_q11_parse_feedback_reaches_tool_calling_model(policy: Any) -> None:
    model = ScriptedModel([ToolCall("c", "echo", '{"text": '), "done"])
    executor = gx.AgentExecutor(
        agent=gx.create_tool_calling_agent(model, [echo]), tools=[echo], handle_parsing_errors=policy
    )
    assert executor.run("q").output == "done"
    assert messages(model.requests[1])[-1] == UserMessage("Fix it!")


def test_q12_xml_agent_handles_truncated_tag() -> None:
    model = ScriptedModel(["<tool>echo</tool><tool_input>hello", "<final_answer>done</final_answer>"])
    result = gx.AgentExecutor(agent=create_xml_agent(model, [echo]), tools=[echo]).run("q")
    assert [step.observation for step in result.steps] == ["hello"]
    assert (result.output, "</tool_input>" in getattr(model.requests[0], "stop", ())) == ("done", True)


def test_q13_xml_parse_error_is_handled() -> None:
    model = ScriptedModel(["no tags", "<final_answer>done</final_answer>"])
    executor = gx.AgentExecutor(agent=create_xml_agent(model, [echo]), tools=[echo], handle_parsing_errors=True)
    result = executor.run("q")
    assert (result.output, [step.status for step in result.steps]) == ("done", ["parse_error"])


def test_q14_native_agent_runs_one_or_more_calls() -> None:
    calls = [call("echo", "c1", text="a"), call("echo", "c2", text="b")]
    result = run_executor(
        lambda: gx.AgentExecutor(
            agent=gx.create_tool_calling_agent(ScriptedModel([calls[0], calls, "done"]), [echo]), tools=[echo]
        )
    )
    assert observations(result) == ["a", "a", "b"]


def test_q15_stream_is_saved_like_a_run() -> None:
    memory = BufferMemory()
    executor = gx.AgentExecutor(agent=scripted(answer("42")), tools=[], memory=memory, return_intermediate_steps=True)
    list(executor.stream_chunks("q"))
    assert memory.load({}) == {"chat_history": "Human: q\nAI: 42"}


@HOW
def test_q16_every_agent_takes_a_string(run: Running) -> None:
    model = ScriptedModel(["Final Answer: 42"])
    assert run(gx.AgentExecutor(agent=gx.create_react_agent(model, []), tools=[]), "the question").output == "42"
    assert "Question: the question" in prompt(model.requests[0])
    echoing = gx.AgentExecutor(agent=lambda steps, inputs: answer(inputs["input"]), tools=[])
    assert run(echoing, "the question").output == "the question"


def test_q17_every_door_checks_its_inputs() -> None:
    executor = gx.AgentExecutor(agent=gx.create_react_agent(ScriptedModel([]), []), tools=[])
    doors: list[Callable[[Any], Any]] = [
        executor.run,
        executor.invoke,
        executor.stream,
        lambda inputs: list(executor.stream_chunks(inputs)),
        lambda inputs: list(executor.iter(inputs)),
        lambda inputs: asyncio.run(executor.arun(inputs)),
        executor.astream,
    ]
    for door in doors:
        with pytest.raises(InputError, match="the inputs lack input"):
            door({"question": "q"})


def test_q17_stopped_response_error_is_raised() -> None:
    def broken() -> gx.AgentExecutor:
        agent = gx.create_react_agent(ScriptedModel([ServerError("the model's")]), [])
        return gx.AgentExecutor(agent=agent, tools=[], max_iterations=0, early_stopping_method="generate")

    with pytest.raises(ServerError, match="the model's"):
        run_executor(broken)
    with pytest.raises(ServerError, match="the model's"):
        list(broken().stream_chunks("q"))


def test_q18_empty_action_list_is_a_parse_error() -> None:
    result = run_executor(lambda: gx.AgentExecutor(agent=scripted([], answer()), tools=[], handle_parsing_errors=True))
    assert (observations(result), result.outcome.output) == (["Decide on an action, or finish."], "done")


def test_q19_agent_finish_is_not_changed() -> None:
    finish = gx.AgentFinish({"output": "42"}, "I know")
    before = copy.deepcopy(finish)
    executor = gx.AgentExecutor(
        agent=scripted(act("echo", text="a"), finish), tools=[echo], return_intermediate_steps=True
    )
    executor.invoke("q")
    list(executor.stream_chunks("q"))
    assert finish == before


def test_q19_agent_cannot_change_steps() -> None:
    def greedy(steps: Any, inputs: dict[str, Any]) -> Any:
        assert not hasattr(steps, "append")
        inputs["input"] = "mine"
        return answer() if steps else act("echo", text="a")

    executor = gx.AgentExecutor(agent=greedy, tools=[echo])
    assert executor.invoke("q") == {"input": "q", "output": "done"}
    assert executor.run("q").ending.run.inputs == {"input": "q"}


def test_q20_stop_text_ignores_return_value_names() -> None:
    def other_values(steps: Any, inputs: Any) -> Any:
        return gx.AgentFinish({"answer": "42"}) if len(steps) > 1 else [act("echo", text="a")]

    agents: list[Any] = [
        gx.create_react_agent(ScriptedModel(["Action: echo\nAction Input: a"]), [echo]),
        gx.create_tool_calling_agent(ScriptedModel([call("echo", text="a")]), [echo]),
        other_values,
    ]
    outputs = [gx.AgentExecutor(agent=agent, tools=[echo], max_iterations=1).invoke("q")["output"] for agent in agents]
    assert outputs == ["Agent stopped due to iteration limit or time limit."] * 3


@HOW
def test_q21_retrying_model_retries_in_every_run(run: Running) -> None:
    def executor() -> gx.AgentExecutor:
        model = retrying(ScriptedModel([ServerError("busy"), "Final Answer: 42"]), first_wait=0)
        return gx.AgentExecutor(agent=gx.create_react_agent(model, []), tools=[])

    assert run(executor()).output == "42"
    events = list(executor().stream("q", tokens=True))
    assert any(isinstance(event, gx.Reported) for event in events)


def test_q22_model_text_contains_no_url() -> None:
    model = ScriptedModel(["garbage", "Final Answer: 42"])
    gx.AgentExecutor(agent=gx.create_react_agent(model, []), tools=[], handle_parsing_errors=True).run("q")
    assert "garbage\nObservation: Invalid Format" in prompt(model.requests[1])
    assert "http" not in prompt(model.requests[1])


def test_q23_generate_shows_trimmed_steps() -> None:
    model = ScriptedModel([f"Action: echo\nAction Input: {text}" for text in "abc"] + ["Final Answer: so"])
    executor = gx.AgentExecutor(
        agent=gx.create_react_agent(model, [echo]),
        tools=[echo],
        max_iterations=3,
        trim_intermediate_steps=1,
        early_stopping_method="generate",
    )
    assert executor.run("q").output == "so"
    last = prompt(model.requests[-1])
    assert last.endswith(f"Observation: c\nThought: \n\n{FINAL}")
    assert "Observation: b" not in last


def test_q24_unparsable_call_does_not_finish() -> None:
    model = ScriptedModel([ToolCall("c", "echo", "{")], repeat_last=True)
    executor = gx.AgentExecutor(
        agent=gx.create_tool_calling_agent(model, [echo]), tools=[echo], handle_parsing_errors=True, max_iterations=2
    )
    result = executor.run("q")
    assert (result.reason, [step.status for step in result.steps]) == ("iterations", ["parse_error"] * 2)


def test_q25_sync_and_async_results_are_equal() -> None:
    def executor() -> gx.AgentExecutor:
        return gx.AgentExecutor(agent=lambda steps, inputs: answer(inputs["none"]), tools=[])

    returned = executor().invoke({"input": "q", "none": None})
    assert returned == {"input": "q", "none": None, "output": None}
    assert asyncio.run(executor().ainvoke({"input": "q", "none": None})) == returned
    assert list(executor().stream_chunks({"none": None}))[-1]["output"] is None
