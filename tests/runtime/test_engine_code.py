"""Code of a run that is in none of its calls cannot start another run: nothing would count that."""

import asyncio
import contextvars
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
from pydantic import BaseModel, field_validator

import graphexec as gx
from graphexec.errors import InputError, NestedRunError
from graphexec.models import ScriptedModel
from graphexec.runtime import calls, threads
from graphexec.runtime.handlers import RunContext
from tests import garbage
from tests.drivers import ALL_DRIVERS, LIVE, Driver, Script, make_run_context
from tests.executor.actors import Caller, caller_of, echo, replayed, run_by
from tests.kernel.machines import machine_of, value
from tests.parameters import cases
from tests.runtime.actors import LONG, in_thread, tool_named

PAGES = gx.Meter("pages")


@value
class Todo:
    left: int


@value
class Read: ...


@value
class Over: ...


# What to try at a place, and the refusals.
tries: dict[str, Callable[[], object]] = {}
refused: list[NestedRunError] = []


def attempt(start: Callable[[], object]) -> None:
    try:
        start()
    except NestedRunError as error:
        refused.append(error)


def at(place: str) -> int:
    attempt(tries.get(place, int))
    return 0


@dataclass(frozen=True)
class Fetch(gx.Effect[int]):
    charges: ClassVar[Any] = {PAGES: 1}
    measures: ClassVar[Any] = (PAGES,)

    def measure(self, reply: int) -> list[float]:
        return [1 + at("the measure of an effect")]


@gx.node(decreases=lambda todo: todo.left + at("a decreasing measure"))
def work(todo: Todo) -> Todo | Read:
    at("a pure node")
    return Todo(todo.left - 1) if todo.left else Read()


def stop(read: Read, exhausted: gx.Exhausted) -> Over:
    at("a policy of a limit")
    return Over()


@gx.node(when_spent=stop)
def fetch(read: Read) -> gx.Asks[Fetch, Over | Read]:
    at("a node that asks")
    yield from gx.ask(Fetch())
    at("a node that was answered")
    return Read()


MACHINE = machine_of(work, fetch)
PLACES = (
    "a pure node",
    "a decreasing measure",
    "a node that asks",
    "a node that was answered",
    "the measure of an effect",
    "a policy of a limit",
)


def fetched(effect: Fetch) -> int:
    at("a handler")
    return 1


@contextmanager
def around(call: gx.CallContext[Any]) -> Generator[None]:
    at("around a call")
    yield


def context(most: int = 2) -> RunContext:
    made = make_run_context({Fetch: fetched}, limits=gx.Limits({PAGES: most}))
    return RunContext(made.handlers, made.limits, around_call=around)


def inner() -> tuple[gx.AgentExecutor, Caller]:
    model = Caller(answers_after=1)
    return caller_of(model, echo), model


@cases("drive", *ALL_DRIVERS)
@cases("place", *PLACES)
@cases("how", "here", "in a thread")
def test_code_in_no_call_cannot_start_a_run(drive: Driver, place: str, how: str) -> None:
    executor, model = inner()

    def start() -> object:
        return executor.run("q")

    tries.clear()
    refused.clear()

    def start_in_thread() -> object:
        copied = contextvars.copy_context()
        return in_thread(lambda: copied.run(attempt, start))

    tries[place] = start if how == "here" else start_in_thread
    done = drive(Script(MACHINE, Todo(1), context())).done
    assert done.outcome == Over()
    assert model.calls == 0
    assert refused
    # The code after the run is within none.
    assert executor.run("q").output == "hello"


@cases("drive", *LIVE)
@cases("place", "a handler", "around a call")
def test_what_is_within_a_call_is_charged(drive: Driver, place: str) -> None:
    executor, model = inner()
    tries.clear()
    tries[place] = lambda: executor.run("q")
    done = drive(Script(MACHINE, Todo(1), context())).done
    assert done.spent["model_calls"] == model.calls == 2 * 2
    # A replay calls the pure nodes again, and no handler.
    assert replayed(done) == done.spent


def refused_at_each(executor: gx.AgentExecutor, told: list[str]) -> Callable[[object], None]:
    """Return an observer that cannot start a run of the executor at any event, and notes the events."""

    def observe(event: object) -> None:
        with pytest.raises(NestedRunError, match="observer cannot start a run"):
            executor.run("q")
        told.append(type(event).__name__)

    return observe


