"""Section 6 of docs/semantics.md, quirks of LangChain's executor that are arguably bugs: none of them is here."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

import graphexec as gx
from graphexec.agents import create_xml_agent
from graphexec.errors import InputError, ServerError
from graphexec.messages import ToolCall
from graphexec.models import ScriptedModel, retrying
from tests.executor import actors
from tests.executor.actors import HOW, Running, act, answer, call, echo, observations, scripted, statuses
from tests.executor.test_time import make_slow_tool
from tests.parameters import cases
from tests.semantics import endings
from tests.semantics.endings import STOPPED, A, B, C, finish_of, run_agent, run_replies, run_turns, stop_of

REACT_ACTION = "Action: echo\nAction Input: a"
TOOL_CALLING = gx.create_tool_calling_agent


def test_q2_time_limit_spares_the_stream_consumer() -> None:
    async def consumed() -> Any:
        executor = gx.AgentExecutor(agent=scripted(A), tools=[echo], max_execution_time=0.02)
        last: Any = None
        past = asyncio.Event()
        asyncio.get_running_loop().call_later(0.03, past.set)
        async for chunk in executor.astream_chunks("q"):
            last = chunk
            # The consumer awaits something else, until after the limit.
            await past.wait()
        return last

    assert asyncio.run(consumed())["output"] == STOPPED


GENERATE: dict[str, Any] = {"early_stopping_method": "generate"}


@pytest.mark.medium
@HOW
def test_q6_stop_keeps_finished_results(run: Running) -> None:
    released = threading.Event()
    slow = make_slow_tool("async", released)
    batch = [A, act("slow"), B]
    try:
        # The others end in this time on a busy machine, too.
        result = run(gx.AgentExecutor(agent=scripted(batch), tools=[echo, slow], max_execution_time=1.5))
    finally:
        released.set()
    assert [step.status for step in result.steps] == ["ok", "cut", "ok"]
    assert [step.observation for step in result.steps][::2] == ["a", "b"]


CALLS = [call("echo", "c1", text="a"), call("echo", "c2", text="b")]
DONE = "<final_answer>done</final_answer>"
FAIL, DIRECT = act("fail", text="b"), act("direct", text="42")
HANDLED: dict[str, Any] = {"handle_parsing_errors": True}


@cases(
    ("run", "output", "texts"),
    [
        # Q7 and Q8: the exception of a tool is an observation. Q9: one direct result may be the answer.
        (lambda: run_turns([A, FAIL, C], answer()), "done", ["a", "fail failed: ValueError: no b", "c"]),
        (lambda: run_turns([DIRECT, A], return_direct="any"), "42", ["42", "a"]),
        # Q12: a closing tag that was cut off, and Q14: one native call or more.
        (lambda: run_replies("<tool>echo</tool><tool_input>hello", DONE, make=create_xml_agent), "done", ["hello"]),
        (lambda: run_replies(CALLS[0], CALLS, "done", make=TOOL_CALLING), "done", ["a", "a", "b"]),
        # Q18: an empty list of actions is a parse error.
        (lambda: run_turns([], answer(), **HANDLED), "done", ["Decide on an action, or finish."]),
    ],
)
def test_q7_to_q18_run_goes_on_to_an_answer(run: Callable[[], Any], output: str, texts: list[str]) -> None:
    result = run()
    assert (finish_of(result).output, observations(result)) == (output, texts)
    assert finish_of(result).return_direct == (output == "42")
    assert [status for status in statuses(result) if status != "ok"] in ([], ["error"], ["parse_error"])


def test_q13_xml_parse_error_is_handled() -> None:
    result = run_replies("no tags", DONE, make=create_xml_agent, **HANDLED)
    assert (result.outcome.output, statuses(result)) == ("done", ["parse_error"])


@HOW
def test_q16_every_agent_takes_a_string(run: Running) -> None:
    model = ScriptedModel(["Final Answer: 42"])
    assert run(gx.AgentExecutor(agent=gx.create_react_agent(model, []), tools=[]), "the question").output == "42"
    assert "Question: the question" in actors.prompt(model.requests[0])
    echoing = gx.AgentExecutor(agent=lambda steps, inputs: answer(inputs["input"]), tools=[])
    assert run(echoing, "the question").output == "the question"


def test_q17_every_door_checks_its_inputs() -> None:
    executor = gx.AgentExecutor(agent=gx.create_react_agent(ScriptedModel([]), []), tools=[])
    for door in (executor.stream, executor.astream):
        # Also before it is iterated.
        with pytest.raises(InputError, match="the inputs lack input"):
            door({"question": "q"})
    # The error of a stopped response is raised, too.
    agent = gx.create_react_agent(ScriptedModel([ServerError("the model's")]), [])
    executor = gx.AgentExecutor(agent=agent, tools=[], max_iterations=0, **GENERATE)
    with pytest.raises(ServerError, match="the model's"):
        run_replies(ServerError("the model's"), max_iterations=0, **GENERATE)
    with pytest.raises(ServerError, match="the model's"):
        list(executor.stream_chunks("q"))


def other_values(steps: Any, inputs: Any) -> Any:
    return gx.AgentFinish({"answer": "42"}) if len(steps) > 1 else [A]


@cases(
    "run",
    [
        lambda: run_replies(REACT_ACTION, max_iterations=1),
        lambda: run_replies(call("echo", text="a"), make=TOOL_CALLING, max_iterations=1),
        lambda: run_agent(other_values, max_iterations=1),
    ],
)
def test_q20_stop_text_ignores_return_value_names(run: Callable[[], Any]) -> None:
    assert stop_of(run()).output == STOPPED


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
    assert "garbage\nObservation: Invalid Format" in actors.prompt(model.requests[1])
    assert "http" not in actors.prompt(model.requests[1])


def test_q23_generate_shows_trimmed_steps() -> None:
    model = ScriptedModel([f"Action: echo\nAction Input: {text}" for text in "abc"] + ["Final Answer: so"])
    options: dict[str, Any] = {"max_iterations": 3, "trim_intermediate_steps": 1, **GENERATE}
    executor = gx.AgentExecutor(agent=gx.create_react_agent(model, [echo]), tools=[echo], **options)
    assert executor.run("q").output == "so"
    last = actors.prompt(model.requests[-1])
    assert last.endswith(f"Observation: c\nThought: \n\n{endings.FINAL}")
    assert "Observation: b" not in last


def test_q24_unparsable_call_does_not_finish() -> None:
    replies = [ToolCall("c", "echo", "{")] * 2
    result = run_replies(*replies, make=TOOL_CALLING, handle_parsing_errors=True, max_iterations=2)
    assert (stop_of(result).limit, statuses(result)) == (gx.Exhausted("iterations", 2, 2), ["parse_error"] * 2)


def test_q25_sync_and_async_results_are_equal() -> None:
    def executor() -> gx.AgentExecutor:
        return gx.AgentExecutor(agent=lambda steps, inputs: answer(inputs["none"]), tools=[])

    returned = executor().invoke({"input": "q", "none": None})
    assert returned == {"input": "q", "none": None, "output": None}
    assert asyncio.run(executor().ainvoke({"input": "q", "none": None})) == returned
    assert list(executor().stream_chunks({"none": None}))[-1]["output"] is None
