"""The records of stored runs, made from the store alone, beside those of the same run that is recorded live."""

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, final

import pytest
from pydantic import BaseModel

from graphexec import AgentExecutor, Effect, InputError, Limits, Meter, create_agent, edges, graph, node, on, tool
from graphexec.draw import Recording, recording_of
from graphexec.executor import RunResult
from graphexec.kernel import END, ITERATIONS, Asks, Done, Exhausted, ask
from graphexec.messages import ModelReply, ToolCall, Usage
from graphexec.models import ScriptedModel
from graphexec.runs import SQLiteRuns, Waiting, recording_of_stored
from tests.cli.traced import make_executor
from tests.parameters import cases


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SQLiteRuns]:
    with SQLiteRuns(tmp_path / "runs.db") as store:
        yield store


@tool
def add(one: int, other: int) -> int:
    """Add two numbers."""
    return one + other


def fail(text: str) -> str:
    """Fail."""
    raise ValueError(f"no {text}")


OVER = threading.Event()


def wait(text: str) -> str:
    """Wait longer than the run may take."""
    assert OVER.wait(30)
    return text


def calling(*calls: tuple[str, str], **usage: int) -> ModelReply:
    """Return the reply of a model that calls tools."""
    return ModelReply(
        "", tuple(ToolCall(f"c{at}", name, given) for at, (name, given) in enumerate(calls)), usage=Usage(**usage)
    )


SUM = calling(("add", '{"one": 1, "other": 2}'), ("fail", '{"text": "x"}'), prompt_tokens=9, completion_tokens=4)
LONG = calling(("fail", f'{{"text": "{"x" * 3_000}"}}'))


def tools_of(*replies: ModelReply | str, **options: Any) -> AgentExecutor[Any]:
    script: list[Any] = [*replies]
    return create_agent(ScriptedModel(script), [add, fail, wait], kind="tool_calling", **options)


def nested() -> AgentExecutor[Any]:
    inner = tools_of(SUM, "3").as_tool("helper", "Ask a helper.")
    replies: list[Any] = [calling(("helper", '{"input": "1 + 2?"}'), ("helper", '{"input": "again?"}')), "It is 3."]
    return create_agent(ScriptedModel(replies), [inner], kind="tool_calling")


EXECUTORS: Mapping[str, Callable[[], AgentExecutor[Any]]] = {
    "structured": make_executor,
    "unread": lambda: make_executor("no JSON at all"),
    "stopped": lambda: make_executor(max_iterations=1),
    "parallel": lambda: tools_of(SUM, SUM, "3"),
    "nested": nested,
    "cut": lambda: tools_of(calling(("wait", '{"text": "x"}')), "late", max_execution_time=0.2),
}


def facts(recording: Recording) -> list[Any]:
    """Return what a store has of the records: not the prompts, the data of outcomes, and what only a process knows."""
    found: list[Any] = []
    for one in recording.records:
        record = {name: value for name, value in one.items() if name != "provider_id"}
        match record["event"]:
            case "entered" | "answered":
                found.append(record)
            case "asked":
                effects = [
                    {name: one for name, one in effect.items() if name not in ("prompt", "request")}
                    for effect in record["effects"]
                ]
                found.append({**record, "effects": effects})
            case "moved":
                found.append((record["node"], record["outcome"], record["target"]))
            case "result":
                found.append({name: one for name, one in record.items() if name != "steps"})
            case "start":
                found.append((record["input"], record["limits"], record.get("budgets")))
            case _:
                pass
    return found


@cases("name", *EXECUTORS)
@pytest.mark.medium
def test_records_are_those_of_the_live_run(name: str, store: SQLiteRuns) -> None:
    OVER.clear()
    result = EXECUTORS[name]().run("1 + 2?", runs=store, run_id=name)
    OVER.set()
    stored = recording_of_stored(store, name)
    assert isinstance(result, RunResult)
    assert facts(stored) == facts(recording_of(result))
    # The records are valid, and can be drawn.
    assert Recording.from_json_lines(stored.to_json_lines()).machine == stored.machine


PAYMENTS = Meter("payments", limit=5)


class Receipt(BaseModel):
    accepted: bool
    text: str = ""


@dataclass(frozen=True)
class Pay(Effect[Receipt]):
    charges: ClassVar[Mapping[Meter, int]] = {PAYMENTS: 1}
    card: str


@final
@dataclass(frozen=True)
class Order:
    cards: tuple[str, ...]


@final
@dataclass(frozen=True)
class Paid:
    card: str


@final
@dataclass(frozen=True)
class Unpaid:
    order: Order
    limit: Exhausted


