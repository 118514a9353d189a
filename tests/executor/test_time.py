"""The limits of a run. Only the tests of its time use real time: it cuts running calls and keeps finished results."""

import asyncio
import contextlib
import dataclasses
import math
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import graphexec as gx
from graphexec import errors, messages
from graphexec.executor import Ready
from graphexec.executor.result import Ending
from graphexec.models import ScriptedModel
from graphexec.models.scripted import ScriptedReply
from graphexec.runtime import run
from tests.drivers import ALL_DRIVERS, FakeClock, Script, drive_async, drive_sync, limit_of, run_script
from tests.executor import actors
from tests.executor.actors import BlockingModel, act, answer, call, echo, run_executor, scripted
from tests.parameters import cases
from tests.semantics.endings import A, B, run_replies, run_turns, stop_of
from tests.stopwatch import Stopwatch

# The calls before the slow one end in this time on a busy machine, too.
SECONDS = 1.5
AT_MOST = 1.7


def time_run(executor: gx.AgentExecutor, how: str, released: threading.Event) -> tuple[gx.RunResult, Stopwatch]:
    async def time_async() -> tuple[gx.RunResult, Stopwatch]:
        try:
            with Stopwatch() as watch:
                result = await executor.arun("q")
            return result, watch
        finally:
            # Released before asyncio.run waits for running threads.
            released.set()

    if how == "async":
        return asyncio.run(time_async())
    with Stopwatch() as watch:
        result = executor.run("q")
    return result, watch


HOW = pytest.mark.parametrize("how", ["sync", "async"])


def make_slow_tool(kind: str, released: threading.Event) -> actors.AnyTool:
    """Return a tool that takes half a minute, in a thread or in the loop, where it may ignore cancellation."""

    def block() -> str:
        """Take half a minute."""
        released.wait(30)
        return "late"

    async def wait() -> str:
        """Take half a minute."""
        await actors.until(released)
        return "late"

    async def insist() -> str:
        """Take half a minute."""
        while not released.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await actors.until(released)
        return "late"

    functions: dict[str, Any] = {"blocking": block, "async": wait, "stubborn": insist}
    made: actors.AnyTool = gx.tool(name="slow")(functions[kind])
    return made


@pytest.mark.medium
@HOW
@pytest.mark.parametrize("kind", ["blocking", "async", "stubborn"])
def test_slow_tool_is_cut_without_losing_other_results(how: str, kind: str, released: threading.Event) -> None:
    turns = [act("echo", text="before"), [act("echo", text="first"), act("slow"), act("echo", text="last")]]
    executor = gx.AgentExecutor(
        agent=scripted(*turns), tools=[echo, make_slow_tool(kind, released)], max_execution_time=SECONDS
    )
    result, watch = time_run(executor, how, released)
    assert SECONDS <= watch.elapsed < watch.extend(AT_MOST)
    assert result.reason == "seconds"
    assert [step.observation for step in result.steps if step.status == "ok"] == ["before", "first", "last"]
    (cut,) = [step for step in result.steps if step.status == "cut"]
    assert cut.observation.startswith("slow was cut off: the limit of 1.5 seconds was reached")
    assert result.steps[2] is cut
    assert result.stopped is not None
    assert limit_of(result.stopped).value == SECONDS
    assert limit_of(result.stopped).reached >= SECONDS
    assert result.spent["tool_calls"] == 4


@pytest.mark.medium
@cases("how", "sync", "async")
def test_slow_model_is_cut_at_the_deadline(how: str) -> None:
    model = BlockingModel()
    executor = gx.AgentExecutor(agent=gx.create_react_agent(model, [echo]), tools=[echo], max_execution_time=SECONDS)
    try:
        result, watch = time_run(executor, how, model.released)
    finally:
        model.released.set()
    assert SECONDS <= watch.elapsed < watch.extend(AT_MOST)
    assert result.reason == "seconds"
    assert (result.spent["model_calls"], result.spent.iterations, len(result.steps)) == (1, 1, 0)


@pytest.mark.medium
@HOW
def test_slow_callable_agent_is_cut(how: str, released: threading.Event) -> None:
    def decide(steps: Any, inputs: Any) -> Any:
        if steps:
            released.wait(30)
        return act("echo", text="done before")

    executor = gx.AgentExecutor(agent=decide, tools=[echo], max_execution_time=SECONDS)
    result, watch = time_run(executor, how, released)
    assert watch.elapsed < watch.extend(AT_MOST)
    assert [step.observation for step in result.steps] == ["done before"]
    assert result.reason == "seconds"


