"""Memories of a conversation load all of it, or its last turns, with their images."""

import asyncio
import datetime as dt
import enum
import functools
import math
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphexec.memory as gm
from graphexec import AgentExecutor, Snapshot, create_react_agent, create_tool_calling_agent, snapshot_of
from graphexec.errors import InputError, ModelError
from graphexec.memory import BufferMemory, Memory, MemoryHistory, SQLiteHistory, Turn
from graphexec.memory.conversation import TurnMemory
from graphexec.messages import AssistantMessage, ChatRequest, UserMessage, images_of
from graphexec.models import ScriptedModel
from tests.executor.actors import prompt
from tests.memory.stores import SlowHistory, stores, turn, turns, turns_with_images
from tests.models.pictures import ADDRESS, CAT, DOG, PNG
from tests.parameters import cases, examples


def save(memory: Memory, *saved: Turn) -> None:
    for each in saved:
        memory.save({"input": each.input}, {"output": each.output})


def text(*saved: Turn) -> str:
    return "\n".join(f"Human: {each.input}\nAI: {each.output}" for each in saved)


def test_buffer_loads_whole_conversation() -> None:
    history = MemoryHistory()
    memory = BufferMemory(history)
    assert memory.keys == ("chat_history",)
    assert memory.load({}) == {"chat_history": ""}
    save(memory, Turn("Hi", "Hello!"), Turn("And you?", "Fine."))
    assert memory.load({}) == {"chat_history": "Human: Hi\nAI: Hello!\nHuman: And you?\nAI: Fine."}
    first = (UserMessage("Hi"), AssistantMessage("Hello!"))
    messages = (*first, UserMessage("And you?"), AssistantMessage("Fine."))
    assert BufferMemory(history, as_messages=True).load({}) == {"chat_history": messages}
    memory = BufferMemory(key="so_far", input_key="question", output_key="answer", human="Frage", ai="Antwort")
    memory.save({"question": "1+1?", "input": "no"}, {"answer": "2", "output": "no"})
    assert memory.keys == ("so_far",)
    assert memory.load({}) == {"so_far": "Frage: 1+1?\nAntwort: 2"}


@given(saved=st.lists(turns, max_size=6), most=st.integers(0, 8))
def test_window_loads_exactly_the_last_turns(saved: list[Turn], most: int) -> None:
    memory = gm.WindowMemory(most)
    save(memory, *saved)
    last = saved[max(0, len(saved) - most) :]
    assert memory.load({}) == {"chat_history": text(*last)}
    messages = gm.WindowMemory(most, history=memory.history, as_messages=True)
    assert len(messages.load({})["chat_history"]) == 2 * len(last)
    assert list(memory.history.turns()) == saved


@given(saved=st.lists(turns, max_size=6), most=st.integers(0, 60), messages=st.booleans())
def test_token_window_loads_the_last_fitting_turns(saved: list[Turn], most: int, messages: bool) -> None:
    memory = gm.TokenWindowMemory(most, as_messages=messages)
    save(memory, *saved)
    costs = [gm.estimated_tokens(f"{text(each)}\n") for each in saved]
    fitting = max(n for n in range(len(saved) + 1) if sum(costs[len(saved) - n :]) <= most)
    last = saved[len(saved) - fitting :]
    whole = BufferMemory(as_messages=messages)
    save(whole, *last)
    assert memory.load({}) == whole.load({})
    # A token per four characters.
    assert math.ceil(len(text(*last)) / 4) == gm.estimated_tokens(text(*last)) <= most


def test_tokens_are_counted_as_one_says() -> None:
    counted: list[str] = []

    def words(saved: str) -> int:
        counted.append(saved)
        return len(saved.split())

    memory = gm.TokenWindowMemory(8, count=words)
    save(memory, Turn("one", "two"), Turn("three", "four"), Turn("five", "six"))
    assert memory.load({})["chat_history"] == text(Turn("three", "four"), Turn("five", "six"))
    # From the last back to the first that does not fit.
    assert counted == ["Human: five\nAI: six\n", "Human: three\nAI: four\n", "Human: one\nAI: two\n"]