@node(when_spent=Unpaid, asks=1, meters=[ITERATIONS])
def pay(order: Order) -> Asks[Pay, Paid | Order]:
    card, *others = order.cards
    receipt = yield from ask(Pay(card))
    return Paid(card) if receipt.accepted else Order((*others, card))


ORDERS = graph(edges(pay, on(Paid, END) | on(Order, pay) | on(Unpaid, END)), start=pay)
LIMITS = Limits({PAYMENTS: 2}, iterations=9)


def answer(store: SQLiteRuns, run_id: str, value: object) -> None:
    [question] = store.questions(run_id)
    assert store.reply(run_id, question.key, value)


def test_run_of_a_machine_is_whole_over_its_restarts(store: SQLiteRuns) -> None:
    waiting = ORDERS.run(Order(("gift", "visa")), runs=store, run_id="order", limits=LIMITS)
    assert isinstance(waiting, Waiting)
    stored = recording_of_stored(store, "order")
    asked, ending = stored.records[-2:]
    assert asked["effects"] == [{"effect": "Pay", "value": {"card": "gift"}}]
    assert (ending["status"], ending["exit_code"]) == ("waiting", 4)
    answer(store, "order", {"accepted": False})
    assert recording_of_stored(store, "order").records[-1]["status"] == "ready"
    ORDERS.run(None, runs=store, run_id="order", limits=LIMITS)
    answer(store, "order", {"accepted": True, "text": "thanks"})
    done = ORDERS.run(None, runs=store, run_id="order", limits=LIMITS)
    assert isinstance(done, Done)
    live = recording_of(done)
    stored = recording_of_stored(store, "order")
    assert facts(stored) == facts(live)
    restarts = [record["text"] for record in stored.records if record["event"] == "reported"]
    assert [text.partition(" on ")[0] for text in restarts] == ["The run went"] * 2
    # A fork has the answers.
    fork = store.fork("order", at=1)
    replies = [record["replies"] for record in recording_of_stored(store, fork).records if "replies" in record]
    assert [[reply["effect"] for reply in part] for part in replies] == [["Pay"]]


class Crash(BaseException):
    """The process ends here."""


def test_attempts_after_crashes_are_counted(store: SQLiteRuns) -> None:
    ends = [True, True, False]

    @tool(in_doubt="retry")
    def work(text: str) -> str:
        """Work."""
        if ends.pop(0):
            raise Crash
        return text

    def process() -> AgentExecutor[Any]:
        return create_agent(
            ScriptedModel([calling(("work", f'{{"text": "{"x" * 3_000}"}}')), "Done."]), [work], kind="tool_calling"
        )

    for _ in range(2):
        with pytest.raises(Crash):
            process().run("Work.", runs=store, run_id="job")
        *_, failed, ending = recording_of_stored(store, "job").records
        assert (failed["event"], failed["call"]["sequence"], ending["status"]) == ("failed", 2, "error")
    result = create_agent(ScriptedModel(["Done."]), [work], kind="tool_calling").run("Work.", runs=store, run_id="job")
    assert isinstance(result, RunResult)
    stored = recording_of_stored(store, "job")
    assert facts(stored)[-1] == facts(recording_of(result))[-1]
    assert stored.records[-1]["spent"]["tool_calls"] == 3
    # Long arguments are not kept, and the name of the tool is.
    [kept] = [one["effects"][0] for one in stored.records if one.get("effects") and "tool" in one["effects"][0]]
    assert kept["tool_input"].startswith("sha256:")


def test_error_and_unknown_run(store: SQLiteRuns) -> None:
    def broken(request: object) -> ModelReply:
        raise ValueError("the model is <b>down</b>")

    with pytest.raises(ValueError, match="down"):
        create_agent(broken, [add]).run("1 + 2?", runs=store, run_id="sum")
    *_, failed, ending = recording_of_stored(store, "sum").records
    error = {"type": "ValueError", "message": "ValueError: the model is <b>down</b>"}
    assert (failed["event"], failed["node"], failed["error"], ending["error"]) == ("failed", "plan", error, error)
    store.cancel("sum")
    assert recording_of_stored(store, "sum").records[-1]["status"] == "cancelled"
    with pytest.raises(InputError, match="no run"):
        recording_of_stored(store, "other")


@final
@dataclass(frozen=True)
class Doubled:
    number: int


def test_opaque_node_is_answered_by_its_outcome(store: SQLiteRuns) -> None:
    @node(opaque=True, when_spent=Unpaid)
    def double(order: Order) -> Doubled:
        return Doubled(2 * len(order.cards))

    done = graph(edges(double, on(Doubled, END) | on(Unpaid, END)), start=double).run(
        Order(("a",)), runs=store, run_id="two"
    )
    assert isinstance(done, Done)
    assert facts(recording_of_stored(store, "two")) == facts(recording_of(done))
