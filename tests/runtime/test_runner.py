"""The loop of a run: its ends, errors, handlers and cuts; and the drivers of the tests, which must agree."""

# Functions without annotations are a part of what is tested.
# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false

import asyncio
import functools
import gc
import operator
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from graphexec import AgentExecutor, AgentFinish, Asks, Exhausted, InputError, Limits, Snapshot, kernel, snapshot_of
from graphexec.kernel.effects import CallContext
from graphexec.kernel.events import Cut
from graphexec.runtime import BLOCKING, IO, Handler, run
from graphexec.runtime.handlers import RunOptions
from graphexec.runtime.io import run_sync
from graphexec.runtime.loop import RunLoop
from tests.drivers import LIVE, Driver, Script, drive_from_text, drive_sync, make_run_context, options_of, run_script
from tests.executor.actors import answer, make_executor, run_by
from tests.kernel.machines import (
    INTERVIEW,
    Interview,
    Left,
    Question,
    Stopped,
    Topic,
    Topics,
    Total,
    machine_of,
    pure,
    reporter,
    value,
    without_handlers,
)
from tests.parameters import cases


def raising(steps: Any, inputs: dict[str, Any]) -> AgentFinish:
    raise StopAsyncIteration


@cases("way", "iter", "stream_chunks", "stream_answer")
def test_stop_async_iteration_does_not_end_a_stream(way: str) -> None:
    executor = AgentExecutor(agent=raising, tools=[])
    with pytest.raises(RuntimeError, match="StopAsyncIteration"):
        run_by(way, executor)


class Boom(Exception):
    """An error that can be referred to weakly."""


def test_thrown_error_is_let_go() -> None:
    events = make_executor(answer(), tools=[]).stream("q")
    next(events)
    gc.disable()
    try:
        kept = throw_into(events)
        assert kept() is None
    finally:
        gc.enable()


def throw_into(events: Any) -> weakref.ref[Boom]:
    try:
        events.throw(Boom())
    except Boom as error:
        return weakref.ref(error)
    raise AssertionError("it is thrown where the run stands")


def upper(question: Question) -> str:
    return question.text.upper()


async def upper_async(question: Question) -> str:
    return question.text.upper()


def upper_in_a_call(question: Question, call: CallContext[Any]) -> str:
    return f"{call.node}: {question.text}"


class Shouting:
    """Answers questions in capitals, as methods and as a callable object."""

    sign = ""

    def answer(self, question: Question) -> str:
        return upper(question)

    def answer_in_a_call(self, question: Question, call: CallContext[Any]) -> str:
        return f"{call.node}: {question.text}{self.sign}"

    async def answer_async(self, question: Question, call: CallContext[Any]) -> str:
        return self.answer_in_a_call(question, call)

    __call__ = answer_in_a_call


class ShoutingLater:
    """Answers questions in capitals, as an async callable object."""

    async def __call__(self, question: Question) -> str:
        return upper(question)


class Unsigned(ShoutingLater):
    """A callable object that does not say what it takes."""

    __signature__ = "unknown"


def upper_signed(sign: str, question: Question, call: CallContext[Any]) -> str:
    return f"{call.node}: {question.text}{sign}"


def upper_in_a_named_call(question, call):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    return f"{call.node}: {question.text}"


ANSWERS: list[Any] = [
    upper,
    upper_async,
    upper_in_a_call,
    upper_in_a_named_call,
    lambda question, call: f"{call.node}: {question.text}",
    lambda question, sign="!": f"{question.text}{sign}",
    functools.partial(upper_signed, "!"),
    functools.partial(upper_in_a_call),
    Shouting().answer,
    Shouting().answer_in_a_call,
    Shouting().answer_async,
    Shouting(),
    ShoutingLater(),
    Unsigned(),
    operator.attrgetter("text"),
]


@cases("function", *ANSWERS)
@cases("made", lambda function: function, Handler)
def test_function_is_as_good_as_a_handler(function: Any, made: Callable[[Any], Any]) -> None:
    asked = run(INTERVIEW, Topic("tea"), handlers={Question: function})
    assert (
        run(
            INTERVIEW, Topic("tea"), **options_of(make_run_context({Question: made(function)}, limits=Limits()))
        ).outcome
        == asked.outcome
    )


