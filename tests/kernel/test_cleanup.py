"""A node that asks for effects while it is closed: they are not carried out, and the original stop wins."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import aclosing, closing, suppress
from typing import Any

import pytest

from graphexec import Asks, Limits, ask, node
from graphexec.runtime import arun, astream, run, stream
from graphexec.runtime.handlers import RunContext, handlers_for
from tests import garbage
from tests.drivers import options_of
from tests.executor.actors import until
from tests.kernel.machines import Interview, Question, Stopped, Topic, machine_of
from tests.parameters import cases

HOW = cases("how", "sync", "async")


@node(when_spent=Stopped)
def finally_asks(topic: Topic) -> Asks[Question, Interview]:
    try:
        while True:
            yield from ask(Question("go on"))
    finally:
        yield from ask(Question("cleanup"))


@node(when_spent=Stopped)
def bare_except_asks(topic: Topic) -> Asks[Question, Interview]:
    try:
        while True:
            yield from ask(Question("go on"))
    except:  # noqa: E722 - this is what is tested
        yield from ask(Question("cleanup"))
        yield from ask(Question("cleanup"))
    return Interview(())


MACHINES = cases("machine", machine_of(finally_asks), machine_of(bare_except_asks))


@pytest.fixture(autouse=True)
def fail_on_unraisable() -> Iterator[None]:
    """Turn the warnings of freed generators into errors."""
    yield
    garbage.collect()


def run_with(machine: Any, context: RunContext, how: str) -> Any:
    return (
        run(machine, Topic("tea"), **options_of(context))
        if how == "sync"
        else asyncio.run(arun(machine, Topic("tea"), **options_of(context)))
    )


class Answers:
    """Return a context that answers some questions, and then fails or hangs."""

    def __init__(self, most: int, then: str = "fail") -> None:
        self.asked: list[str] = []
        self.released = threading.Event()
        self.most, self.then = most, then

    async def answer_async(self, question: Question) -> str:
        return await self._last() if self._is_last(question) else "fine"

    def answer(self, question: Question) -> str:
        if self._is_last(question):
            if self.then == "fail":
                raise OSError("it broke")
            self.released.wait(20)
        return "fine"

    async def _last(self) -> str:
        if self.then == "fail":
            raise OSError("it broke")
        await until(self.released)
        return "late"

    def _is_last(self, question: Question) -> bool:
        self.asked.append(question.text)
        return len(self.asked) > self.most

    def context(self, how: str, limits: Limits) -> RunContext:
        return RunContext(handlers_for({Question: self.answer if how == "sync" else self.answer_async}), limits)


@HOW
@MACHINES
def test_error_wins_over_the_cleanup(machine: Any, how: str) -> None:
    answers = Answers(2)
    with pytest.raises(OSError, match="it broke"):
        run_with(machine, answers.context(how, Limits()), how)
    assert answers.asked == ["go on"] * 3


@pytest.mark.medium
@HOW
@MACHINES
@cases(
    ("most", "then", "limits", "limit", "asked"),
    (2, "hang", Limits(seconds=0.5), "seconds", 3),
    (99, "fail", Limits(fan_out=4), "fan_out", 4),
)
def test_limit_beats_cleanup(machine: Any, how: str, most: int, then: str, limits: Any, limit: str, asked: int) -> None:
    answers = Answers(most, then)
    done = run_with(machine, answers.context(how, limits), how)
    answers.released.set()
    assert (done.outcome.limit.limit, answers.asked) == (limit, ["go on"] * asked)


@HOW
@MACHINES
def test_closed_stream_wins_over_the_cleanup(machine: Any, how: str) -> None:
    answers = Answers(99)
    context = answers.context(how, Limits())

    async def through() -> None:
        async with aclosing(astream(machine, Topic("tea"), **options_of(context))) as events:
            async for _ in events:
                if len(answers.asked) == 3:
                    break

    if how == "async":
        asyncio.run(through())
    else:
        with closing(stream(machine, Topic("tea"), **options_of(context))) as events:
            for _ in events:
                if len(answers.asked) == 3:
                    break
    assert answers.asked == ["go on"] * 3


@node(when_spent=Stopped)
def breaks_while_closed(topic: Topic) -> Asks[Question, Interview]:
    try:
        while True:
            yield from ask(Question("go on"))
    finally:
        raise RuntimeError("the cleanup broke")


@HOW
def test_error_in_the_cleanup_is_raised(how: str) -> None:
    machine = machine_of(breaks_while_closed)
    with pytest.raises(RuntimeError, match="the cleanup broke"):
        run_with(machine, Answers(99).context(how, Limits(fan_out=4)), how)


@node(when_spent=Stopped)
def never_gives_up(topic: Topic) -> Asks[Question, Interview]:
    while True:
        with suppress(BaseException):
            yield from ask(Question("go on"))


@HOW
@pytest.mark.filterwarnings("ignore:Exception ignored:pytest.PytestUnraisableExceptionWarning")
def test_node_that_never_stops_yielding_is_abandoned(how: str) -> None:
    answers = Answers(99)
    done = run_with(machine_of(never_gives_up), answers.context(how, Limits(fan_out=4)), how)
    assert (done.outcome.limit.limit, answers.asked) == ("fan_out", ["go on"] * 4)
    # Python reports the abandoned generator to the hook that the fixture replaced.
    garbage.collect()