# Not a StrEnum: this one calls itself Colour.RED in an f-string.
class Colour(str, enum.Enum):  # noqa: UP042
    RED = "red"


@cases(
    ("value", "stored"),
    ({"a": [1, None]}, '{"a":[1,null]}'),
    (7, "7"),
    (None, "null"),
    (dt.date(2026, 2, 28), '"2026-02-28"'),
    (Colour.RED, "red"),
    ("", ""),
    (b"\xff", "b'\\xff'"),
)
def test_other_values_are_stored_as_json(value: object, stored: str) -> None:
    memory = BufferMemory()
    memory.save({"input": value}, {"output": value})
    assert memory.load({})["chat_history"] == text(Turn(stored, stored))
    assert [type(each.input) for each in memory.history.turns()] == [str]


def test_invalid_keys_are_refused() -> None:
    memory = gm.WindowMemory(2, input_key="question")
    with pytest.raises(InputError, match="input_key is question, which is missing from the inputs; ") as raised:
        memory.save({"input": "a", "topic": "b"}, {"output": "c"})
    assert str(raised.value).startswith("WindowMemory's ")
    assert str(raised.value).endswith("the keys are: input, topic; name one of them")
    assert raised.value.missing == ("question",)
    with pytest.raises(InputError, match="output_key is output, which is missing from the outputs; the keys are: none"):
        asyncio.run(memory.asave({"question": "a"}, {}))
    assert memory.history.turns() == ()


MAKE: list[Callable[[], TurnMemory]] = [
    BufferMemory,
    functools.partial(gm.WindowMemory, 3),
    functools.partial(gm.TokenWindowMemory, 100),
]


@cases("make", *MAKE)
def test_memories_share_only_a_common_history(make: Callable[[], TurnMemory]) -> None:
    one, other = make(), make()
    save(one, turn(1))
    assert {*one.load({})} == {*one.keys}
    assert one.load({})["chat_history"]
    assert (other.load({})["chat_history"], other.history.turns()) == ("", ())
    history = MemoryHistory()
    whole, last = BufferMemory(history), gm.WindowMemory(1, history=history)
    save(whole, turn(1))
    save(last, turn(2))
    assert whole.load({})["chat_history"] == text(turn(1), turn(2))
    assert last.load({})["chat_history"] == text(turn(2))
    whole.clear()
    assert last.load({})["chat_history"] == ""