@pytest.mark.medium
@HOW
def test_queued_calls_do_not_start_after_the_deadline(how: str, released: threading.Event) -> None:
    started: list[int] = []

    @gx.tool
    def slow(number: int) -> int:
        """Take half a minute."""
        started.append(number)
        released.wait(30)
        return number

    batch = [act("slow", number=number) for number in range(5)]
    executor = gx.AgentExecutor(agent=scripted(batch), tools=[slow], max_execution_time=SECONDS, tool_concurrency=2)
    result, _ = time_run(executor, how, released)
    released.set()
    assert sorted(started) == [0, 1]
    assert [step.status for step in result.steps] == ["cut"] * 5


@pytest.mark.parametrize("kind", ["blocking", "async"])
@HOW
def test_timeout_of_a_tool_is_an_observation(how: str, kind: str, released: threading.Event) -> None:
    impatient = dataclasses.replace(make_slow_tool(kind, released), timeout=0.05)
    executor = gx.AgentExecutor(agent=scripted([act("slow"), act("echo", text="a")], answer()), tools=[impatient, echo])
    result, watch = time_run(executor, how, released)
    assert watch.elapsed < watch.extend(0.7)
    assert result.output == "done"
    assert [(step.status, step.observation) for step in result.steps] == [
        ("timed_out", "slow timed out: it did not answer within 0.05 seconds."),
        ("ok", "a"),
    ]


@pytest.mark.parametrize("limit", [None, 20.0])
@HOW
def test_timeout_error_of_a_tool_is_its_error(how: str, limit: float | None, released: threading.Event) -> None:
    @gx.tool
    def blocking() -> str:
        """Fail with a timeout."""
        raise TimeoutError("the socket's")

    @gx.tool
    async def awaiting() -> str:
        """Fail with a timeout."""
        async with asyncio.timeout(0):
            await asyncio.sleep(30)
        return "never"

    agent = scripted([act("blocking"), act("awaiting")], act("blocking"), act("awaiting"), answer())
    executor = gx.AgentExecutor(agent=agent, tools=[blocking, awaiting], max_execution_time=limit)
    result, _ = time_run(executor, how, released)
    assert result.reason == "finished"
    assert [step.observation for step in result.steps] == [
        "blocking failed: TimeoutError: the socket's",
        "awaiting failed: TimeoutError",
    ] * 2


@pytest.mark.parametrize("limit", [None, 20.0])
@HOW
def test_timeout_error_of_a_model_is_raised(how: str, limit: float | None, released: threading.Event) -> None:
    agent = gx.create_react_agent(ScriptedModel([TimeoutError("the model's")]), [])
    executor = gx.AgentExecutor(agent=agent, tools=[], max_execution_time=limit)
    with pytest.raises(TimeoutError, match="the model's"):
        time_run(executor, how, released)


@HOW
def test_deadline_precedes_the_models_own_timeout(how: str, released: threading.Event) -> None:
    class Punctual(BlockingModel):
        """A model that waits for the given timeout, as an HTTP client does, on a clock that is slightly fast."""

        def complete(self, request: Any, *, timeout: float | None = None) -> Any:
            released.wait((timeout or 30) - 0.01)
            raise errors.ModelTimeoutError("the server did not answer in time")

        async def acomplete(self, request: Any, *, timeout: float | None = None) -> Any:
            await asyncio.sleep((timeout or 30) - 0.01)
            raise errors.ModelTimeoutError("the server did not answer in time")

    executor = gx.AgentExecutor(agent=gx.create_react_agent(Punctual(), []), tools=[], max_execution_time=0.3)
    result, _ = time_run(executor, how, released)
    assert result.reason == "seconds"


def test_time_continues_after_a_pause() -> None:
    def script() -> Script[Ready, Ending]:
        clock = FakeClock(1000)

        @gx.tool
        def tick() -> float:
            """Take a second."""
            clock.advance(1)
            return clock.seconds

        limits: dict[str, Any] = {"max_iterations": None, "max_execution_time": 3, "allow_nonterminating": True}
        executor = gx.AgentExecutor(agent=scripted(act("tick")), tools=[tick], **limits)
        context = dataclasses.replace(executor.run_context, clock=clock)
        return dataclasses.replace(actors.script_of(executor), run_context=context)

    result = run_script(script)
    endings = [result.outcome]
    for text in result.texts:
        again = script()
        # Another clock, as in a later process.
        endings.append(run(again.graph, gx.Snapshot.from_json(text, again.graph), again.run_context).outcome)
    for ending in endings:
        assert isinstance(ending, gx.StoppedResponse)
        assert (ending.limit, len(ending.steps)) == (gx.Exhausted("seconds", 3, 3), 3)


