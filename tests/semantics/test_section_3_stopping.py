"""Sections 3.3 and 3.4 of docs/semantics.md: limits and stopping, and parse errors."""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import graphexec as gx
from graphexec.agents import create_chat_agent, create_mrkl_agent, create_structured_chat_agent, create_xml_agent
from graphexec.errors import ServerError
from graphexec.models import ScriptedModel
from tests.drivers import FakeClock
from tests.executor import actors
from tests.executor.actors import HOW, Running, act, answer, echo, scripted
from tests.parameters import cases
from tests.semantics import endings
from tests.semantics.endings import FINAL, STOPPED, A, run_agent, run_replies

# ---- 3.3 Limits and stopping


@HOW
@pytest.mark.parametrize("limits", [{"max_iterations": 0}, {"max_execution_time": 0}, {"max_execution_time": 0.0}])
def test_zero_limit_stops_before_the_first_plan(run: Running, limits: Any) -> None:
    result = run(gx.AgentExecutor(agent=scripted(answer()), tools=[], **limits))
    assert (result.output, result.spent["model_calls"]) == (STOPPED, 0)


def test_runs_have_15_iterations_or_another_limit() -> None:
    def decide(steps: Any, inputs: Any) -> Any:
        return answer() if len(steps) == 40 else A

    with pytest.raises(gx.UnprovedError):
        gx.AgentExecutor(agent=decide, tools=[echo], max_iterations=None)
    executor = gx.AgentExecutor(agent=decide, tools=[echo], max_iterations=None, max_model_calls=100)
    assert executor.run("q").spent.iterations == 41
    assert gx.AgentExecutor(agent=decide, tools=[echo]).run("q").spent.iterations == 15


@HOW
def test_late_finish_wins_over_time_limit(run: Running) -> None:
    clock = FakeClock()

    def decide(steps: Any, inputs: Any) -> gx.AgentFinish:
        clock.advance(6)
        return answer("42")

    executor = gx.AgentExecutor(agent=decide, tools=[], max_execution_time=5)
    assert run(actors.timed(executor, clock)).output == "42"


@cases("kind", "def", "async def")
def test_cut_tool_is_abandoned_or_cancelled(kind: str) -> None:
    released, ended = threading.Event(), threading.Event()

    def slow() -> None:
        released.wait(30)
        ended.set()

    async def aslow() -> None:
        await actors.until(released)
        ended.set()

    one = gx.tool(name="slow", description="Take half a minute.")(slow if kind == "def" else aslow)
    result = actors.run_async(gx.AgentExecutor(agent=scripted(act("slow")), tools=[one], max_execution_time=0.3))
    assert (result.reason, [step.status for step in result.steps], ended.is_set()) == ("seconds", ["cut"], False)
    released.set()
    # A thread goes on to its end.
    assert ended.wait(30 if kind == "def" else 0) == (kind == "def")


def test_monotonic_clock_starts_with_the_run() -> None:
    executor = gx.AgentExecutor(agent=scripted(answer()), tools=[], max_execution_time=5)
    assert executor.run_context.clock is time.monotonic
    clock = FakeClock(1_000_000)
    turns = actors.timed(executor, clock).iter("q")
    clock.advance(100)
    list(turns)
    assert turns.result.output == "done"


ACTION = "Action: echo\nAction Input: a"
IN_JSON = '```\n{"action": "echo", "action_input": "a"}\n```'
MAKE: dict[str, tuple[Callable[..., gx.Agent], str]] = {
    "react": (gx.create_react_agent, ACTION),
    "mrkl": (create_mrkl_agent, ACTION),
    "xml": (create_xml_agent, "<tool>echo</tool><tool_input>a"),
    "chat": (create_chat_agent, IN_JSON),
    "structured chat": (create_structured_chat_agent, IN_JSON),
}
EACH = cases("kind", *MAKE)
GENERATE: dict[str, Any] = {"max_iterations": 1, "early_stopping_method": "generate"}


@EACH
def test_force_returns_one_text_for_every_agent(kind: str) -> None:
    make, action = MAKE[kind]
    result = gx.AgentExecutor(agent=make(ScriptedModel([action]), [echo]), tools=[echo], max_iterations=1).run("q")
    assert (result.output, [step.observation for step in result.steps]) == (STOPPED, ["a"])


