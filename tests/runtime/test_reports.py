"""Reports made while an effect is answered reach observers and streams."""

import asyncio
import dataclasses
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import aclosing, contextmanager
from typing import Any, TypeAlias

import pytest

from graphexec import Exhausted, Limits, errors, executor
from graphexec.effects import CallModel, agent_limits
from graphexec.kernel import Answered, Asked, Done, Event, Reported
from graphexec.kernel.effects import CallContext
from graphexec.messages import ModelReply, ModelRequest, ReplyDelta
from graphexec.runtime import IO, Handler, arun, astream, report, run, stream
from graphexec.runtime.calls import wants_pieces
from graphexec.runtime.handlers import RunContext
from tests.drivers import FakeClock, make_run_context, options_of
from tests.kernel.machines import INTERVIEW, PROMPTS, Prompt, Question, Stopped, Topic
from tests.parameters import cases
from tests.runtime.actors import LONG


def news(events: Any) -> list[object]:
    return [event.news for event in events if isinstance(event, Reported)]


def kinds(events: Any) -> list[str]:
    return [type(event).__name__ for event in events if isinstance(event, (Asked, Reported, Answered))]


def streamed(
    graph: Any, value: Any, made: RunContext, *, how: str, tokens: bool, seen: list[Event[Any]] | None = None
) -> list[Event[Any]]:
    """All events of a run, in a sync or an async run; `seen` has those before an exception."""
    events: list[Event[Any]] = [] if seen is None else seen

    async def collect() -> None:
        async for event in astream(graph, value, **options_of(made), tokens=tokens):
            events.append(event)  # noqa: PERF401 - events before an exception are kept

    if how == "async":
        asyncio.run(collect())
        return events
    for event in stream(graph, value, **options_of(made), tokens=tokens):
        events.append(event)  # noqa: PERF402 - as above
    return events


EVERY_WAY = cases(("how", "pieces"), *[(how, on) for how in ("sync", "async") for on in (False, True)])


def thinking(question: Question) -> str:
    report("thinking")
    report(question.text)
    return "42"


async def thinking_too(question: Question) -> str:
    report("thinking")
    await asyncio.sleep(0)
    report(question.text)
    return "42"


# ---- from handlers


@EVERY_WAY
@cases("handler", thinking, thinking_too)
@cases("limits", Limits(), Limits(seconds=LONG))
def test_reports_come_between_asked_and_answered(how: str, pieces: bool, handler: Any, limits: Limits) -> None:
    made = make_run_context({Question: handler}, limits=limits)
    events = streamed(INTERVIEW, Topic("tea", 2), made, how=how, tokens=pieces)
    assert kinds(events) == ["Asked", "Reported", "Reported", "Answered"] * 2
    assert news(events) == ["thinking", "tea 0 0", "thinking", "tea 1 1"]
    for asked, *reported in (events[1:4], events[5:8]):
        for one in reported:
            assert isinstance(asked, Asked)
            assert isinstance(one, Reported)
            assert (one.node, one.effect) == (asked.node, asked.effect)


def test_unobserved_run_has_no_listener() -> None:
    wanted: list[bool] = []

    def answer(question: Question) -> str:
        wanted.append(wants_pieces())
        report("without a listener")
        return "42"

    made = make_run_context({Question: answer})
    run(INTERVIEW, Topic("tea", 1), **options_of(made))
    asyncio.run(arun(INTERVIEW, Topic("tea", 1), **options_of(made)))
    list(stream(INTERVIEW, Topic("tea", 1), **options_of(made)))
    assert wanted == [False, False, False]
    list(stream(INTERVIEW, Topic("tea", 1), **options_of(made), tokens=True))
    assert wanted == [False, False, False, True]


@EVERY_WAY
@cases("kind", "def", "async def")
def test_reports_precede_an_exception(how: str, pieces: bool, kind: str) -> None:
    def broken(question: Question) -> str:
        report("trying")
        report("in vain")
        raise OSError("it broke")

    async def broken_too(question: Question) -> str:
        return broken(question)

    made = make_run_context({Question: broken if kind == "def" else broken_too})
    seen: list[Event[Any]] = []
    with pytest.raises(OSError, match="it broke"):
        streamed(INTERVIEW, Topic("tea"), made, how=how, tokens=pieces, seen=seen)
    assert kinds(seen) == ["Asked", "Reported", "Reported"]
    assert news(seen) == ["trying", "in vain"]