def test_cancelled_run_cancels_its_tools() -> None:
    cancelled: list[str] = []

    async def cancelling() -> None:
        started = asyncio.Event()

        @gx.tool
        async def slow() -> str:
            """Take half a minute."""
            started.set()
            try:
                await asyncio.sleep(30)
            except asyncio.CancelledError:
                cancelled.append("slow")
                raise
            return "late"

        executor = gx.AgentExecutor(agent=scripted([act("slow"), act("slow")]), tools=[slow])
        task = asyncio.create_task(executor.arun("q"))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelling())
    assert cancelled == ["slow", "slow"]


@pytest.mark.medium
@cases("how", "run('q')", "arun('q')")
@cases("kind", "def", "async def")
def test_abandoned_tool_does_not_delay_the_exit(how: str, kind: str) -> None:
    wait = "time.sleep(60)" if kind == "def" else "await asyncio.sleep(60)"
    run = f"executor.{how}" if how.startswith("run") else f"asyncio.run(executor.{how})"
    program = f"""
        import asyncio, time
        from graphexec import AgentAction, AgentExecutor, tool

        @tool
        {kind} slow() -> str:
            "Take a minute."
            {wait}
            return "late"

        agent = lambda steps, inputs: AgentAction("slow", {{}})
        executor = AgentExecutor(agent=agent, tools=[slow], max_execution_time=0.1)
        print({run}.reason)
    """
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    assert (done.stdout, done.stderr) == ("seconds\n", "")


# ---- iterations, calls and tokens: exact, charged before the call, and the same however the run is driven

Make = Callable[[ScriptedModel, list[gx.Tool[..., Any]]], gx.Agent]

react, tool_calling = gx.create_react_agent, gx.create_tool_calling_agent
without_rules = partial(gx.create_structured_agent, rules=())
# What a model repeats endlessly.
ENDLESS: dict[str, tuple[Make, ScriptedReply, str]] = {
    "react, the same action": (react, "Action: echo\nAction Input: hi", "ok"),
    "react, garbage": (react, "Well.", "parse_error"),
    "react, an unknown tool": (react, "Action: nope\nAction Input: hi", "unknown_tool"),
    "structured, the same action": (without_rules, '{"action": "echo", "action_input": {"text": "a"}}', "ok"),
    "structured, garbage": (gx.create_structured_agent, "[[[", "parse_error"),
    "tool calling, the same call": (tool_calling, call("echo", text="hi"), "ok"),
    "tool calling, bad arguments": (tool_calling, call("echo", texd="hi"), "bad_arguments"),
    "tool calling, a failing tool": (tool_calling, call("fail", text="hi"), "error"),
}


@pytest.mark.medium
@cases("kind", *ENDLESS)
@cases("allowed", 0, 1, 15)
def test_max_iterations_limits_model_calls_exactly(kind: str, allowed: int) -> None:
    make, reply, status = ENDLESS[kind]
    models: list[ScriptedModel] = []

    def executor() -> gx.AgentExecutor:
        models.append(ScriptedModel([reply], repeat_last=True))
        agent = make(models[-1], [echo, actors.fail])
        options: dict[str, Any] = {"max_iterations": allowed, "handle_parsing_errors": True}
        return gx.AgentExecutor(agent=agent, tools=[echo, actors.fail], **options)

    result = run_executor(executor)
    assert [len(model.requests) for model in models] == [allowed] * len(ALL_DRIVERS)
    assert stop_of(result).limit == gx.Exhausted("iterations", allowed, allowed)
    assert result.outcome.output == "Agent stopped due to iteration limit or time limit."
    assert actors.statuses(result) == [status] * allowed
    assert (result.spent.iterations, result.spent["model_calls"]) == (allowed, allowed)


@pytest.mark.medium
@cases("reply", "Action: echo\nAction Input: hi", "Well.", "Action: nope\nAction Input: x")
def test_a_thousand_iterations_are_a_thousand_model_calls(reply: str) -> None:
    for driver in (drive_sync, drive_async):
        model = ScriptedModel([reply], repeat_last=True)
        agent = make_agent_without_scratchpad(model)
        executor = gx.AgentExecutor(agent=agent, tools=[echo], max_iterations=1000, handle_parsing_errors=True)
        result = driver(actors.script_of(executor))
        assert len(model.requests) == len(result.outcome.steps) == 1000
        assert stop_of(result).limit == gx.Exhausted("iterations", 1000, 1000)


def make_agent_without_scratchpad(model: ScriptedModel) -> gx.Agent:
    """Return an agent whose prompt does not grow with the steps, so that the test is fast."""
    agent = gx.create_react_agent(model, [echo])
    return gx.Agent(lambda run: agent.ask(type(run)(run.inputs)), agent.read, model=model)


NO_LIMIT: dict[str, Any] = {"max_iterations": None, "allow_nonterminating": True}
ONE = dict.fromkeys(("max_iterations", "max_tool_calls", "max_model_calls"), 1)


