"""A run with a deadline: control returns at the deadline, nothing is lost, and late code stops."""

import ast
import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import graphexec as gx
from graphexec.effects import MODEL_CALLS, TOOL_CALLS
from graphexec.kernel.events import journal_of
from graphexec.runtime import RunContext, run
from graphexec.runtime.handlers import handlers_for
from graphexec.runtime.threads import count_abandoned
from tests.drivers import Driver, FakeClock, Script, drive_async, drive_sync
from tests.executor.actors import (
    AnyTool,
    BlockingModel,
    Running,
    act,
    answer,
    caller_of,
    make_executor,
    run_sync,
    snapshot_after,
    snapshot_in,
    until,
)
from tests.kernel.machines import INTERVIEW, Interview, Question, Stopped, Topic, machine_of
from tests.parameters import cases
from tests.runtime.actors import HOW, LONG, tool_named
from tests.stopwatch import Stopwatch, eventually

# Seconds of the deadlines, before which the first calls of a run end on a busy machine, too.
SECONDS = 0.75


def calls_tool(steps: Any, inputs: Mapping[str, Any]) -> Any:
    del inputs
    return gx.AgentFinish({"output": "done"}) if len(steps) > 2 else gx.AgentAction("work", {})


def works(tool: AnyTool, **options: Any) -> gx.AgentExecutor:
    return gx.AgentExecutor(agent=calls_tool, tools=[tool], **options)


# ---- control returns


@pytest.mark.medium
@HOW
@cases("kind", "def", "async def")
def test_control_returns_from_a_tool(run: Running, kind: str) -> None:
    released = threading.Event()

    async def stubborn() -> None:
        while not released.is_set():
            with suppress(asyncio.CancelledError):
                await until(released)

    one = tool_named("work", stubborn if kind == "async def" else lambda: released.wait(LONG))
    executor = works(one, max_execution_time=SECONDS)

    async def timed() -> tuple[Any, Stopwatch]:
        # The event loop waits for a task that ignores its cancellation, so the time is taken within.
        with Stopwatch() as watch:
            result = await executor.arun("q")
        released.set()
        return result, watch

    if run is run_sync:
        with Stopwatch() as watch:
            result = executor.run("q")
        released.set()
    else:
        result, watch = asyncio.run(timed())
    assert (result.reason, result.spent[TOOL_CALLS]) == ("seconds", 1)
    assert SECONDS <= watch.elapsed < watch.extend(SECONDS + 1)


@pytest.mark.medium
@HOW
def test_control_returns_from_a_model(run: Running) -> None:
    model = BlockingModel()
    result = run(caller_of(model, max_execution_time=SECONDS))
    model.released.set()
    assert (result.reason, result.spent[MODEL_CALLS]) == ("seconds", 1)


