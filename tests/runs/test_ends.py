"""Stored runs that end early in their own process: an exception, an interrupt, a cancellation, a closed stream."""

import asyncio
import json
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import pytest

import graphexec as gx
from graphexec import AgentExecutor, create_agent, tool
from graphexec.effects import AskHuman
from graphexec.kernel import Answered
from graphexec.messages import ModelReply, ToolCall, ToolMessage
from graphexec.runs import RunChangedError, SQLiteRuns
from tests.kernel.machines import machine_of
from tests.stopwatch import eventually


@dataclass(frozen=True)
class Ring(gx.Effect[None]):
    """Ring a bell."""


@final
@dataclass(frozen=True)
class Votes:
    """Two answers, and the reply to the bell."""

    replies: tuple[str | None, ...]


def stop(start: str, limit: gx.Exhausted) -> Votes:
    """Return no votes."""
    return Votes((start, str(limit)))


@gx.node(when_spent=stop)
def vote(start: str) -> gx.Asks[AskHuman | Ring, Votes]:
    """Ask two people and ring."""
    del start
    # mypy does not infer the reply of one or the other.
    asked: list[Any] = [AskHuman("a"), Ring(), AskHuman("b")]
    return Votes(tuple((yield from gx.ask_all(asked))))


COUNCIL = machine_of(vote)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SQLiteRuns]:
    """Return a store of this test."""
    with SQLiteRuns(tmp_path / "runs.db") as made:
        yield made


def agent(*rounds: str, tools: list[Any], **options: Any) -> AgentExecutor[Any]:
    """Return an agent that calls these tools by name, a round at a time, and answers with what it has observed."""
    arguments = {"inner": '{"input": "q"}'}

    def model(request: Any) -> ModelReply:
        done = [str(message.content) for message in request.messages if isinstance(message, ToolMessage)]
        left = len(done)
        for names in map(str.split, rounds):
            if not left:
                return ModelReply(
                    "", tuple(ToolCall(f"{one}{len(done)}", one, arguments.get(one, "{}")) for one in names)
                )
            left -= len(names)
        return ModelReply(" | ".join(done))

    return create_agent(model, tools, kind="tool_calling", **options)


def tools_that(calls: list[str], **acts: Callable[[], object]) -> list[Any]:
    """Return a tool for each function, by its name, that notes its calls."""

    def make(name: str, act: Callable[[], object]) -> Any:
        @tool(name=name, repeatable=True)
        def work() -> object:
            """Work."""
            calls.append(name)
            return act()

        return work

    return [make(name, act) for name, act in acts.items()]


def once(act: Callable[[], object]) -> Callable[[], object]:
    """Return a function that does this at its first call, and then returns "again"."""
    acts = [act]
    return lambda: acts.pop()() if acts else "again"


def raising(error: BaseException) -> Callable[[], object]:
    """Return a function that raises this at its first call."""

    def act() -> object:
        raise error

    return once(act)


def drive(executor: AgentExecutor[Any], store: SQLiteRuns, *, is_async: bool) -> Any:
    """Return what the run `r` of this store returns."""
    if is_async:
        return asyncio.run(executor.arun("q", runs=store, run_id="r"))
    return executor.run("q", runs=store, run_id="r")


def count_replies(path: Path) -> int:
    """Return the number of replies that another connection sees in the file."""
    with closing(sqlite3.connect(path)) as database:
        rows = [json.loads(data) for (data,) in database.execute("SELECT data FROM graphexec_log")]
    return sum(entry[0] == "reply" for _, *entries in rows for entry in entries)


@pytest.mark.medium
@pytest.mark.parametrize("is_async", [False, True])
def test_a_call_that_raises_in_a_batch_is_made_again(store: SQLiteRuns, *, is_async: bool) -> None:
    """And charged again; the other two keep their replies."""
    calls: list[str] = []

    def fail() -> object:
        eventually(lambda: count_replies(store.path) == 3)  # The model's, and those of the other two.
        raise ValueError("no")

    tools = tools_that(calls, one=lambda: "1", two=once(fail), three=lambda: "3")
    executor = agent("one two three", tools=tools, handle_tool_errors="raise")
    with pytest.raises(ValueError, match="no"):
        drive(executor, store, is_async=is_async)
    result = drive(executor, store, is_async=is_async)
    assert sorted(calls) == ["one", "three", "two", "two"]
    assert (result.output, result.spent["tool_calls"]) == ("1 | again | 3", 4)


@pytest.mark.parametrize("names", ["stop", "one stop"])
def test_an_interrupted_call_is_in_doubt(store: SQLiteRuns, names: str) -> None:
    calls: list[str] = []
    executor = agent("one", names, tools=tools_that(calls, one=lambda: "1", stop=raising(KeyboardInterrupt())))
    with pytest.raises(KeyboardInterrupt):
        drive(executor, store, is_async=False)
    assert store.get("r").status == "failed"
    assert "stop was interrupted" in drive(executor, store, is_async=False).output
    assert calls.count("stop") == 1


@pytest.mark.medium
def test_an_interrupted_run_keeps_its_clock(store: SQLiteRuns) -> None:
    executor = agent("stop", tools=tools_that([], stop=raising(KeyboardInterrupt())))

    def wait() -> object:
        time.sleep(0.2)
        raise KeyboardInterrupt

    executor = agent("stop", tools=tools_that([], stop=once(wait)))
    with pytest.raises(KeyboardInterrupt):
        drive(executor, store, is_async=False)
    assert drive(executor, store, is_async=False).spent.seconds >= 0.2


