"""The user's own code is called under scripted models: what keeps its promises passes, and what does not is named."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from dataclasses import dataclass
from typing import Any, final

import pytest

import graphexec as gx
from graphexec.effects import CallTool, ToolResult
from graphexec.errors import InputError, ParseError
from graphexec.memory import BufferMemory, SummaryMemory
from graphexec.testing import ScriptedModel, verify_termination
from graphexec.testing.own_code import watchdog
from graphexec.testing.own_code.watchdog import HangError, Watchdog
from graphexec.tools import AnyTool
from graphexec.verify.explorer.oracle import Replies
from tests.parameters import cases
from tests.stopwatch import Stopwatch


@gx.tool
def add(first: int, second: int) -> int:
    """Add two numbers."""
    return first + second


def executor_of(*tools: AnyTool, **settings: Any) -> gx.AgentExecutor:
    chosen: dict[str, Any] = {"max_iterations": 4, "max_tool_calls": 6, "handle_parsing_errors": True, **settings}
    agent = gx.create_tool_calling_agent(ScriptedModel([]), tools)
    return gx.AgentExecutor(agent=agent, tools=tools, **chosen)


def test_tools_are_called_with_arguments_that_fit() -> None:
    seen: set[int] = set()

    @gx.tool
    def note(number: int) -> str:
        """Take a note."""
        seen.add(number)
        return "noted"

    verify_termination(executor_of(note), examples=5)
    assert seen == {1}


def test_a_tool_with_replies_is_not_called() -> None:
    @gx.tool
    def pay(amount: int) -> str:
        """Pay."""
        raise SystemExit(amount)

    verify_termination(executor_of(pay), replies={CallTool: [ToolResult("paid")]}, examples=5)


@cases("as_messages", [True, False])
def test_a_memory_may_remember(as_messages: bool) -> None:
    agent = gx.create_tool_calling_agent(ScriptedModel([]), [add])
    if not as_messages:
        template = "{tools} {tool_names} {chat_history} {input} {agent_scratchpad}"
        agent = gx.create_react_agent(ScriptedModel([]), [add], prompt=template)
    memory = BufferMemory(as_messages=as_messages)
    made = gx.AgentExecutor(agent=agent, tools=[add], memory=memory, max_iterations=3, handle_parsing_errors=True)
    verify_termination(made, examples=5)


def test_stateful_tools_may_remember() -> None:
    numbers = itertools.count()

    @gx.tool
    def ticket() -> int:
        """Draw a number."""
        return next(numbers)

    with pytest.raises(AssertionError, match=r"the tool ticket differs between runs: .* pass stateful=\('ticket',\)"):
        verify_termination(executor_of(ticket), examples=5)
    verify_termination(executor_of(ticket), examples=5, stateful=["ticket"])


@dataclass(frozen=True)
class User:
    name: str


def test_runs_are_given_their_context() -> None:
    @gx.tool
    def greet(call: gx.CallContext[User]) -> str:
        """Greet the user."""
        return call.context.name

    verify_termination(executor_of(greet), context=User("Ann"), examples=5)


def test_an_observer_that_raises_is_named() -> None:
    def count(event: object) -> None:
        raise KeyError(type(event).__name__)

    with pytest.raises(
        AssertionError, match=r"plan: the observer \S*count raises KeyError\('Entered'\) at \S*test_own"
    ):
        verify_termination(executor_of(add, observers=[count]), examples=5)


def test_failing_script_is_shortened() -> None:
    def decide(steps: Any, inputs: Any) -> Any:
        if [step.status for step in steps] == ["ok", "error"]:
            raise KeyError("late")
        return gx.AgentAction("add", {"first": 1, "second": 1})

    made = gx.AgentExecutor(agent=decide, tools=[add], max_iterations=4)
    results: Replies = {CallTool: [ToolResult("done"), ToolResult("it failed", "error")]}
    with pytest.raises(AssertionError) as raised:
        verify_termination(made, replies=results, examples=20)
    assert "with the replies results=(ToolResult 1, ToolResult 2); " in str(raised.value)


@final
@dataclass(frozen=True)
class Draft:
    length: int = 0


@final
@dataclass(frozen=True)
class Whole:
    pass


@final
@dataclass(frozen=True)
class Ended:
    draft: Draft
    limit: gx.Exhausted


def test_a_late_failure_of_a_graph_is_found() -> None:
    @gx.metered(when_spent=Ended)
    @gx.node
    def extend(draft: Draft) -> Draft | Whole:
        if draft.length == 11:
            raise OverflowError("twelfth")
        return Draft(draft.length + 1) if draft.length < 20 else Whole()

    longer = gx.graph(
        gx.edges(extend, gx.on(Draft, extend) | gx.on(Whole, gx.END) | gx.on(Ended, gx.END)), start=extend
    )
    with pytest.raises(AssertionError, match=r"extend raises OverflowError\('twelfth'\)"):
        verify_termination(longer, start=Draft(), examples=5)


@cases("patience", [0, -1, "soon"])
def test_invalid_patience_is_refused(patience: Any) -> None:
    with pytest.raises(InputError, match="patience"):
        verify_termination(executor_of(add), patience=patience)


def test_slow_check_without_user_code_is_not_interrupted() -> None:
    def check() -> str:
        time.sleep(0.3)
        return "done"

    assert Watchdog(0.1).run(check) == "done"


@pytest.mark.medium
def test_code_of_a_tracer_is_not_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tracer of coverage acquires a lock in Python code, which every other thread needs."""
    held = threading.Lock()
    tracer: dict[str, Any] = {"__name__": "tracing.collector", "held": held}
    source = "def trace():\n    held.acquire()\n    for _ in range(2_000):\n        pass\n    held.release()\n"
    exec(compile(source, "/usr/lib/site-packages/tracing/collector.py", "exec"), tracer)
    monkeypatch.setattr(watchdog, "_tracing_package", lambda: "tracing")

    def decide(steps: Any, inputs: Any) -> Any:
        while True:
            tracer["trace"]()
            for _ in range(500):
                pass

    made = gx.AgentExecutor(agent=decide, tools=[add], max_iterations=2)
    for _ in range(5):
        with pytest.raises(HangError):
            Watchdog(0.05).run(lambda: made.run("q"))
        assert held.acquire(timeout=10)
        held.release()


