"""People answer the questions of stored runs: from any process, with typed replies, in time or not at all."""

import asyncio
import dataclasses
import enum
import json
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, Literal, final

import pytest
from pydantic import BaseModel, Field, TypeAdapter

import graphexec as gx
from graphexec.effects import Sleep, WaitForEvent
from graphexec.errors import InputError, MissingHandlerError
from graphexec.executor import RunResult
from graphexec.integrations.langchain import iterate
from graphexec.machine import Machine
from graphexec.messages import ToolCall
from graphexec.models import ScriptedModel
from graphexec.nodes import Piece, Review, approve_tools, ask_user
from graphexec.runs import Question, RunStoreError, SQLiteRuns, Waiting
from tests.parameters import cases


@final
@dataclass(frozen=True)
class Asked:
    """The replies."""

    replies: Any


@final
@dataclass(frozen=True)
class Stopped:
    """A limit stopped the run."""

    value: str
    limit: gx.Exhausted


def machine_of(*effects: Any) -> Machine[str, Any]:
    """Return a machine that asks for these effects at once."""

    @gx.node(when_spent=Stopped)
    def work(value: str) -> gx.Asks[gx.AskHuman, Asked]:
        del value
        return Asked((yield from gx.ask_all(effects)))

    kinds: set[Any] = {type(one) for one in effects}
    asking = dataclasses.replace(work, effects=tuple(kinds))
    return gx.graph(gx.edges(asking, gx.on(Asked, gx.END) | gx.on(Stopped, gx.END)), start=asking)


@gx.tool
def send(text: str, to: str = "all") -> str:
    """Send a message."""
    return f"sent {text} to {to}"


def calls_of(*calls: tuple[str, Mapping[str, Any]]) -> list[Any]:
    """Return the replies of a model that makes these calls at once, and then answers."""
    return [[ToolCall(f"c{place}", name, json.dumps(given)) for place, (name, given) in enumerate(calls)], "done"]


def make(piece: Piece, script: Iterable[Any], **options: Any) -> gx.AgentExecutor[Any]:
    return gx.create_agent(ScriptedModel([*script]), [send], kind="tool_calling", nodes=[piece], **options)


def questions_of(waiting: object) -> tuple[Question, ...]:
    assert isinstance(waiting, Waiting)
    return waiting.questions


def answer(store: SQLiteRuns, waiting: object, answers: Mapping[str, Any]) -> None:
    """Answer all questions by a word in them, the last one first, as another process would."""
    with SQLiteRuns(store.path) as other:
        for one in reversed(questions_of(waiting)):
            value = next(value for word, value in answers.items() if word in one.text)
            assert other.reply(one.run_id, one.key, value)
            assert not other.reply(one.run_id, one.key, value)


@pytest.fixture
def store(tmp_path: Path) -> Iterable[SQLiteRuns]:
    with SQLiteRuns(tmp_path / "runs.db") as opened:
        yield opened


# The options of handlers.
OPTION = {"send": "reviewer", "ask_user": "answer"}
GATE: Any = {"send": ["approve", "edit", "reject", "respond"]}
SENDS = [("send", {"text": text}) for text in ("hi", "ho", "hu", "ha")]
REVIEWS = {
    '"hi"': "approve",
    '"ho"': Review("edit", arguments={"text": "ho", "to": "Ada"}),
    '"hu"': {"decision": "reject", "text": "No."},
    '"ha"': Review("respond", "sent by hand"),
}


@pytest.mark.medium
@cases(
    "piece, calls, answers",
    (partial(approve_tools, GATE), SENDS, REVIEWS),
    (ask_user, [("ask_user", {"question": "Why?"}), ("ask_user", {"question": "Who?"})], {"Why": "so", "Who": "Ada"}),
    (ask_user, [("ask_user", {"question": "Who?"}), SENDS[0]], {"Who": "Ada"}),
)
def test_pieces_wait_for_the_answers_of_others(
    piece: Callable[..., Piece], calls: Any, answers: Mapping[str, Any], tmp_path: Path
) -> None:
    def reply(effect: gx.Effect[Any]) -> Any:
        value: Any = next(value for word, value in answers.items() if word in str(effect))
        if value == "approve":
            return Review(value)
        return TypeAdapter(Review).validate_python(value) if isinstance(value, dict) else value

    with SQLiteRuns(tmp_path / "runs.db") as store:
        at_once = make(piece(**{OPTION[calls[0][0]]: reply}), calls_of(*calls)).run("go", runs=store, run_id="handled")
        assert isinstance(at_once, RunResult)
        assert store.questions() == []
        executor = make(piece(), calls_of(*calls))
        waiting = executor.run("go", runs=store, run_id="trip")
        assert [one.key for one in questions_of(waiting)] == [f"trip/2.{place}" for place in range(len(answers))]
        answer(store, waiting, answers)
        assert store.ready() == ["trip"]
        result = executor.resume("trip", runs=store)
        assert isinstance(result, RunResult)
        assert result.ending == at_once.ending
        assert len(result.steps) == len(calls)
        with pytest.raises(MissingHandlerError, match="runs="):
            make(piece(), calls_of(*calls)).run("go")


