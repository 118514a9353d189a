"""Memories keep the images of a conversation."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphexec import AgentExecutor, Snapshot, create_react_agent, create_tool_calling_agent, snapshot_of
from graphexec.errors import InputError, ModelError
from graphexec.memory import BufferMemory, FileHistory, SQLiteHistory, SummaryMemory, TokenWindowMemory, Turn
from graphexec.messages import AssistantMessage, ChatRequest, UserMessage, images_of
from graphexec.models import ScriptedModel
from tests.executor.actors import prompt
from tests.memory.stores import turns_with_images
from tests.models.pictures import ADDRESS, CAT, DOG, PNG
from tests.parameters import cases


def remembering(*replies: Any, memory: BufferMemory) -> tuple[ScriptedModel, AgentExecutor]:
    model = ScriptedModel(replies)
    return model, AgentExecutor(agent=create_tool_calling_agent(model, []), tools=[], memory=memory)


def test_runs_remember_images() -> None:
    model, executor = remembering("A cat.", "Still a cat.", memory=BufferMemory(as_messages=True))
    executor.run({"input": "Who?", "images": PNG})
    executor.run("Who again?")
    request = model.requests[1]
    assert isinstance(request, ChatRequest)
    assert request.messages[1:] == (UserMessage("Who?", (CAT,)), AssistantMessage("A cat."), UserMessage("Who again?"))
    memory = BufferMemory(as_messages=True)
    _, failing = remembering(ModelError("it is down"), memory=memory)
    with pytest.raises(ModelError) as raised:
        failing.run({"input": "Who?", "images": [CAT, ADDRESS]})
    failed = snapshot_of(raised.value)
    assert failed is not None
    _, resumed = remembering("A cat.", memory=memory)
    resumed.run(Snapshot.from_json(failed.to_json(), resumed.graph))
    assert list(memory.history.turns()) == [Turn("Who?", "A cat.", (CAT, ADDRESS))]


@given(st.lists(turns_with_images, max_size=4))
def test_memory_loads_the_images_that_it_saved(turns: list[Turn]) -> None:
    memory = BufferMemory(as_messages=True)
    for turn in turns:
        images = {"images": turn.images} if turn.images else {}
        memory.save({"input": turn.input, **images}, {"output": turn.output})
    expected = [one for turn in turns for one in (UserMessage(turn.input, turn.images), AssistantMessage(turn.output))]
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
    memory = TokenWindowMemory(max_tokens=2_500, as_messages=True)
    for turn in (Turn("a", "b", (CAT, DOG)), Turn("c", "d", (CAT,)), Turn("e", "f", (DOG,))):
        memory.history.add(turn)
    assert [one.content for one in memory.load({})["chat_history"]] == ["c", "d", "e", "f"]
    as_text = TokenWindowMemory(max_tokens=2_500, history=memory.history)
    assert as_text.load({})["chat_history"].count("Human: ") == 3
    memory = TokenWindowMemory(max_tokens=100, image_tokens=85, as_messages=True)
    memory.history.add(Turn("a", "b", (CAT,)))
    assert len(memory.load({})["chat_history"]) == 2
    with pytest.raises(InputError, match="image_tokens=-1"):
        TokenWindowMemory(max_tokens=1, image_tokens=-1)


def test_summary_sees_images() -> None:
    first, second = (SummaryMemory(ScriptedModel(["a summary"]), as_messages=True) for _ in range(2))
    first.save({"input": "Who?", "images": CAT}, {"output": "It."})
    for turn in first.summaries.turns():
        second.summaries.add(turn)
    second.history.add(Turn("Who?", "It.", (DOG,)))
    assert second.load({})["chat_history"][0] == UserMessage("Who?", (DOG,))
    model = ScriptedModel(["A cat was seen."])
    memory = SummaryMemory(model)
    memory.save({"input": "Who?", "images": CAT}, {"output": "It."})
    assert "[image 1: image/png, 70 bytes]" in str(model.requests[0])
    assert "base64" not in str(model.requests[0])


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


@cases("images", ['["photo.png"]', "[3]"])
def test_invalid_image_in_a_file_names_the_line(images: str, tmp_path: Path) -> None:
    path = tmp_path / "turns.jsonl"
    path.write_text(f'{{"input": "a", "output": "b", "images": {images}}}\n')
    with pytest.raises(InputError, match=r"turns.jsonl, line 1, is not a turn: the image URL"):
        FileHistory(path).turns()


@cases("images", [[CAT], CAT, ("x",)])
def test_turn_takes_a_tuple_of_images(images: Any) -> None:
    with pytest.raises(InputError, match=r"Turn's images are .*; pass a tuple of Image"):
        Turn("a", "b", images)
