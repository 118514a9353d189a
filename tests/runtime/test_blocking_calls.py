"""An async run whose calls block in threads: its event loop goes on, and it can be cancelled at any time."""

import asyncio
import threading
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphexec import AgentExecutor, AgentFinish, CallContext, Snapshot, draw, errors, tool
from graphexec.kernel.events import journal_of
from tests.executor import actors
from tests.executor.actors import HOW, run_async, snapshot_in
from tests.parameters import cases
from tests.runtime.actors import LONG, cancel_when, count_abandoned, tool_named
from tests.stopwatch import eventually


def progress_of(error: BaseException) -> tuple[Snapshot, Any]:
    """Return the snapshot and the journal of the run that raised this error."""
    journal = journal_of(error)
    assert journal is not None
    return snapshot_in(error), journal


def ok() -> str:
    return "ok"


def done_in(executor: AgentExecutor) -> int:
    """Run an executor to its end, and return the thread of the event loop."""

    async def main() -> int:
        assert (await executor.arun("?")).output == "done"
        return threading.get_ident()

    return asyncio.run(main())


def steps_of(names: str) -> Callable[[Any, Any], Any]:
    """Return an agent that calls the tools of these names, of one letter each, in turn."""
    return actors.scripted(*map(actors.act, names), actors.answer())


def make_executor(names: str, *tools: Any) -> AgentExecutor:
    return AgentExecutor(agent=steps_of(names), tools=tools, max_iterations=len(names) + 1)


def test_async_functions_are_awaited_on_the_event_loop() -> None:
    # An async tool is awaited on the event loop.
    threads: dict[str, list[int]] = {"a": [], "b": [], "c": []}

    async def awaited() -> None:
        await asyncio.sleep(0)
        threads["b"].append(threading.get_ident())

    one = tool_named("a", lambda: threads["a"].append(threading.get_ident()))
    loop = done_in(make_executor("aabaabaaa", one, tool_named("b", awaited)))
    assert (threads["b"], len(threads["a"])) == ([loop, loop], 7)
    assert loop not in threads["a"]
    # So is the coroutine of an agent.
    decide, used = steps_of("aaaa"), set[int]()

    async def decide_async(steps: Any, inputs: Any) -> Any:
        used.add(threading.get_ident())
        await asyncio.sleep(0)
        return decide(steps, inputs)

    executor = AgentExecutor(
        agent=lambda steps, inputs: decide_async(steps, inputs) if len(steps) > 1 else decide(steps, inputs),
        tools=[tool_named("a", ok)],
    )
    assert used == {done_in(executor)}


def test_cancelled_error_of_an_agent_ends_the_run() -> None:
    decide = steps_of("aaaa")

    async def cancel() -> AgentFinish:
        raise asyncio.CancelledError

    executor = AgentExecutor(
        agent=lambda steps, inputs: cancel() if len(steps) > 2 else decide(steps, inputs), tools=[tool_named("a", ok)]
    )
    with pytest.raises(asyncio.CancelledError):
        run_async(executor)


@cases("limits", {}, {"max_execution_time": 30.0})
@cases("is_async", False, True)
@HOW
def test_next_call_sees_context_variables(run: actors.Running, is_async: bool, limits: dict[str, Any]) -> None:
    """In whatever thread or task each of them runs; calls at once have their own."""
    variable = ContextVar("variable", default=0)
    seen: list[int] = []

    def change() -> None:
        """Change it."""
        seen.append(variable.get())
        variable.set(variable.get() + 1)

    async def change_async() -> None:
        """Change it."""
        change()

    one = tool(name="change")(change_async if is_async else change)
    variable.set(7)
    run(actors.make_executor(*[actors.act("change")] * 3, actors.answer(), tools=[one], **limits))
    assert (seen, variable.get()) == ([7, 8, 9], 7)


@cases("limits", {}, {"max_execution_time": 30.0})
def test_async_functions_of_a_sync_run_share_a_loop(limits: dict[str, Any]) -> None:
    """What one has opened serves the next; behind the run, the loop is closed."""
    loops: list[asyncio.AbstractEventLoop] = []
    opened: list[asyncio.Future[str]] = []

    @tool
    async def use() -> str:
        """Use the connection."""
        loops.append(asyncio.get_running_loop())
        if not opened:
            opened.append(loops[0].create_future())
            loops[0].call_later(0.001, opened[0].set_result, "from the first call")
            return "opened"
        return await opened[0]

    result = actors.make_executor(*[actors.act("use")] * 2, actors.answer(), tools=[use], **limits).run("q")
    assert [step.observation for step in result.steps] == ["opened", "from the first call"]
    assert loops[0] is loops[1]
    assert loops[0].is_closed()