class Hanging:
    """A memory that hangs in the given method."""

    keys = ("history",)

    def __init__(self, where: str, released: threading.Event) -> None:
        self.where = where
        self.released = released

    def load(self, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        if self.where == "load":
            self.released.wait(LONG)
        return {"history": ""}

    def save(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
        if self.where == "save":
            self.released.wait(LONG)

    async def aload(self, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        if self.where == "load":
            await until(self.released)
        return {"history": ""}

    async def asave(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
        if self.where == "save":
            await until(self.released)


@pytest.mark.medium
@HOW
@cases("where", "load", "save")
def test_control_returns_from_a_memory(run: Running, where: str, released: threading.Event) -> None:
    memory = Hanging(where, released)
    executor = make_executor(answer("the answer"), tools=[], memory=memory, max_execution_time=SECONDS)
    with Stopwatch() as watch:
        result = run(executor)
    assert watch.elapsed < watch.extend(SECONDS + 1)
    assert (result.output == "the answer") is (where == "save")
    assert (result.reason == "seconds") is (where == "load")


# ---- late code stops


@pytest.mark.medium
@HOW
def test_a_late_call_is_followed_by_nothing(run: Running) -> None:
    """A tool that returns after the cut would be followed by a payment."""
    paid: list[str] = []
    released, returned = threading.Event(), threading.Event()

    def look() -> None:
        released.wait(LONG)
        returned.set()

    tools = [tool_named("look", look), tool_named("pay", lambda: paid.append("paid"))]
    executor = make_executor(act("look"), act("pay"), tools=tools, max_execution_time=SECONDS, max_iterations=5)
    before = count_abandoned()
    result = run(executor)
    assert [step.status for step in result.steps] == ["cut"]
    released.set()
    assert returned.wait(LONG)
    eventually(lambda: count_abandoned() <= before)
    assert paid == []
    assert [step.status for step in result.steps] == ["cut"]


@pytest.mark.medium
@HOW
def test_a_cut_keeps_the_answers_before_it(run: Running) -> None:
    calls, released = list[int](), threading.Event()

    def work() -> None:
        calls.append(len(calls))
        if len(calls) == 2:
            released.wait(LONG)

    result = run(works(tool_named("work", work), max_execution_time=SECONDS))
    released.set()
    assert [step.status for step in result.steps] == ["ok", "cut"]
    assert result.spent[TOOL_CALLS] == 2


@cases("drive", drive_sync, drive_async)
def test_a_clock_that_stands_still_cuts_nothing(drive: Driver) -> None:
    clock = FakeClock()

    def answer(question: Question) -> str:
        clock.advance(4)
        return question.text

    context = RunContext(handlers_for({Question: answer}), gx.Limits(seconds=10), clock=clock)
    done = drive(Script(INTERVIEW, Topic("tea", 9), context))
    assert isinstance(done.outcome, Stopped)
    assert done.spent.seconds == 12


# ---- exceptions and interrupts


@cases("drive", drive_sync, drive_async)
def test_an_error_has_snapshot_and_journal(drive: Driver) -> None:
    def fail(question: Question) -> str:
        if question.text.startswith("tea 2"):
            raise OSError("it broke")
        return question.text

    context = RunContext(handlers_for({Question: fail}), gx.Limits(seconds=LONG))
    with pytest.raises(OSError, match="it broke") as caught:
        drive(Script(INTERVIEW, Topic("tea"), context))
    snapshot, journal = snapshot_in(caught.value), journal_of(caught.value)
    assert journal is not None
    assert len(snapshot.replies) == len(journal) == 2
    again = gx.Snapshot.from_json(snapshot.to_json(), INTERVIEW)
    asked: list[str] = []

    def answer(question: Question) -> str:
        asked.append(question.text)
        return "fine"

    run(INTERVIEW, again, RunContext(handlers_for({Question: answer}), gx.Limits()))
    assert asked == ["tea 2 2"]


def interrupt_caller() -> None:
    """Interrupt the main thread, which waits for the run."""
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


def test_an_interrupt_stops_at_the_next_call(released: threading.Event) -> None:
    calls: list[int] = []
    ended = threading.Event()

    def work() -> None:
        calls.append(1)
        interrupt_caller()
        released.wait(LONG)
        ended.set()

    before = count_abandoned()
    executor = works(tool_named("work", work), max_execution_time=LONG)
    snapshot = snapshot_after(KeyboardInterrupt, lambda: executor.run("q"))
    assert count_abandoned() == before + 1
    released.set()
    assert ended.wait(LONG)
    eventually(lambda: count_abandoned() <= before)
    assert calls == [1]
    assert snapshot.spent[TOOL_CALLS] == 1


def test_an_interrupt_in_a_node_begins_no_call(released: threading.Event) -> None:
    """The loop is in the engine when the caller is cancelled; its next call does not begin."""
    begun: list[str] = []

    @gx.charged(when_spent=Stopped)
    @gx.node
    def think(topic: Topic) -> gx.Asks[Question, Interview]:
        yield from gx.ask(Question("first"))
        interrupt_caller()
        released.wait(LONG)
        yield from gx.ask(Question("second"))
        return Interview(())

    machine = machine_of(think)

    def answer(question: Question) -> str:
        begun.append(question.text)
        return "fine"

    before = count_abandoned()
    context = RunContext(handlers_for({Question: answer}), gx.Limits(seconds=LONG))
    snapshot = snapshot_after(KeyboardInterrupt, lambda: run(machine, Topic("tea"), context))
    released.set()
    eventually(lambda: count_abandoned() <= before)
    assert begun == ["first"]
    assert snapshot.replies == ("fine",)


LOOPS = (ast.For, ast.While, ast.ListComp, ast.SetComp, ast.DictComp)


def misses_interrupts(one: ast.AST) -> bool:
    """Return whether Python misses a handler at some interrupts.

    Where a `try` begins with a loop, Python up to 3.12 looks for it before the `try` at a `continue`; and since 3.12
    the end of some loops is in no block.
    """
    if isinstance(one, ast.Try):
        loop = one.body[0]
        return isinstance(loop, ast.While) and any(isinstance(inner, ast.Continue) for inner in ast.walk(loop))
    holds = isinstance(one, ast.With) and any(
        ast.unparse(item.context_expr).endswith(("lock", "sharing", "extending", "adding")) for item in one.items
    )
    return holds and any(isinstance(inner, LOOPS) for inner in ast.walk(one))


def test_no_interrupt_misses_a_block() -> None:
    files = Path(gx.__file__).parent.rglob("*.py")
    parsed = {path: ast.parse(path.read_text(encoding="utf-8")) for path in files}
    assert [path for path, module in parsed.items() if any(map(misses_interrupts, ast.walk(module)))] == []


@pytest.mark.medium
def test_interrupted_runs_resume() -> None:
    """At places that are always the same: none hangs, none loses its snapshot."""
    count = 300
    command = [sys.executable, "-m", "tests.runtime.interrupting", "7", str(count)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    came = ast.literal_eval(ended.stdout or "{}")
    assert came.keys() <= {"ended", "not begun", "resumed"}, ended.stderr
    assert came.get("resumed", 0) > count / 2, (came, ended.stderr)