# A busy machine may let a thread wait for its turn while it is looked at.
@cases("looks_without_a_turn", [0, 8])
def test_hanging_code_is_interrupted(looks_without_a_turn: int, monkeypatch: pytest.MonkeyPatch) -> None:
    turns, looks, used_time = [0], itertools.count(), watchdog._used_time  # pyright: ignore[reportPrivateUsage]

    def seen_time(ident: int) -> float:
        return 0.0 if next(looks) < looks_without_a_turn else used_time(ident)

    monkeypatch.setattr(watchdog, "_used_time", seen_time)

    def decide(steps: Any, inputs: Any) -> Any:
        while True:
            turns[0] += 1

    made = gx.AgentExecutor(agent=decide, tools=[add], max_iterations=2)
    with pytest.raises(HangError, match=r"does not return: it is at \S+ in \S*decide"):
        Watchdog(0.2).run(lambda: made.run("q"))
    time.sleep(0.3)
    last = turns[0]
    time.sleep(0.1)
    assert turns[0] == last


def test_code_that_sleeps_is_not_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    raised: list[int] = []

    def note(ident: int, hangs: object) -> None:
        raised.append(ident)

    monkeypatch.setattr(watchdog, "_raise_in", note)
    released = threading.Event()

    def decide(steps: Any, inputs: Any) -> Any:
        while not released.wait(0.2):
            pass
        return gx.AgentFinish({})

    made = gx.AgentExecutor(agent=decide, tools=[add], max_iterations=2)
    with pytest.raises(HangError):
        Watchdog(0.2).run(lambda: made.run("q"))
    released.set()
    assert raised == []


def test_hang_in_a_library_names_the_users_line() -> None:
    library: dict[str, Any] = {"__name__": "library"}
    source = "def spin(done):\n    while not done():\n        pass\n"
    exec(compile(source, "/usr/lib/site-packages/library.py", "exec"), library)
    turns = itertools.count()

    def decide(steps: Any, inputs: Any) -> Any:
        return library["spin"](lambda: next(turns) < 0)

    made = gx.AgentExecutor(agent=decide, tools=[add], max_iterations=2)
    with pytest.raises(HangError, match=r"it is at \S+test_own_code\.py:\d+ in \S*decide"):
        Watchdog(0.2).run(lambda: made.run("q"))


def test_an_exception_of_a_check_is_raised() -> None:
    def check() -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError):
        Watchdog().run(check)


def test_a_finish_needs_no_step_for_its_actions() -> None:
    verify_termination(gx.AgentExecutor(agent=lambda steps, inputs: gx.AgentFinish({}), tools=[]), examples=3)


def test_nested_runs_within_a_set_limit_pass() -> None:
    def decide(steps: Any, inputs: Any) -> Any:
        return gx.AgentFinish({"output": "done"}) if steps else gx.AgentAction("add", {"first": 1, "second": 1})

    inner = gx.AgentExecutor(agent=decide, tools=[add], max_iterations=3)

    @gx.tool
    def helper(text: str) -> str:
        """Helps."""
        return str(inner.run(text).output)

    with pytest.raises(
        AssertionError,
        match=r"the tool helper charges model calls that the proof does not count: .*; set max_model_calls",
    ):
        verify_termination(executor_of(helper), examples=5)
    verify_termination(executor_of(helper, max_model_calls=10), examples=5)
    # What it charges is known, and part of the bound.
    verify_termination(executor_of(inner.as_tool("helper", "Helps.")), examples=5)


def test_memory_model_calls_are_outside_the_bounds() -> None:
    """It is one of the assumptions of the proof, which the bound on model calls says."""
    memory = SummaryMemory(ScriptedModel(["They talked."] * 500))
    agent = gx.AgentExecutor(agent=lambda steps, inputs: gx.AgentFinish({"output": "done"}), tools=[], memory=memory)
    verify_termination(agent, examples=3)


def test_allowed_error_ends_a_run() -> None:
    """A wait of eight virtual seconds is not repeated in a sync run, even if the run fails."""

    @gx.tool
    async def ponder(text: str) -> str:
        """Think for long."""
        await asyncio.sleep(8)
        raise KeyError(text)

    executor = gx.AgentExecutor(agent=decide_twice, tools=[ponder], handle_tool_errors="raise")
    with Stopwatch() as watch:
        verify_termination(executor, examples=5, raises=(KeyError, ParseError))
    assert watch.elapsed < watch.extend(8)


def decide_twice(steps: Any, inputs: Any) -> Any:
    return gx.AgentFinish({"output": "done"}) if len(steps) > 1 else gx.AgentAction("ponder", {"text": "a"})


@cases(
    ("given", "text"),
    [
        ("add", r"stateful is 'add'; give a list of names: \['add'\]"),
        (["addd"], "neither a tool nor a node; did you mean add?"),
    ],
)
def test_names_that_are_not_known_are_refused(given: Any, text: str) -> None:
    with pytest.raises(InputError, match=text):
        verify_termination(executor_of(add), stateful=given, examples=1)