async def cancel(executor: AgentExecutor[Any], store: SQLiteRuns, begun: asyncio.Event) -> None:
    """Cancel the run `r` when the event is set."""
    task = asyncio.create_task(executor.arun("q", runs=store, run_id="r"))
    await asyncio.wait_for(begun.wait(), 20)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_a_cancelled_run_goes_on(store: SQLiteRuns) -> None:
    calls: list[str] = []
    begun = asyncio.Event()

    @tool
    async def hang() -> str:
        """Hang."""
        calls.append("hang")
        begun.set()
        await asyncio.sleep(60)
        return ""

    executor = agent("one", "hang", tools=[hang, *tools_that(calls, one=lambda: "1")])
    asyncio.run(cancel(executor, store, begun))
    assert "hang was interrupted" in drive(executor, store, is_async=True).output
    assert calls == ["one", "hang"]


@pytest.mark.medium
def test_a_busy_file_does_not_block_the_loop(store: SQLiteRuns) -> None:
    """A run that is cancelled while it is opened, or while it writes, is free when that is over."""
    calls: list[str] = []
    held, released = threading.Event(), threading.Event()
    executor = agent("one", "one", tools=tools_that(calls, one=lambda: held.wait(20)))

    def hold() -> None:
        with closing(sqlite3.connect(store.path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            held.set()
            assert released.wait(20)
            other.execute("COMMIT")

    async def cancel_while_busy(*, is_begun: bool) -> None:
        holder = asyncio.create_task(asyncio.to_thread(hold))
        if not is_begun:
            await asyncio.to_thread(held.wait)
        task = asyncio.create_task(executor.arun("q", runs=store, run_id="r"))
        # The loop goes on while the run waits for the file.
        await asyncio.to_thread(held.wait)
        for _ in range(50):
            await asyncio.sleep(0.001)
        assert not task.done()
        released.set()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await holder

    for is_begun in (False, True):
        held.clear()
        released.clear()
        asyncio.run(cancel_while_busy(is_begun=is_begun))
        eventually(lambda: all(one.status == "failed" for one in store.list()))
    # A call that was being stored is in doubt, although it did not begin.
    output = drive(executor, store, is_async=True).output
    assert len(calls) + output.count("was interrupted") == 2, (calls, output)


def test_a_closed_stream_goes_on(store: SQLiteRuns) -> None:
    calls: list[str] = []
    executor = agent("one", "two", "one", tools=tools_that(calls, one=lambda: "1", two=lambda: "2"))
    for closed_after in (1, 2, 4, 99):
        stream = executor.stream("q", runs=store, run_id="r")
        answers = 0
        for event in stream:
            answers += isinstance(event, Answered)
            if answers == closed_after:
                stream.close()
    assert drive(executor, store, is_async=False).output == "1 | 2 | 1"
    assert calls == ["one", "two", "one"]


def test_a_stalled_consumer_holds_no_reply(store: SQLiteRuns) -> None:
    """What a stream has yielded is in the file, however long its consumer waits."""
    executor = agent("one two", "one", tools=tools_that([], one=lambda: "1", two=lambda: "2"))
    answers = 0
    for event in executor.stream("q", runs=store, run_id="r"):
        answers += isinstance(event, Answered)
        assert count_replies(store.path) >= answers
    assert answers == 6


def test_an_executor_in_a_tool_is_no_run_of_its_own(store: SQLiteRuns) -> None:
    """Unless it has an id; its calls are charged, and its reply is stored."""
    calls: list[str] = []
    inner = agent("one", tools=tools_that(calls, one=lambda: "1"))
    tools = tools_that(calls, nested=lambda: inner.run("q").output, stop=raising(KeyboardInterrupt()))
    executor = agent("nested", "stop", tools=tools)
    with pytest.raises(KeyboardInterrupt):
        drive(executor, store, is_async=False)
    result = drive(executor, store, is_async=False)
    assert result.output.startswith("1 | stop was interrupted")
    assert (calls, result.spent["tool_calls"]) == (["nested", "one", "stop"], 3)
    assert [one.run_id for one in store.list()] == ["r"]


@pytest.mark.parametrize("is_batch", [False, True])
def test_a_nested_run_that_has_changed_ends_all(store: SQLiteRuns, *, is_batch: bool) -> None:
    """The error is no observation of the tool that it is for the run around it."""

    def make(**acts: Callable[[], object]) -> AgentExecutor[Any]:
        inner = agent("stop", tools=tools_that([], **acts)).as_tool("inner", "Work.")
        return agent("inner one" if is_batch else "inner", tools=[inner, *tools_that([], one=lambda: "1")])

    with pytest.raises(KeyboardInterrupt):
        drive(make(stop=raising(KeyboardInterrupt())), store, is_async=False)
    with pytest.raises(RunChangedError, match="the tool other is new") as caught:
        drive(make(stop=lambda: "", other=lambda: ""), store, is_async=False)
    assert gx.snapshot_of(caught.value) is not None
    assert "stop was interrupted" in drive(make(stop=lambda: ""), store, is_async=False).output


@pytest.mark.parametrize("is_async", [False, True])
def test_an_effect_beside_two_questions_is_carried_out(store: SQLiteRuns, *, is_async: bool) -> None:
    """Once, before the run waits; the questions are answered one by one."""
    rung: list[Ring] = []
    options: Any = {"runs": store, "run_id": "r", "handlers": {Ring: rung.append}}
    for answered, left in (("", "ab"), ("b", "a"), ("a", "")):
        for question in store.questions("r"):
            if question.text == answered:
                assert store.reply("r", question.key, f"yes {answered}")
        result: Any = asyncio.run(COUNCIL.arun("go", **options)) if is_async else COUNCIL.run("go", **options)
        assert len(rung) == 1
        assert [one.text for one in result.questions] == [*left] if left else result.outcome
    assert result.outcome == Votes(("yes a", None, "yes b"))