@EACH
def test_generate_appends_the_final_answer_sentence(kind: str) -> None:
    make, action = MAKE[kind]
    model = ScriptedModel([action, "It is 42."])
    result = gx.AgentExecutor(agent=make(model, [echo]), tools=[echo], **GENERATE).run("q")
    assert isinstance(result.ending, gx.StoppedResponse)
    assert (result.output, result.spent["model_calls"]) == ("It is 42.", 2)
    asked, last = model.requests
    assert last.stop == asked.stop
    text = actors.messages(last)[-1].content
    assert ("<observation>a</observation>" if kind == "xml" else "\nObservation: a\nThought:") in text
    assert text.endswith(f"\n\n{FINAL}")
    if kind == "chat":
        assert "This was your previous work" in text


def test_generate_shows_trimmed_steps() -> None:
    model = ScriptedModel([ACTION.replace("Input: a", f"Input: {text}") for text in "abc"] + ["Final Answer: so"])
    options: dict[str, Any] = {**GENERATE, "max_iterations": 3, "trim_intermediate_steps": 1}
    executor = gx.AgentExecutor(agent=create_mrkl_agent(model, [echo]), tools=[echo], **options)
    assert executor.run("q").output == "so"
    last = actors.prompt(model.requests[-1])
    assert last.endswith(f"Observation: c\nThought:\n\n{FINAL}")
    assert "Observation: b" not in last


def test_stopped_response_function_receives_all_inputs() -> None:
    def decide(steps: Any, inputs: dict[str, Any]) -> gx.AgentFinish:
        return answer(sorted(inputs))

    executor = gx.AgentExecutor(agent=decide, tools=[], **dict[str, Any](GENERATE, max_iterations=0))
    assert executor.run({"input": "q", "more": 1}).output == '["conclude","input","more"]'


# ---- 3.4 Parse errors


def saying(error: gx.ParseError) -> Any:
    def decide(steps: Any, inputs: Any) -> Any:
        if steps:
            return answer()
        raise error

    return decide


def fix(error: gx.ParseError) -> str:
    return f"{error}: fix it!"


SENT = gx.ParseError("no", observation="Say it again.", llm_output="garbage")
NOT_SENT = gx.ParseError("no")


@cases(
    ("policy", "error", "observation", "log"),
    (True, SENT, "Say it again.", "garbage"),
    (True, NOT_SENT, "Invalid or incomplete response", "no"),
    ("Fix it!", SENT, "Fix it!", "garbage"),
    ("", SENT, "", "garbage"),
    ("true", SENT, "true", "garbage"),
    (fix, NOT_SENT, "no: fix it!", "no"),
)
def test_policy_returns_the_observation(policy: Any, error: gx.ParseError, observation: str, log: str) -> None:
    result = run_agent(saying(error), handle_parsing_errors=policy)
    (step,) = result.outcome.steps
    assert (step.action.tool, step.action.tool_input, step.observation) == ("_Exception", observation, observation)
    assert (step.action.log, step.status, result.spent["tool_calls"]) == (log, "parse_error", 0)


def test_false_raises_with_error_and_remedy() -> None:
    with pytest.raises(gx.ParseError, match=r"^no; pass handle_parsing_errors=True") as raised:
        run_agent(saying(SENT))
    assert (raised.value.observation, raised.value.llm_output) == ("Say it again.", "garbage")


LOST = endings.raising(LookupError("of the user"))


@cases(
    ("run", "error", "message"),
    (lambda: run_agent(saying(SENT), handle_parsing_errors=LOST), LookupError, "of the user"),
    (lambda: run_agent(LOST, handle_parsing_errors=True), LookupError, "of the user"),
    # A parse error of the function that trims.
    (
        lambda: run_agent(scripted(answer()), trim_intermediate_steps=endings.raising(gx.ParseError("no"))),
        gx.ParseError,
        "no",
    ),
    (lambda: run_replies(ServerError("busy"), handle_parsing_errors=True), ServerError, "busy"),
    # The one of a stopped run's last reply.
    (lambda: run_replies(ServerError("busy"), **dict[str, Any](GENERATE, max_iterations=0)), ServerError, "busy"),
)
def test_other_exceptions_are_not_parse_errors(run: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        run()


def test_user_tool_may_be_named_exception() -> None:
    mine, called = endings.noting_tool("_Exception", return_direct=True)
    result = run_agent(saying(SENT), tools=[mine], handle_parsing_errors=True)
    assert (result.outcome.output, called) == ("done", [])