def test_handler_is_recognized_by_its_positional_parameters() -> None:
    async def answer(question: Question, call: CallContext[Any], io: IO) -> str:
        return f"{question.text}!"

    @functools.wraps(upper)
    async def decorated(question: Question, call: object = None, io: object = None) -> str:
        return upper(question)

    def underline(question: Question, call: object = None, io: object = None, *, sign: str = "_") -> Any:
        return answer_async(question, sign)

    async def answer_async(question: Question, sign: str) -> str:
        return f"{question.text}{sign}"

    assert Handler(answer).answer is answer
    assert Handler(underline).answer is underline
    # By its signature, it takes an effect alone.
    assert Handler(decorated).answer is not decorated


def test_second_parameter_of_another_class_is_no_call() -> None:
    def sign(question: Question, sign: str) -> str:
        return f"{question.text}{sign}"

    answer: Any = sign
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'sign'"):
        run(INTERVIEW, Topic("tea"), handlers={Question: answer})


def test_handler_of_no_function_is_refused() -> None:
    wrong: Any = "Hello"
    with pytest.raises(InputError, match="Handler has answer='Hello'; pass a function of an effect"):
        Handler(wrong)


def test_instant_handlers_may_cut_a_batch() -> None:
    @kernel.node(when_spent=Stopped)
    def survey(topics: Topics) -> Asks[Question, Total]:
        replies = yield from kernel.ask_all([Question(name) for name in topics.names])
        return Total(str(replies))

    async def cut_short(effect: Question, call: CallContext[Any], io: IO) -> Any:
        return Cut()

    context = make_run_context({Question: Handler(cut_short, instant=True)}, limits=Limits(seconds=9))
    done = run(machine_of(survey), Topics(("a", "b")), **options_of(context))
    assert isinstance(done.outcome, Stopped)
    assert done.outcome.limit.limit == "seconds"


def test_whole_limits_stay_whole_in_json() -> None:
    stopped = Stopped(Topic("tea"), Exhausted("fan_out", 15, 15))
    read = Snapshot.from_json(Snapshot("interview", Topic("tea"), (stopped.limit,)).to_json(), INTERVIEW)
    assert str(read.replies[0]) == str(stopped.limit)


# ---- every driver


def test_sync_run_works_under_a_running_loop() -> None:
    async def notebook() -> object:
        # In the loop's own thread, as in a notebook's cell.
        return drive_sync(Script(INTERVIEW, Topic("tea", 1), reporter())).outcome

    assert asyncio.run(notebook()) == Interview(("re: tea 0 0",))


def asking(answer: Callable[[Question], str]) -> Script[Any, Any]:
    return Script(INTERVIEW, Topic("tea", 1), make_run_context({Question: answer}))


def fail(_: Question) -> str:
    raise OSError("the line is dead")


def test_drivers_that_disagree_are_found_out() -> None:
    replies = iter("abcde")
    with pytest.raises(AssertionError, match=r"drive_async: .*\n.*drive_sync: "):
        run_script(lambda: asking(lambda _: next(replies)))


@cases("odd_one", drive_from_text, LIVE[1])
def test_a_driver_that_alone_raises_is_found_out(odd_one: Driver) -> None:
    answers = iter([upper, fail])
    with pytest.raises(AssertionError, match="the line is dead") as caught:
        run_script(lambda: asking(next(answers)), drivers=[drive_sync, odd_one])
    assert isinstance(caught.value.__cause__, OSError)


@value
class Holding:
    thing: object


def test_values_outside_json_pass_live_drivers() -> None:
    thing = object()
    hold = pure("hold", Left, Holding, lambda _: Holding(thing))
    result = run_script(lambda: Script(machine_of(hold), Left(1), without_handlers()), drivers=LIVE)
    assert result.outcome.thing is thing


def test_result_that_cannot_be_made_keeps_the_state() -> None:
    def fail(_: object) -> None:
        raise KeyError("no result")

    context = make_run_context({Question: lambda effect: "fine"})
    loop = RunLoop(INTERVIEW, Topic("tea"), context, BLOCKING, options=RunOptions(), finish=fail)
    with pytest.raises(KeyError, match="no result") as raised:
        run_sync(loop.follow())
    assert snapshot_of(raised.value) is not None
