"""Runs that end early: interrupts lose nothing, and the calls of a cancelled caller end, as nested runs do."""

import ast
import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import Any

import pytest

import graphexec as gx
from graphexec.effects import TOOL_CALLS
from graphexec.errors import AbandonedError
from graphexec.integrations.langchain import runnable_agent
from graphexec.runtime import run
from graphexec.runtime.tasks import abandon, start
from tests.drivers import make_run_context, options_of
from tests.executor.actors import HOW, Running, act, answer, make_executor, run_by, scripted, snapshot_after
from tests.kernel.machines import INTERVIEW, Interview, Question, Stopped, Topic, machine_of
from tests.parameters import cases
from tests.runtime.actors import LONG, count_abandoned, tool_named
from tests.stopwatch import eventually


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
    executor = make_executor(*[act("work")] * 3, tools=[tool_named("work", work)], max_execution_time=LONG)
    snapshot = snapshot_after(KeyboardInterrupt, lambda: executor.run("q"))
    assert count_abandoned() == before + 1
    released.set()
    assert ended.wait(LONG)
    eventually(lambda: count_abandoned() <= before)
    assert (calls, snapshot.spent[TOOL_CALLS]) == ([1], 1)


def test_an_interrupt_in_a_node_begins_no_call(released: threading.Event) -> None:
    """The loop is in the engine when the caller is cancelled; its next call does not begin."""
    begun: list[str] = []

    @gx.node(when_spent=Stopped)
    def think(topic: Topic) -> gx.Asks[Question, Interview]:
        yield from gx.ask(Question("first"))
        interrupt_caller()
        released.wait(LONG)
        yield from gx.ask(Question("second"))
        return Interview(())

    machine = machine_of(think)

    def answer_it(question: Question) -> str:
        begun.append(question.text)
        return "fine"

    before = count_abandoned()
    context = make_run_context({Question: answer_it}, limits=gx.Limits(seconds=LONG))
    snapshot = snapshot_after(KeyboardInterrupt, lambda: run(machine, Topic("tea"), **options_of(context)))
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
    count = 600
    command = [sys.executable, "-m", "tests.runtime.interrupting", "7", str(count)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    came = ast.literal_eval(ended.stdout or "{}")
    assert came.keys() <= {"ended", "not begun", "resumed"}, ended.stderr
    assert came.get("resumed", 0) > count / 2, (came, ended.stderr)


# ---- in tasks


@pytest.mark.medium
@cases("kind", KeyboardInterrupt, SystemExit)
@cases("timeout", None, LONG)
@cases("seconds", None, LONG)
@cases("count", 1, 3)
@cases(("way", "options"), ("arun", {}), ("astream", {"tokens": False}), ("astream", {"tokens": True}))
def test_interrupt_in_a_task_keeps_the_snapshot(
    way: str, options: Any, count: int, seconds: float | None, timeout: float | None, kind: type[BaseException]
) -> None:
    """asyncio raises it out of the loop, so the run must see it first; finished calls are not repeated."""
    called: list[int] = []

    @gx.tool(timeout=timeout)
    async def leave(number: int) -> int:
        """Leave at the first call of the last one."""
        called.append(number)
        await asyncio.sleep(0)
        if number == count - 1 and called.count(number) == 1:
            for _ in range(10):
                await asyncio.sleep(0)
            raise kind
        return number

    actions = [act("leave", number=number) for number in range(count)]
    executor = make_executor(actions, answer(), tools=[leave], max_execution_time=seconds)
    snapshot = snapshot_after(kind, lambda: run_by(way, executor, "q", **options))
    result = executor.run(gx.Snapshot.from_json(snapshot.to_json(), executor.graph))
    assert [step.observation for step in result.steps] == list(range(count))
    assert sorted(called) == sorted([*range(count), count - 1])
    assert result.spent["tool_calls"] == count + 1


def test_interrupt_in_an_abandoned_task_ends_the_loop() -> None:
    async def leave() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise KeyboardInterrupt

    async def main() -> None:
        task = start(leave)
        await asyncio.sleep(0)
        await abandon([task])

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())


# ---- callers that are cancelled