@settings(max_examples=examples(12))
@given(saved=st.lists(turns, max_size=4), most=st.integers(0, 4))
def test_async_run_loads_the_same(saved: list[Turn], most: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    directory = tmp_path_factory.mktemp("both")
    one, other = stores(directory), stores(directory)

    async def both(kind: str) -> None:
        awaited, called = (gm.WindowMemory(most, history=store[kind]()) for store in (one, other))
        for each in saved:
            await awaited.asave({"input": each.input}, {"output": each.output})
            save(called, each)
            assert await awaited.aload({}) == awaited.load({}) == called.load({})
        assert list(awaited.history.turns()) == list(called.history.turns()) == saved

    for kind in one:
        asyncio.run(both(kind))


def test_async_run_blocks_only_in_threads() -> None:
    history = SlowHistory()
    memory = BufferMemory(history)
    asyncio.run(memory.asave({"input": "a"}, {"output": "b"}))
    assert asyncio.run(memory.aload({})) == {"chat_history": text(Turn("a", "b"))}
    assert history.threads
    assert threading.get_ident() not in history.threads
    memory.load({})
    assert threading.get_ident() in history.threads


# ---- images


def remembering(model: ScriptedModel, memory: BufferMemory) -> AgentExecutor:
    return AgentExecutor(agent=create_tool_calling_agent(model, []), tools=[], memory=memory)


def test_runs_remember_images() -> None:
    model = ScriptedModel(["A cat.", "Still a cat."])
    executor = remembering(model, BufferMemory(as_messages=True))
    executor.run({"input": "Who?", "images": PNG})
    executor.run("Who again?")
    request = model.requests[1]
    assert isinstance(request, ChatRequest)
    assert request.messages[1:] == (UserMessage("Who?", (CAT,)), AssistantMessage("A cat."), UserMessage("Who again?"))
    memory = BufferMemory(as_messages=True)
    with pytest.raises(ModelError) as raised:
        remembering(ScriptedModel([ModelError("down")]), memory).run({"input": "Who?", "images": [CAT, ADDRESS]})
    failed = snapshot_of(raised.value)
    assert failed is not None
    resumed = remembering(ScriptedModel(["A cat."]), memory)
    resumed.run(Snapshot.from_json(failed.to_json(), resumed.graph))
    assert list(memory.history.turns()) == [Turn("Who?", "A cat.", (CAT, ADDRESS))]


@given(saved=st.lists(turns_with_images, max_size=4))
def test_memory_loads_the_images_that_it_saved(saved: list[Turn]) -> None:
    memory = BufferMemory(as_messages=True)
    for each in saved:
        images = {"images": each.images} if each.images else {}
        memory.save({"input": each.input, **images}, {"output": each.output})
    expected = [one for each in saved for one in (UserMessage(each.input, each.images), AssistantMessage(each.output))]
    assert list(memory.load({})["chat_history"]) == expected


def test_text_memory_shows_labels() -> None:
    model = ScriptedModel(["Final Answer: A cat."] * 2)
    agent = create_react_agent(model, [], prompt="{tools}{tool_names}{chat_history}\n{input}{agent_scratchpad}")
    executor = AgentExecutor(agent=agent, tools=[], memory=BufferMemory())
    executor.run({"input": "Who?", "images": [CAT]})
    executor.run("And now?")
    assert prompt(model.requests[1]) == "Human: Who?\n[image 1: image/png, 70 bytes]\nAI: A cat.\nAnd now?"
    assert list(images_of(model.requests[1])) == []
    memory = BufferMemory()
    memory.save({"input": "Who?", "images": "three photos"}, {"output": "A cat."})
    assert list(memory.history.turns()) == [Turn("Who?", "A cat.")]


def test_token_window_counts_images() -> None:
    memory = gm.TokenWindowMemory(max_tokens=2_500, as_messages=True)
    for each in (Turn("a", "b", (CAT, DOG)), Turn("c", "d", (CAT,)), Turn("e", "f", (DOG,))):
        memory.history.add(each)
    assert [one.content for one in memory.load({})["chat_history"]] == ["c", "d", "e", "f"]
    as_text = gm.TokenWindowMemory(max_tokens=2_500, history=memory.history)
    assert as_text.load({})["chat_history"].count("Human: ") == 3
    memory = gm.TokenWindowMemory(max_tokens=100, image_tokens=85, as_messages=True)
    memory.history.add(Turn("a", "b", (CAT,)))
    assert len(memory.load({})["chat_history"]) == 2
    with pytest.raises(InputError, match="image_tokens=-1"):
        gm.TokenWindowMemory(max_tokens=1, image_tokens=-1)


def test_database_has_a_table_of_images(tmp_path: Path) -> None:
    file = tmp_path / "old.sqlite"
    history = SQLiteHistory(file, conversation="a")
    history.add(Turn("before", "x"))
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("DROP TABLE graphexec_images")
    history.add(Turn("after", "y", (CAT, DOG)))
    assert history.turns() == (Turn("before", "x"), Turn("after", "y", (CAT, DOG)))
    one, other = (SQLiteHistory(tmp_path / "all.sqlite", conversation=name) for name in "ab")
    for history in (one, other):
        history.add(Turn("Who?", "x", (CAT,)))
    one.clear()
    assert other.turns() == (Turn("Who?", "x", (CAT,)),)
    with closing(sqlite3.connect(tmp_path / "all.sqlite")) as database, database:
        assert database.execute("SELECT count(*) FROM graphexec_images").fetchone() == (1,)


@cases("images", [CAT], CAT, ("x",))
def test_invalid_images_are_refused(images: Any) -> None:
    with pytest.raises(InputError, match=r"Turn's images are .*; pass a tuple of Image"):
        Turn("a", "b", images)
