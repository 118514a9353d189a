"""Calls that had begun when their process ended: told, made again, asked about, or refused; and memory saved once.

A tool that exits ends a run as a crash does: its call has begun, and has no reply.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import pytest

import graphexec as gx
from graphexec.errors import InputError, NodeError
from graphexec.executor import RunResult
from graphexec.kernel import Done
from graphexec.memory import BufferMemory, History, MemoryHistory, SQLiteHistory, Turn
from graphexec.messages import ToolCall
from graphexec.models import ScriptedModel
from graphexec.runs import CallInDoubtError, SQLiteRuns, Waiting
from tests.parameters import cases


@pytest.fixture
def store(tmp_path: Path) -> Iterable[SQLiteRuns]:
    with SQLiteRuns(tmp_path / "runs.db") as opened:
        yield opened


class Bank:
    """A tool that pays, and whose process ends in the first `crashes` calls, after it has paid."""

    def __init__(self, in_doubt: Any, crashes: int = 1) -> None:
        self.paid: list[str] = []
        self.crashes = crashes

        @gx.tool(in_doubt=in_doubt)
        def pay(amount: int, call: gx.CallContext[Any]) -> str:
            """Pay an amount."""
            self.paid.append(str(call.id))
            if len(self.paid) <= self.crashes:
                raise SystemExit
            return f"paid {amount}"

        self.tool = pay
        self.model = ScriptedModel([[ToolCall("1", "pay", '{"amount": 3}')], "done"])

    def run(self, store: SQLiteRuns, run_id: str = "trip") -> Any:
        """Run in a new executor, as another process would; return its result, or the exception."""
        executor = gx.create_agent(self.model, [self.tool], kind="tool_calling")
        try:
            return executor.run("go", runs=store, run_id=run_id)
        except (SystemExit, CallInDoubtError) as error:
            return error


@pytest.mark.medium
@cases(
    "policy, crashes, replies, observed, paid, charged",
    ("tell", 1, [], "was interrupted", 1, 1),
    ("retry", 1, [], "paid 3", 2, 2),
    ("retry", 3, [], "paid 3", 4, 4),
    ("ask", 1, ["retry"], "paid 3", 2, 2),
    ("ask", 1, ["it was paid"], "it was paid", 1, 1),
    ("ask", 2, ["retry", "retry"], "paid 3", 3, 3),
    ("ask", 2, ["retry", "it was paid"], "it was paid", 2, 2),
)
def test_tools_in_doubt(
    policy: str, crashes: int, replies: Sequence[str], observed: str, paid: int, charged: int, tmp_path: Path
) -> None:
    with SQLiteRuns(tmp_path / "runs.db") as store:
        bank, left = Bank(policy, crashes), iter(replies)
        result: Any = None
        assert isinstance(bank.run(store), SystemExit)
        for _ in range(10):
            result = bank.run(store)
            if isinstance(result, Waiting):
                # Whoever looks again changes nothing.
                assert bank.run(store) == result
                [question] = result.questions
                assert all(part in question.text for part in ("pay(amount=3)", "not known", "retry"))
                with pytest.raises(InputError):
                    store.reply("trip", question.key, 3)
                assert store.reply("trip", question.key, next(left))
            elif isinstance(result, RunResult):
                break
        assert isinstance(result, RunResult)
        assert observed in str(result.steps[0].observation)
        assert result.steps[0].status == ("error" if policy == "tell" else "ok")
        assert bank.paid == ["trip/2.0"] * paid
        assert result.spent["tool_calls"] == charged
        assert not [*left]
        assert not store.questions()


@pytest.mark.medium
def test_a_run_stops_at_a_call_in_doubt(store: SQLiteRuns) -> None:
    """It goes on where the call is declared anew, or in a copy that makes the call again under an id of its own."""
    bank = Bank("fail")
    bank.run(store)
    for _ in range(2):
        error = bank.run(store)
        assert isinstance(error, CallInDoubtError)
        assert (error.run_id, store.get("trip").status) == ("trip", "failed")
        assert all(part in str(error) for part in ("pay", "trip/2.0", "store.fork('trip', at=1)"))
    assert bank.paid == ["trip/2.0"]
    copy = store.fork("trip", at=1)
    result = bank.run(store, copy)
    assert result.steps[0].observation == "paid 3"
    assert bank.paid == ["trip/2.0", f"{copy}/2.0"]
    told = Bank("tell")
    told.model = ScriptedModel(["done"])
    assert told.run(store).steps[0].status == "error"
    assert told.paid == []


PAGES = gx.Meter("pages")


@final
@dataclass(frozen=True)
class Printed:
    text: str


@final
@dataclass(frozen=True)
class Stopped:
    value: str
    limit: gx.Exhausted


@pytest.mark.medium
@cases(
    "policy, replies, printed, times",
    ("retry", [], "printed", 2),
    ("ask", ["retry"], "printed", 2),
    ("ask", ["by hand"], "by hand", 1),
    ("tell", [], "unknown", 1),
    ("fail", [], None, 1),
)
def test_own_effects_in_doubt(policy: Any, replies: list[str], printed: str | None, times: int, tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Print(gx.Effect[str]):
        charges = {PAGES: 1}  # noqa: RUF012
        in_doubt = policy
        text: str

        def interrupted(self) -> str:
            return "unknown"

    ids: list[str] = []

    def handle(effect: Print, call: gx.CallContext[Any]) -> str:
        ids.append(str(call.id))
        if len(ids) == 1:
            raise KeyboardInterrupt
        return "printed"

    @gx.node(when_spent=Stopped)
    def work(value: str) -> gx.Asks[Print, Printed]:
        return Printed((yield from gx.ask(Print(value))))

    machine = gx.graph(gx.edges(work, gx.on(Printed, gx.END) | gx.on(Stopped, gx.END)), start=work)
    with SQLiteRuns(tmp_path / "runs.db") as store:
        options: Any = {"runs": store, "run_id": "trip", "handlers": {Print: handle}}
        with pytest.raises(KeyboardInterrupt):
            machine.run("hi", **options)
        if printed is None:
            with pytest.raises(CallInDoubtError, match=r"Print \(trip/1\.0\)"):
                machine.run("hi", **options)
            return
        for reply in replies:
            waiting = machine.run("hi", **options)
            assert isinstance(waiting, Waiting)
            assert 'Print(text="hi") was interrupted' in waiting.questions[0].text
            assert store.reply("trip", waiting.questions[0].key, reply)
        done = machine.run(None, **options)
        assert isinstance(done, Done)
        assert done.outcome == Printed(printed)
        assert (ids, done.snapshot.spent["pages"]) == (["trip/1.0"] * times, times)


@cases("value", "again", "", None, True, 3, ("retry",))
def test_invalid_policies_are_refused(value: Any) -> None:
    with pytest.raises(NodeError, match="in_doubt"):
        type("Print", (gx.Effect,), {"in_doubt": value})
    # Others have no reply that tells it, and are not asked for one.
    with pytest.raises(NotImplementedError):
        type("Print", (gx.Effect,), {})().interrupted()


def test_policies_belong_to_the_class() -> None:
    with pytest.raises(NodeError, match="in_doubt"):

        @dataclass(frozen=True)
        class Print(gx.Effect[str]):  # pyright: ignore[reportUnusedClass]
            in_doubt: str = "ask"  # type: ignore[assignment, misc]

    with pytest.raises(NodeError, match="interrupted"):

        class Tell(gx.Effect[str]):  # pyright: ignore[reportUnusedClass]
            in_doubt = "tell"


def test_opaque_nodes_run_again(store: SQLiteRuns) -> None:
    runs: list[str] = []

    @gx.node(opaque=True, when_spent=Stopped)
    def work(value: str) -> Printed:
        runs.append(value)
        if len(runs) == 1:
            raise SystemExit
        return Printed(value)

    machine = gx.graph(gx.edges(work, gx.on(Printed, gx.END) | gx.on(Stopped, gx.END)), start=work)
    with pytest.raises(SystemExit):
        machine.run("hi", runs=store, run_id="trip")
    done = machine.run(None, runs=store, run_id="trip")
    assert isinstance(done, Done)
    assert (done.outcome, runs) == (Printed("hi"), ["hi", "hi"])


@dataclass
class Crashing:
    """A history whose process ends once, after it has added a turn."""

    kept: History
    crashes: int = 1

    def turns(self) -> Sequence[Turn]:
        return self.kept.turns()

    def add(self, turn: Turn, /) -> None:
        self.kept.add(turn)
        if self.crashes:
            self.crashes -= 1
            raise SystemExit

    def clear(self) -> None:
        self.kept.clear()


def agent(steps: Any, inputs: Any) -> gx.AgentFinish:
    return gx.AgentFinish({"output": f"{len(inputs['chat_history'])} messages"})


@pytest.mark.medium
@cases("in_file", False, True)
def test_a_turn_is_saved_once(in_file: bool, tmp_path: Path) -> None:
    history = Crashing(SQLiteHistory(tmp_path / "talk.db", conversation="Ada") if in_file else MemoryHistory())

    def executor() -> gx.AgentExecutor[Any]:
        return gx.AgentExecutor(agent=agent, tools=[], memory=BufferMemory(history, as_messages=True))

    with SQLiteRuns(tmp_path / "runs.db") as store:
        options: Any = {"runs": store, "run_id": "trip"}
        with pytest.raises(SystemExit):
            executor().run("a", **options)
        for _ in range(2):
            result = executor().run("a", **options)
            assert isinstance(result, RunResult)
            assert result.output == "0 messages"
        assert history.turns() == (Turn("a", "0 messages"),)
        # Another run is another turn, also under the id of one that was deleted.
        store.prune()
        executor().run("b", **options)
        store.fork("trip", at=2, new_id="copy")
        executor().run("b", runs=store, run_id="copy")
    # Without a store, an id may be that of several runs.
    for _ in range(2):
        executor().run("c", run_id="trip")
    assert [one.input for one in history.turns()] == ["a", "b", "b", "c", "c"]
    history.clear()
    assert history.turns() == ()