@pytest.mark.medium
@cases(
    ("turns", "limits", "output", "iterations"),
    # A run may finish in its last iteration, or return directly.
    ([A, B, answer()], {"max_iterations": 3}, "done", 3),
    ([A, B, answer()], {"max_model_calls": 3}, "done", 3),
    ([act("direct", text="a")], ONE, "a", 1),
    # Iterations may be unlimited.
    ([*[A] * 40, answer()], NO_LIMIT, "done", 41),
)
def test_run_may_finish_at_its_limit(turns: Any, limits: dict[str, Any], output: str, iterations: int) -> None:
    result = run_turns(*turns, **limits)
    assert isinstance(result.outcome, gx.AgentFinish)
    assert result.outcome.output == output
    assert result.spent.iterations == result.spent["model_calls"] == iterations


@cases(
    ("name", "allowed", "tool"),
    *(("model_calls", allowed, "echo") for allowed in (0, 1, 4)),
    # Calls that fail count, too.
    *(("tool_calls", allowed, tool) for allowed, tool in [(0, "echo"), (1, "echo"), (4, "fail"), (4, "nope")]),
)
def test_calls_are_limited_exactly(name: str, allowed: int, tool: str) -> None:
    result = run_turns(act(tool, text="a"), max_iterations=50, **{f"max_{name}": allowed})
    assert stop_of(result).limit == gx.Exhausted(name, allowed, allowed)
    assert result.outcome.output == f"Agent stopped due to {name[:-1].replace('_', ' ')} limit."
    assert result.spent[name] == len(result.outcome.steps) == allowed


@cases("run", actors.run_sync, actors.run_async)
def test_fan_out_beyond_the_limit_runs_no_tool(run: Callable[[gx.AgentExecutor], Any]) -> None:
    called: list[int] = []

    @gx.tool
    def note(number: int) -> int:
        """Note the number."""
        called.append(number)
        return number

    batches = [[act("note", number=number) for number in batch] for batch in ((1, 2), (3, 4))]
    result = run(gx.AgentExecutor(agent=scripted(*batches), tools=[note], max_tool_calls=3))
    assert sorted(called) == [1, 2]
    assert result.stopped.limit == gx.Exhausted("tool_calls", 3, 2)
    assert [step.observation for step in result.steps] == [1, 2]
    assert result.spent["tool_calls"] == 2


@cases(("limit", "reached"), (0, 0), (1, 10), (10, 10), (11, 20), (30, 30))
def test_tokens_are_compared_before_each_model_call(limit: int, reached: int) -> None:
    reply = messages.ModelReply("Action: echo\nAction Input: a", usage=messages.Usage(7, 3))
    result = run_replies(*[reply] * 4, max_tokens=limit)
    assert limit_of(result.outcome).reached == reached
    assert result.outcome.output == "Agent stopped due to token limit."


def test_missing_usage_does_not_prevent_the_stop() -> None:
    result = run_replies(*["Well."] * 4, max_tokens=5, max_iterations=4, handle_parsing_errors=True)
    assert stop_of(result).limit == gx.Exhausted("iterations", 4, 4)


@cases(
    ("iterations", "tool_calls", "model_calls", "reason"),
    (3, 2, 9, "tool_calls"),
    (3, 9, 2, "model_calls"),
    (2, 9, 9, "iterations"),
)
def test_first_limit_reached_is_named(iterations: int, tool_calls: int, model_calls: int, reason: str) -> None:
    limits: dict[str, Any] = {"max_tool_calls": tool_calls, "max_model_calls": model_calls}
    executor = gx.AgentExecutor(agent=scripted(A), tools=[echo], max_iterations=iterations, **limits)
    assert executor.run("q").reason == reason


COUNTED = ("iterations", "model_calls", "tool_calls", "tokens")


@cases(
    ("option", "value", "name"),
    *((f"max_{name}", value, name) for name in COUNTED for value in (-1, math.nan, math.inf, True, "3", 1.5, [1])),
    *(("max_execution_time", value, "seconds") for value in (-1, -0.1, math.nan, math.inf, True, "3")),
)
def test_invalid_limit_is_refused_by_name(option: str, value: object, name: str) -> None:
    limits: dict[str, Any] = {option: value}
    with pytest.raises(gx.LimitsError, match=name):
        gx.AgentExecutor(agent=scripted(answer()), tools=[], **limits)


def test_with_limits_returns_another_executor() -> None:
    executor = gx.AgentExecutor(agent=scripted(A), tools=[echo], max_iterations=4)
    shorter = executor.with_limits(gx.Limits(iterations=1))
    assert len(shorter.run("q").steps) == 1
    assert len(executor.run("q").steps) == 4
    assert executor.limits == gx.Limits(iterations=4)