@cases("place", 0, 1, 2, 4)
def test_cancelled_run_ends_at_once(place: int) -> None:
    entered, free, ended = threading.Event(), threading.Event(), threading.Event()
    calls: list[int] = []

    @tool(name="a")
    def hold(call: CallContext[None]) -> str:
        """Wait at one place."""
        calls.append(1)
        if len(calls) == place + 1:
            entered.set()
            free.wait(LONG)
            assert call.closed
            ended.set()
        return "ok"

    async def main() -> BaseException:
        began = time.monotonic()
        error = await cancel_when(asyncio.to_thread(entered.wait, LONG), make_executor("aaaaa", hold).arun("?"))
        assert time.monotonic() - began < LONG / 2
        # The call is still running.
        assert not ended.is_set()
        return error

    error = asyncio.run(main())
    snapshot, journal = progress_of(error)
    records = [*draw.recording_of(journal).records]
    free.set()
    assert ended.wait(LONG)
    # The abandoned loop ends, and changes nothing.
    again = run_async(make_executor("aaaaa", tool_named("a", ok)), snapshot)
    assert (again.output, len(again.steps), len(calls)) == ("done", 5, place + 1)
    assert [*draw.recording_of(journal).records] == records


def run_and_cancel(length: int, place: int, when: Any) -> tuple[AgentExecutor, list[int], Any]:
    """Run as many calls of a tool, the one at this place with `when`; return the executor, the calls and the end."""
    calls: list[int] = []
    running: list[asyncio.Task[Any]] = []

    def call() -> str:
        calls.append(1)
        if len(calls) == place:
            when(running[0])
        return "ok"

    executor = make_executor("a" * length, tool_named("a", call))

    async def main() -> Any:
        running.append(asyncio.create_task(executor.arun("?")))
        try:
            return await running[0]
        except asyncio.CancelledError as error:
            return error

    return executor, calls, asyncio.run(main())


@given(place=st.integers(1, 50), after=st.floats(0, 0.001))
@settings(deadline=None)
def test_run_cancelled_at_any_time_can_go_on(place: int, after: float) -> None:
    def cancel_soon(task: asyncio.Task[Any]) -> None:
        loop = task.get_loop()
        loop.call_soon_threadsafe(lambda: loop.call_later(after, task.cancel))

    executor, _, end = run_and_cancel(60, place, cancel_soon)
    if isinstance(end, asyncio.CancelledError):
        snapshot, journal = progress_of(end)
        assert draw.recording_of(journal).records
        end = run_async(executor, snapshot)
    # Some end before they are cancelled.
    assert (end.output, len(end.steps)) == ("done", 60)


@cases("option", "observers", "trim_intermediate_steps", "handle_parsing_errors", "handle_tool_errors", "on_error")
def test_functions_of_the_user_run_on_the_event_loop(option: str) -> None:
    threads: set[int] = set()
    decide = steps_of("aaaa")

    def note(given: Any) -> Any:
        threads.add(threading.get_ident())
        return given if option == "trim_intermediate_steps" else "noted"

    def fail() -> str:
        raise LookupError("no")

    def decide_or_raise(steps: Any, inputs: Any) -> Any:
        if len(steps) == 2 and option == "handle_parsing_errors":
            raise errors.ParseError("unreadable")
        return decide(steps, inputs)

    policy = note if option == "on_error" else None
    one = tool_named("a", fail, on_error=policy)
    options: dict[str, Any] = {} if policy else {option: [note] if option == "observers" else note}
    assert threads == {done_in(AgentExecutor(agent=decide_or_raise, tools=[one], **options))}


@cases("place", 1, 2, 3, 5, 9)
@cases("waits", True, False)
def test_journal_and_snapshot_of_a_cancelled_run_agree(place: int, waits: bool) -> None:
    cancelled = threading.Event()

    def cancel(task: asyncio.Task[Any]) -> None:
        loop = task.get_loop()
        loop.call_soon_threadsafe(task.cancel)
        loop.call_soon_threadsafe(cancelled.set)
        if waits:
            assert cancelled.wait(LONG)

    executor, calls, end = run_and_cancel(9, place, cancel)
    assert isinstance(end, asyncio.CancelledError)
    snapshot, journal = progress_of(end)
    # The call that the abandoned loop is in may have just begun.
    eventually(lambda: not count_abandoned())
    begun = len(calls)
    replies = [one for record in draw.recording_of(journal).records for one in record.get("replies", ())]
    again = run_async(executor, snapshot)
    assert (again.output, len(again.steps)) == ("done", 9)
    # Only a call without an answer is made again.
    assert len(calls) - begun == 9 - len([one for one in replies if "observation" in one])
