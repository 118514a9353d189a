"""Limits over all runs of a conversation: what counts, what becomes of further calls, and that nothing counts twice."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphexec import InputError
from graphexec.errors import CallLimitError
from graphexec.executor import RunResult
from graphexec.memory import BufferMemory, CallCounter, MemoryHistory, SQLiteHistory
from graphexec.nodes import limit_conversation
from graphexec.runs import SQLiteRuns
from tests.nodes.test_tool_calls import Scene, script
from tests.parameters import cases, examples

COUNTS = st.tuples(st.sampled_from("ab"), st.integers(0, 4), st.integers(0, 9), st.sampled_from(["", "", "k", "l"]))


@pytest.mark.medium
@settings(max_examples=examples(10), deadline=None)
@given(several=st.lists(COUNTS, max_size=8))
def test_histories_count_each_key_once(several: list[tuple[str, int, int, str]], tmp_path_factory: Any) -> None:
    file = tmp_path_factory.mktemp("counts") / "all.db"
    SQLiteHistory(file, conversation="other").count_calls("a", 3, 3)
    memory, stored = MemoryHistory(), SQLiteHistory(file, conversation="me")
    made: dict[object, int] = {}
    for place, (name, wanted, limit, key) in enumerate(several):
        counted = sum(calls for one, calls in made.items() if isinstance(one, tuple) and one[0] == name)
        expected = made.setdefault((name, key or place), max(0, min(wanted, limit - counted)))
        assert memory.count_calls(name, wanted, limit, key) == expected
        assert stored.count_calls(name, wanted, limit, key) == expected
    for one in (memory, stored):
        one.clear()
        assert one.count_calls("a", 9, 9, "k") == 9
    assert SQLiteHistory(file, conversation="other").count_calls("a", 3, 4) == 1


def test_concurrent_runs_share_the_count() -> None:
    history = MemoryHistory()

    def count(_: int) -> int:
        return sum(history.count_calls("a", 1, 500) for _ in range(200))

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(count, range(4))) == 500


def talk(history: CallCounter, text: str, **limits: Any) -> list[str]:
    """Return how three runs of one conversation end: the reason, and the statuses of their steps."""
    ends: list[str] = []
    for _ in range(3):
        memory = BufferMemory(history, as_messages=True) if isinstance(history, SQLiteHistory) else None
        scene = Scene(*script(text), nodes=(limit_conversation(history, **limits),), memory=memory)
        try:
            result = scene.executor.run("hi")
            ends.append(" ".join([result.reason, *(step.status for step in result.steps)]))
        except CallLimitError as error:
            ends.append(f"{error.limit} {error.value}")
    return ends


ASKS = "search a, read x; search b"


@cases(
    ("limits", "ends"),
    ({"tool_calls": {"search": 3}}, ["ok ok ok", "ok ok rejected", "rejected ok rejected"]),
    ({"tool_calls": 4}, ["ok ok ok", "ok rejected rejected", "rejected rejected rejected"]),
    ({"tool_calls": {"search": 3, "read": 1}}, ["ok ok ok", "ok rejected rejected", "rejected rejected rejected"]),
    (
        {"tool_calls": {"search": 3}, "on_limit": "end"},
        ["ok ok ok", "conversation_search_calls ok ok rejected", "conversation_search_calls rejected rejected"],
    ),
    (
        {"tool_calls": {"search": 3}, "on_limit": "error"},
        ["ok ok ok", "conversation_search_calls 3", "conversation_search_calls 3"],
    ),
    ({"model_calls": 5}, ["ok ok ok", "conversation_model_calls ok ok ok", "conversation_model_calls"]),
    ({"model_calls": 3, "on_limit": "error"}, ["ok ok ok", "conversation_model_calls 3", "conversation_model_calls 3"]),
)
def test_further_calls_are_not_made(limits: dict[str, Any], ends: list[str], tmp_path: Path) -> None:
    wanted = [end if end.startswith("conversation") else f"finished {end}" for end in ends]
    assert talk(MemoryHistory(), ASKS, **limits) == wanted
    assert talk(SQLiteHistory(tmp_path / "talk.db", conversation="Ada"), ASKS, **limits) == wanted


def test_calls_that_are_not_made_count_nothing() -> None:
    history = MemoryHistory()
    nodes = (limit_conversation(history, tool_calls={"search": 1}),)
    scene = Scene(*script("nope a; search x"), nodes=nodes)
    assert [status for _, status in scene.run()] == ["unknown_tool", "ok"]
    assert asyncio.run(scene.executor.arun("hi")).reason == "finished"


def test_spent_conversation_asks_for_no_last_word() -> None:
    limits = limit_conversation(MemoryHistory(), model_calls=1)
    scene = Scene(*script("search a"), nodes=(limits,), early_stopping_method="generate")
    assert [scene.executor.run("hi").reason for _ in range(3)] == ["conversation_model_calls"] * 3
    assert len(scene.model.requests) == 1


def test_pieces_of_other_names_count_by_themselves() -> None:
    user, talk = MemoryHistory(), MemoryHistory()
    of_user = limit_conversation(user, model_calls=3, name="of_user")
    of_talk = (limit_conversation(talk, model_calls=2, name=name) for name in ("of_talk", "also_of_talk"))
    scene = Scene(*script("search a"), nodes=(*of_talk, of_user))
    ends = ["finished", "conversation_model_calls"]
    assert [scene.executor.run("hi").reason for _ in range(2)] == ends
    talk.clear()
    assert [scene.executor.run("hi").reason for _ in range(2)] == ends
    assert len(scene.model.requests) == 3


class Dying(BaseException):
    """The process ends here."""


class DyingHistory:
    """A history whose process dies after its first count."""

    def __init__(self) -> None:
        self.kept, self.counts = MemoryHistory(), 0

    def count_calls(self, name: str, wanted: int, limit: int, key: str = "") -> int:
        counted = self.kept.count_calls(name, wanted, limit, key)
        self.counts += 1
        if self.counts == 1:
            raise Dying
        return counted


@pytest.mark.medium
def test_stored_run_counts_each_call_once(tmp_path: Path) -> None:
    history = DyingHistory()
    nodes = (limit_conversation(history, tool_calls={"search": 2}),)
    scene = Scene(*script("search a; search b; search c"), nodes=nodes)
    with SQLiteRuns(tmp_path / "runs.db") as store:
        with pytest.raises(Dying):
            scene.executor.run("hi", runs=store, run_id="trip")
        store.execute("UPDATE graphexec_runs SET owner='gone|0|1|', status='running', leased_until=0")
        result = Scene(*script("search b; search c"), nodes=nodes).executor.run("hi", runs=store, run_id="trip")
    assert isinstance(result, RunResult)
    assert [step.status for step in result.steps] == ["ok", "ok", "rejected"]
    assert history.counts == 4


class AwaitedHistory:
    """A history whose method is async, which a limit cannot wait for."""

    async def count_calls(self, name: str, wanted: int, limit: int, key: str = "") -> int:
        raise AssertionError("nobody awaits it")


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
def test_history_that_counts_nothing_is_refused() -> None:
    # Any: type checkers refuse it.
    awaited: Any = AwaitedHistory()
    with pytest.raises(InputError, match="the count of its history=<coroutine"):
        Scene(nodes=(limit_conversation(awaited, model_calls=1),)).run()


@cases(
    ("arguments", "text"),
    ({"model_calls": -1}, "model_calls=-1; give a whole number"),
    ({"tool_calls": {"search": "x"}}, r"tool_calls\['search'\]='x'"),
    ({"tool_calls": {1: 1}}, "a tool=1; give a name"),
    ({"tool_calls": 1, "on_limit": "stop"}, "on_limit='stop'; give 'continue', 'end' or 'error'"),
    ({}, "has no limit; pass model_calls or tool_calls"),
)
def test_wrong_limits_are_refused(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError, match=text):
        limit_conversation(MemoryHistory(), **arguments)
    with pytest.raises(InputError, match="give the history of the memory"):
        limit_conversation(BufferMemory(), model_calls=1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