def test_unusable_answers_are_asked_for_again(store: SQLiteRuns) -> None:
    """A reply that its class refuses opens the same question; one that the piece refuses is another question."""
    executor = make(approve_tools(GATE), calls_of(SENDS[0]))
    ho = {"text": "ho"}
    seen: list[Question] = []
    for value in ("edit", Review("edit", arguments={"txt": 1}), Review("edit", arguments=ho, tool="send")):
        seen += questions_of(executor.run("go", runs=store, run_id="trip"))
        assert store.reply("trip", seen[-1].key, value)
    result = executor.run("go", runs=store, run_id="trip")
    assert isinstance(result, RunResult)
    assert result.steps[0].observation == "sent ho to all"
    assert [one.key for one in seen] == ["trip/2.0", "trip/2.0", "trip/3.0"]
    assert "edit" in str(seen[1])
    assert "invalid" in str(seen[1])
    assert "txt" in str(seen[2])


class Size(enum.Enum):
    SMALL = "small"
    LARGE = "large"


class Line(BaseModel):
    product: str
    count: int = 1


class Order(BaseModel):
    lines: list[Line]
    size: Size = Size.SMALL
    due: date | None = None


@dataclass(frozen=True)
class Choice:
    size: Literal["small", "large"]
    text: str = ""


class Strict(BaseModel):
    count: int = Field(gt=3)


SMALL = Choice("small", "x")
BAD_ORDERS: Any = [
    {"lines": [{"count": 2}]},
    {"lines": [], "size": "huge"},
    {"lines": [{"product": "tea", "count": "2"}]},
]
ORDER = Order(lines=[Line(product="tea")], due=date(2026, 12, 1))