def observing(observe: Callable[[Any], object], **options: Any) -> gx.AgentExecutor:
    return caller_of(Caller(2, answers_after=1), echo, observers=[observe], **options)


@cases(("way", "options"), *((way, {}) for way in ("run", "arun", "stream", "astream")), ("stream", {"tokens": True}))
@cases("width", 1, 8)
def test_an_observer_cannot_start_a_run(way: str, options: dict[str, Any], width: int) -> None:
    """It is told so at every event, also at the end."""
    executor, model = inner()
    told: list[str] = []
    run_by(way, observing(refused_at_each(executor, told), tool_concurrency=width), **options)
    assert {"Entered", "Asked", "Answered", "Moved", "Done"} <= set(told)
    assert model.calls == 0


def test_a_visit_is_no_host() -> None:
    """An event's call may stand for a visit, which nothing closes."""
    executor, model = inner()
    told: list[str] = []

    def observe(event: Any) -> None:
        if event.call.effect is None:
            with pytest.raises(InputError, match=r"host is .*; give a call of a tool"):
                executor.run("q", host=event.call)
            told.append(type(event).__name__)

    observing(observe).run("q")
    assert {"Entered", "Moved", "Done"} <= set(told)
    assert model.calls == 0


def test_a_validator_that_starts_a_run_ends_it() -> None:
    """It is a mistake of the program: the model is not asked for another answer."""
    executor, model = inner()

    class Judged(BaseModel):
        text: str

        @field_validator("text")
        @classmethod
        def judge(cls, text: str) -> str:
            return str(executor.run(text).output)

    asked = ScriptedModel(['{"text": "fine"}'], repeat_last=True)
    judged = gx.create_agent(asked, [], output_type=Judged)
    with pytest.raises(NestedRunError, match="cannot start a run"):
        judged.run("q")
    assert (len(asked.requests), model.calls) == (1, 0)


def test_an_observer_of_a_failure_cannot_start_a_run() -> None:
    executor, _ = inner()
    told: list[str] = []

    def fail(text: str) -> str:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        caller_of(Caller(), tool_named("fail", fail), observers=[refused_at_each(executor, told)]).run("q")
    assert told[-1] == "Failed"
    assert executor.run("q").output == "hello"


def test_a_task_of_an_observer_cannot_start_a_run() -> None:
    executor, model = inner()
    tasks: list[asyncio.Task[Any]] = []

    async def main() -> None:
        await observing(lambda _: tasks.append(asyncio.create_task(executor.ainvoke({"input": "q"})))).arun("q")
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert ended
        assert all(isinstance(error, NestedRunError) for error in ended)
        assert (await executor.arun("q")).output == "hello"

    asyncio.run(main())
    assert model.calls == 2


@cases("is_async", False, True)
def test_the_consumer_of_a_stream_may_start_runs(is_async: bool) -> None:
    """Also in another task for each event, and after it has left the stream early."""
    executor, model = inner()
    outer = caller_of(Caller(2, answers_after=1), echo)
    number = 0
    if is_async:

        async def main() -> None:
            nonlocal number
            events = outer.astream("q")
            while (event := await asyncio.create_task(anext(events, None))) is not None and number < 6:
                number += 1
                assert (await executor.arun("q")).output == "hello", event
            await events.aclose()
            assert (await executor.arun("q")).output == "hello"

        asyncio.run(main())
    else:
        for number, event in enumerate(outer.stream("q"), 1):
            assert executor.run("q").output == "hello", event
            if number == 6:
                break
        assert executor.run("q").output == "hello"
    assert model.calls == 2 * 7


@cases("lock", calls.sharing, threads._threads._lock)  # pyright: ignore[reportPrivateUsage]
def test_a_run_is_collected_while_its_thread_holds_a_lock(lock: Any) -> None:
    """Closing it takes the same lock: it waited for itself for ever."""
    outer = caller_of(Caller(), echo, max_execution_time=LONG)
    ended: list[bool] = []

    def abandon() -> None:
        events = outer.stream("q", tokens=True)
        next(events)
        holder: list[Any] = [events]
        holder.append(holder)

    def collect_holding() -> None:
        abandon()
        with lock:
            garbage.collect()
        ended.append(True)

    thread = threading.Thread(target=collect_holding, daemon=True)
    thread.start()
    thread.join(LONG)
    assert ended