# ---- the pieces of a reply


ANSWER = ("It ", "is ", "42")
Pieces: TypeAlias = Generator[ReplyDelta | ModelReply, None, None]
AsyncPieces: TypeAlias = AsyncGenerator[ReplyDelta | ModelReply, None]


class StreamingModel:
    """Streams its reply, each piece when the test releases it."""

    def __init__(self, pieces: tuple[str, ...] = ANSWER, error: Exception | None = None) -> None:
        self.pieces, self.error = pieces, error
        self.going = threading.Semaphore(0)
        self.closed = threading.Event()
        self.ended: BaseException | None = None
        self.made = 0

    def complete(self, request: ModelRequest, *, timeout: float | None = None) -> ModelReply:
        if self.error is not None:
            raise self.error
        return ModelReply("".join(self.pieces))

    async def acomplete(self, request: ModelRequest, *, timeout: float | None = None) -> ModelReply:
        return self.complete(request)

    @contextmanager
    def noted_end(self) -> Generator[None, None, None]:
        try:
            yield
        except BaseException as error:
            self.ended = error
            raise
        finally:
            self.closed.set()

    def stream(self, request: ModelRequest, *, timeout: float | None = None) -> Pieces:
        with self.noted_end():
            for piece in self.pieces:
                assert self.going.acquire(timeout=LONG), "no piece was released"
                self.made += 1
                yield ReplyDelta(piece)
            yield self.complete(request)

    async def astream(self, request: ModelRequest, *, timeout: float | None = None) -> AsyncPieces:
        with self.noted_end():
            for piece in self.pieces:
                # Not an asyncio.Semaphore, which belongs to one loop.
                while not self.going.acquire(blocking=False):  # noqa: ASYNC110
                    await asyncio.sleep(0)
                self.made += 1
                yield ReplyDelta(piece)
            yield self.complete(request)


def asking(model: Any, *, seconds: float | None = None, clock: Callable[[], float] | None = None) -> RunContext:
    limits = agent_limits(model_calls=1, seconds=seconds)
    made = make_run_context({CallModel: executor.make_model_handler(model)}, limits=limits)
    return made if clock is None else dataclasses.replace(made, clock=clock)


@cases("how", "sync", "async")
@cases("seconds", None, LONG)
def test_pieces_come_as_they_are_made(how: str, seconds: float | None) -> None:
    model = StreamingModel()

    class Releasing(list[Event[Any]]):
        """Events, each of which releases the next piece."""

        def append(self, event: Event[Any]) -> None:
            super().append(event)
            if isinstance(event, Reported):
                assert (event.news, model.made) == (ReplyDelta(ANSWER[len(news(self)) - 1]), len(news(self)))
            if isinstance(event, (Asked, Reported)):
                model.going.release()

    context = asking(model, seconds=seconds)
    events = streamed(PROMPTS, Prompt(), context, how=how, tokens=True, seen=Releasing())
    assert kinds(events) == ["Asked", *["Reported"] * 3, "Answered"]
    answered = next(event for event in events if isinstance(event, Answered))
    assert answered.reply == ModelReply("It is 42")
    assert isinstance(events[-1], Done)
    assert model.closed.is_set()


@EVERY_WAY
def test_a_model_that_cannot_stream_answers_as_ever(how: str, pieces: bool) -> None:
    class Whole:
        def complete(self, request: ModelRequest, *, timeout: float | None = None) -> ModelReply:
            report("a notice")
            return ModelReply("42")

        async def acomplete(self, request: ModelRequest, *, timeout: float | None = None) -> ModelReply:
            return self.complete(request)

    events = streamed(PROMPTS, Prompt(), asking(Whole()), how=how, tokens=pieces)
    assert kinds(events) == ["Asked", "Reported", "Answered"]
    assert news(events) == ["a notice"]