@pytest.mark.medium
@cases(
    "kind, good, bad, choices",
    (str, [("yes", "yes"), ("", ""), ("half \ud83d\x00", "half \ud83d\x00")], [1, None, ["yes"]], ()),
    (bool, [(True, True), (False, False)], [1, "yes", None], ()),
    (int, [(3, 3)], [10**5_000, True, "3", 2.5], ()),
    (float, [(2.5, 2.5), (3, 3.0)], ["3", True], ()),
    (Literal["a", "b"], [("a", "a")], ["c", "", 1], ("a", "b")),
    (Size, [("large", Size.LARGE), (Size.SMALL, Size.SMALL)], ["huge"], ("small", "large")),
    (list[str], [(["a", "b"], ["a", "b"]), ([], []), (("a",), ["a"])], ["a", [1], {"a": "b"}], ()),
    (dict[str, int], [({"a": 1}, {"a": 1})], [{"a": "b"}, [1]], ()),
    (int | None, [(None, None), (3, 3)], ["x"], ()),
    (Choice, [("large", Choice("large")), ({"size": "small", "text": "x"}, SMALL)], ["huge", {}], ("small", "large")),
    (Order, [(ORDER, ORDER), (ORDER.model_dump(mode="json"), ORDER)], [{}, "tea", *BAD_ORDERS], ()),
    (Any, [({"a": [1, None]}, {"a": [1, None]}), ("x", "x"), ({"graphexec.cut": True},) * 2], [10**5_000], ()),
)
def test_replies_are_typed(kind: Any, good: Any, bad: Any, choices: Any, tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Ask(gx.Effect[kind]):
        about: str

    with SQLiteRuns(tmp_path / "runs.db") as store:
        for number, (value, read) in enumerate(good):
            machine = machine_of(Ask("tea"))
            [question] = questions_of(machine.run("go", runs=store, run_id=f"{number}"))
            assert (question.text, question.choices) == ('Ask(about="tea")', choices)
            for one in bad:
                with pytest.raises(InputError, match="the reply"):
                    store.reply(question.run_id, question.key, one)
            assert store.reply(question.run_id, question.key, value)
            done = machine.run(None, runs=store, run_id=f"{number}")
            assert not isinstance(done, Waiting)
            assert done.outcome == Asked((read,))
            assert type(done.outcome.replies[0]) is type(read)


def test_a_reply_that_only_its_class_refuses_is_asked_for_again(store: SQLiteRuns) -> None:
    @dataclass(frozen=True)
    class Count(gx.Effect[Strict]):
        def __str__(self) -> str:
            return "How many?"

    machine = machine_of(Count())
    texts: list[str] = []
    for count in (2, 1, 4):
        texts.append(questions_of(machine.run("go", runs=store, run_id="trip"))[0].text)
        assert store.reply("trip", "trip/1.0", {"count": count})
    assert machine.run("go", runs=store, run_id="trip").outcome == Asked((Strict(count=4),))  # type: ignore[union-attr]
    assert [text.count("How many?") for text in texts] == [1, 1, 1]
    assert ["count: " in text for text in texts] == [False, True, True]


@cases(
    "effect, default",
    (gx.AskHuman("Go?", ("yes", "no"), 60.0, "no"), "no"),
    (Sleep(60.0), None),
    (WaitForEvent("paid", 60.0, {"paid": False}), {"paid": False}),
)
def test_the_default_answers_in_the_end(
    effect: Any, default: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SQLiteRuns(tmp_path / "runs.db") as store:
        machine = machine_of(effect, gx.AskHuman("Why?"))
        waiting = machine.run("go", runs=store, run_id="trip")
        first, other = questions_of(waiting)
        assert (first.default, first.expires_at) == (default, first.asked_at + 60.0)
        assert ("it goes on" if default is None else json.dumps(default)) in str(waiting)
        assert store.reply("trip", other.key, "so")
        assert isinstance(machine.run("go", runs=store, run_id="trip"), Waiting)
        assert store.ready() == []
        clock = time.time
        monkeypatch.setattr(time, "time", lambda: clock() + 61.0)
        assert store.ready() == ["trip"]
    with SQLiteRuns(tmp_path / "runs.db") as later:
        assert not later.reply("trip", first.key, default)
        done = machine_of(effect, gx.AskHuman("Why?")).run("go", runs=later, run_id="trip")
        assert not isinstance(done, Waiting)
        assert done.outcome == Asked((default, "so"))


def test_a_reply_that_cannot_be_stored_is_asked_for_again(store: SQLiteRuns) -> None:
    machine, deep = machine_of(WaitForEvent("paid")), list[Any]()
    for _ in range(170):
        deep = [deep]
    answer(store, machine.run("go", runs=store, run_id="trip"), {"paid": deep})
    again = machine.run("go", runs=store, run_id="trip")
    assert "nested more than" in questions_of(again)[0].text
    answer(store, again, {"paid": 1})
    assert machine.run("go", runs=store, run_id="trip").outcome == Asked((1,))  # type: ignore[union-attr]


def test_an_event_comes_before_its_default(store: SQLiteRuns) -> None:
    machine = machine_of(WaitForEvent("paid", 60.0), Sleep(60.0), gx.AskHuman("Go?", expires_in=60.0, default="no"))
    waiting = machine.run("go", runs=store, run_id="trip")
    answer(store, waiting, {"paid": [{"sum": 3}], "seconds": None, "Go": "yes"})
    assert machine.run("go", runs=store, run_id="trip").outcome == Asked(([{"sum": 3}], None, "yes"))  # type: ignore[union-attr]


@cases(
    "make_effect",
    lambda: Sleep(-1.0),
    lambda: WaitForEvent("paid", -1.0),
    lambda: gx.AskHuman("Go?", expires_in=1.0),
    lambda: gx.AskHuman("Go?", ("yes",), 1.0, "no"),
)
def test_invalid_times_are_refused(make_effect: Callable[[], object]) -> None:
    with pytest.raises(InputError):
        make_effect()


def test_waiting_tells_how_to_go_on(store: SQLiteRuns) -> None:
    effects = [gx.AskHuman(text, ("yes", "no")) for text in ("Go\n\x1b[31mnow?", "yes or no?")]
    waiting = machine_of(*effects).run("go", runs=store, run_id="trip")
    first, *lines = str(waiting).splitlines()
    assert lines == ["  trip/1.0: Go [31mnow? (yes, no)", "  trip/1.1: yes or no?"]
    assert all(part in first for part in ("trip", "2 answers", "store.reply('trip', key, value)"))


def test_a_review_is_good_to_read(store: SQLiteRuns) -> None:
    script = ['I greet them.\nAction: send\nAction Input: {"text": "hi"}', "Final Answer: done"]
    gate = approve_tools({"send": ["approve", "reject"]}, description="To all.")
    executor = gx.create_agent(ScriptedModel(script), [send], kind="react", nodes=[gate])
    waiting = executor.run("go", runs=store, run_id="trip")
    assert str(waiting).splitlines()[1:] == [
        '  trip/2.0: To all. Call send({"text": "hi"})? Decide: approve or reject. The model wrote: I greet them.'
    ]
    assert questions_of(waiting)[0].choices == ("approve", "reject")
    for value in ("edit", "respond", "", Review("edit", arguments={})):
        with pytest.raises(InputError, match="approve, reject"):
            store.reply("trip", "trip/2.0", value)


def run_async(items: Any) -> list[Any]:
    """Return the items of an async generator."""

    async def collect() -> list[Any]:
        return [one async for one in items]

    return asyncio.run(collect())


# Any: the options of a run. What they return at a question.
FACES: Sequence[tuple[Callable[[gx.AgentExecutor[Any], Any], Any], type]] = (
    (lambda executor, options: executor.run("go", **options), Waiting),
    (lambda executor, options: asyncio.run(executor.arun("go", **options)), Waiting),
    (lambda executor, options: executor.invoke({"input": "go"}, **options), Waiting),
    (lambda executor, options: asyncio.run(executor.ainvoke("go", **options)), Waiting),
    (lambda executor, options: list(executor.stream("go", **options))[-1], Waiting),
    (lambda executor, options: run_async(executor.astream("go", **options))[-1], Waiting),
    (lambda executor, options: list(executor.stream_answer("go", **options)), RunStoreError),
    (lambda executor, options: run_async(executor.astream_answer("go", **options)), RunStoreError),
    (lambda executor, options: list(iterate(executor, "go", **options)), RunStoreError),
    (lambda executor, options: run_async(iterate(executor, "go", **options)), RunStoreError),
)


@pytest.mark.medium
@cases("face, returned", *FACES)
def test_every_way_to_run_says_that_it_waits(face: Callable[..., Any], returned: type, tmp_path: Path) -> None:
    with SQLiteRuns(tmp_path / "runs.db") as store:
        executor = make(ask_user(), calls_of(("ask_user", {"question": "Who?"})))
        options: Any = {"runs": store, "run_id": "trip"}
        for _ in range(2):
            try:
                waiting = face(executor, options)
            except RunStoreError as error:
                waiting = error
            assert (type(waiting), waiting.run_id) == (returned, "trip")
            assert "trip/2.0: Who?" in str(waiting)
            assert store.get("trip").status == "waiting"
        assert store.reply("trip", "trip/2.0", "Ada")
        assert not isinstance(face(executor, options), (Waiting, Exception))
        result = executor.run("go", **options)
        assert isinstance(result, RunResult)
        assert (result.output, result.steps[0].observation) == ("done", "Ada")


def test_batches_wait_one_by_one(store: SQLiteRuns) -> None:
    script = calls_of(("ask_user", {"question": "Who?"}))
    executor = make(ask_user(), ["done", *script])
    options: Any = {"runs": store, "run_id": "many", "max_concurrency": 1}
    first, second = executor.batch(["a", "b"], **options)
    assert first["output"] == "done"
    assert second.run_id == "many-1"
    answer(store, second, {"Who": "Ada"})
    assert [one["output"] for one in executor.batch(["a", "b"], **options)] == ["done", "done"]


def test_a_stored_run_is_not_changed_between_turns(store: SQLiteRuns) -> None:
    executor = make(ask_user(answer=lambda effect: "Ada"), calls_of(SENDS[0]), runs=store)
    turns = iterate(executor, "go", run_id="trip")
    steps = iter(turns)
    next(steps)
    turns.run = turns.run.with_steps([])
    with pytest.raises(InputError, match="trip"):
        next(steps)


@pytest.mark.medium
def test_questions_outlive_their_process(tmp_path: Path) -> None:
    (tmp_path / "trip.py").write_text(
        textwrap.dedent("""
            import sys
            from graphexec import create_agent
            from graphexec.messages import ToolCall
            from graphexec.models import ScriptedModel
            from graphexec.nodes import approve_tools
            from graphexec.runs import SQLiteRuns

            def send(text: str) -> str:
                "Send a message."
                print("sent", text)
                return "sent"

            store, (_, command, *script) = SQLiteRuns("runs.db"), sys.argv
            if command == "reply":
                [question] = store.questions()
                print(question, store.reply(question.run_id, question.key, "approve"))
            else:
                replies = {"call": [ToolCall("1", "send", '{"text": "hi"}')], "end": "done"}
                model = ScriptedModel([replies[one] for one in script])
                gate = approve_tools({"send": ["approve", "reject"]})
                executor = create_agent(model, [send], kind="tool_calling", nodes=[gate])
                print(executor.run("go", runs=store, run_id="trip"))
            """)
    )

    def run(*arguments: str) -> str:
        command = [sys.executable, "trip.py", *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    question = 'Call send(text="hi")? Decide: approve or reject.'
    assert run("start", "call").endswith(f"  trip/2.0: {question}\n")
    assert run("reply") == f"{question} True\n"
    assert run("go on", "end").startswith("sent hi\n")
    assert "done" in run("again")