@pytest.mark.medium
@HOW
@cases("timeout", None, 3 * LONG)
@cases("kind", "async def", "def that returns a coroutine")
def test_an_async_tool_is_cancelled_at_the_deadline(run: Running, timeout: float | None, kind: str) -> None:
    cancelled = threading.Event()

    async def endless() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return "never"

    def hidden() -> Any:
        return endless()

    used = tool_named("endless", endless if kind == "async def" else hidden, timeout=timeout)
    assert run(make_executor(act("endless"), tools=[used], max_execution_time=0.1)).reason == "seconds"
    assert cancelled.wait(LONG)


@pytest.mark.medium
@HOW
@cases("of", "tool", "async tool", "yielding async tool", "tool with a timeout", "runnable")
def test_endless_generator_ends_with_its_call(run: Running, of: str) -> None:
    begun, ended = threading.Event(), threading.Event()

    def endless() -> Generator[gx.AgentAction, None, None]:
        begun.set()
        try:
            while True:
                yield gx.AgentAction("generate", "")
        finally:
            ended.set()

    async def yielding() -> AsyncGenerator[gx.AgentAction, None]:
        for item in endless():
            yield item

    async def generate() -> Any:
        return endless()

    class Endless:
        def invoke(self, inputs: Any, config: Any = None) -> Any: ...

        def stream(self, inputs: Any, config: Any = None) -> Any:
            return endless()

    agents: dict[str, Any] = {"runnable": runnable_agent(Endless())}
    timeout = LONG if of == "tool with a timeout" else None
    functions: dict[str, Any] = {"async tool": generate, "yielding async tool": yielding}
    used = tool_named("generate", functions.get(of, endless), timeout=timeout)
    # On a busy machine the call may not begin in the shorter ones.
    for seconds in (0.05, 0.5, 5):
        executor = gx.AgentExecutor(
            agent=agents.get(of, scripted(act("generate"))), tools=[used], max_execution_time=seconds
        )
        assert begun.is_set() or run(executor).reason == "seconds"
    assert ended.wait(LONG)


@pytest.mark.medium
@cases("of", "tool", "async handler")
def test_nested_run_in_a_cut_call_stops(of: str) -> None:
    asked: list[int] = []
    held, ended = threading.Event(), threading.Event()

    def agent(steps: Any, _inputs: Any) -> gx.AgentAction:
        asked.append(len(steps))
        held.wait(LONG)
        return gx.AgentAction("nothing", "")

    inner = gx.AgentExecutor(agent=agent, tools=[], max_iterations=50)

    def delegate() -> str:
        try:
            return str(inner.run("?").output)
        finally:
            # The nested run is abandoned, or has stopped at the shared deadline.
            ended.set()

    async def answer(question: Question) -> str:
        return delegate()

    if of == "tool":
        outer = make_executor(act("delegate"), tools=[tool_named("delegate", delegate)], max_execution_time=0.5)
        assert outer.run("?").reason == "seconds"
    else:
        context = make_run_context({Question: answer}, limits=gx.Limits(seconds=0.5))
        assert isinstance(run(INTERVIEW, Topic("tea"), **options_of(context)).outcome, Stopped)
    held.set()
    assert ended.wait(LONG)
    assert asked == [0]


def test_other_runs_of_a_failed_batch_stop() -> None:
    begun, held, ended = threading.Event(), threading.Event(), threading.Event()
    asked: list[str] = []

    def agent(_steps: Any, inputs: dict[str, Any]) -> gx.AgentAction:
        if inputs["input"] == "bad":
            begun.wait(LONG)
            raise OSError("it broke")
        asked.append(inputs["input"])
        begun.set()
        held.wait(LONG)
        return gx.AgentAction("nothing", "")

    class Watched(gx.AgentExecutor):
        async def _invoke(self, *arguments: Any, **options: Any) -> Any:
            try:
                return await super()._invoke(*arguments, **options)
            except AbandonedError:
                ended.set()
                raise

    with pytest.raises(OSError, match="it broke"):
        Watched(agent=agent, tools=[], max_iterations=50).batch(["good", "bad"])
    held.set()
    assert ended.wait(LONG)
    assert asked == ["good"]