@cases("how", "sync", "async")
@cases(
    ("pieces", "made", "events"), (False, 0, ["Asked", "Answered"]), (True, 3, ["Asked", *["Reported"] * 3, "Answered"])
)
def test_model_streams_only_for_pieces(how: str, pieces: bool, made: int, events: list[str]) -> None:
    model = StreamingModel()
    model.going.release(3)
    assert kinds(streamed(PROMPTS, Prompt(), asking(model), how=how, tokens=pieces)) == events
    assert model.made == made


@cases("how", "sync", "async")
def test_pieces_before_a_model_error_are_delivered(how: str) -> None:
    seen: list[Event[Any]] = []
    model = StreamingModel(("It ",), OSError("the line is dead"))
    model.going.release()
    with pytest.raises(OSError, match="the line is dead"):
        streamed(PROMPTS, Prompt(), asking(model), how=how, tokens=True, seen=seen)
    assert news(seen) == [ReplyDelta("It ")]


# ---- consumers that close the stream


@cases("seconds", None, LONG)
def test_closing_a_stream_abandons_its_call(seconds: float | None) -> None:
    abandoned = threading.Event()
    model = StreamingModel()
    handler = executor.make_model_handler(model)

    async def noted(effect: CallModel, call: CallContext[Any], io: IO) -> ModelReply:
        try:
            reply: ModelReply = await handler.answer(effect, call, io)
        except errors.AbandonedError:
            abandoned.set()
            raise
        return reply

    made = make_run_context({CallModel: Handler(noted)}, limits=agent_limits(model_calls=1, seconds=seconds))
    events = stream(PROMPTS, Prompt(), **options_of(made), tokens=True)
    model.going.release()
    assert isinstance(next(event for event in events if isinstance(event, Reported)), Reported)
    events.close()
    model.going.release()
    assert abandoned.wait(LONG)
    assert model.closed.wait(LONG)
    assert isinstance(model.ended, GeneratorExit)
    assert model.made == 2


@cases("seconds", None, LONG)
def test_closing_an_async_stream_cancels_its_call(seconds: float | None) -> None:
    async def scenario() -> StreamingModel:
        model = StreamingModel()
        events = astream(PROMPTS, Prompt(), **options_of(asking(model, seconds=seconds)), tokens=True)
        model.going.release()
        while not isinstance(await anext(events), Reported):
            pass
        await events.aclose()
        assert model.closed.is_set()
        return model

    model = asyncio.run(scenario())
    assert isinstance(model.ended, asyncio.CancelledError)
    assert model.made == 1


@cases("how", "sync", "async")
def test_deadline_cuts_a_streamed_reply(how: str) -> None:
    model = StreamingModel()
    model.going.release()
    # The run's clock stands still; what the driver waits is real.
    made = asking(model, seconds=0.1, clock=FakeClock())
    try:
        events = streamed(PROMPTS, Prompt(), made, how=how, tokens=True)
    finally:
        model.going.release(2)
    assert news(events) == [ReplyDelta("It ")]
    *_, done = events
    assert isinstance(done, Done)
    assert done.outcome == Stopped(Prompt(), Exhausted("seconds", 0.1, 0.1))
    assert done.spent["model_calls"] == 1
    assert model.closed.wait(LONG)


def test_late_report_of_abandoned_call_is_dropped() -> None:
    released, reported = threading.Event(), threading.Event()

    def answer(question: Question) -> str:
        report("first")
        released.wait(LONG)
        report("too late")
        reported.set()
        return "42"

    async def scenario() -> list[Event[Any]]:
        made = make_run_context({Question: answer})
        seen: list[Event[Any]] = []
        async with aclosing(astream(INTERVIEW, Topic("tea"), **options_of(made), tokens=True)) as events:
            while not isinstance((event := await anext(events)), Reported):
                seen.append(event)
        return [*seen, event]

    seen = asyncio.run(scenario())
    # The loop is closed by now.
    released.set()
    assert reported.wait(LONG)
    assert news(seen) == ["first"]
