"""A summary replaces older turns, and every turn is loaded or summarized."""

import asyncio
import copy
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphexec.errors import InputError, InvalidReplyError, RateLimitError
from graphexec.memory import MemoryHistory, SQLiteHistory, SummaryFailed, SummaryMemory, SummaryRequested, Turn
from graphexec.messages import AssistantMessage, ChatRequest, ModelReply, ModelRequest, SystemMessage, UserMessage
from graphexec.models import FunctionModel, ScriptedModel
from tests.memory.stores import SlowHistory, turn
from tests.models.call_modes import Typewriter, record_reports
from tests.parameters import cases

# A summary that is the prompt itself, so that a test sees its turns.
ECHO = "{summary} {turns}"


def prompt_of(request: ModelRequest) -> str:
    assert isinstance(request, ChatRequest)
    (message,) = request.messages
    assert isinstance(message, UserMessage)
    return message.content


def save(memory: SummaryMemory, number: int) -> None:
    memory.save({"input": f"in{number}"}, {"output": f"out{number}"})


def loaded(memory: SummaryMemory) -> str:
    return str(memory.load({})["chat_history"])


def test_older_turns_become_a_summary() -> None:
    model = ScriptedModel(["They met.", "They met and talked."])
    stored: dict[str, Any] = {"history": MemoryHistory(), "summaries": MemoryHistory()}
    memory = SummaryMemory(model, keep_turns=1, human="Ada", ai="Bot", **stored)
    save(memory, 1)
    assert (loaded(memory), model.requests) == ("Ada: in1\nBot: out1", [])
    save(memory, 2)
    assert loaded(memory) == "Summary: They met.\nAda: in2\nBot: out2"
    save(memory, 3)
    assert loaded(memory) == "Summary: They met and talked.\nAda: in3\nBot: out3"
    asked = prompt_of(model.requests[1])
    assert "between Ada and Bot" in asked
    assert "The notes so far:\nThey met.\n\nThe conversation since then:\nAda: in2\nBot: out2\n\n" in asked
    model.assert_complete()
    summary, *turn_3 = SummaryMemory(model, as_messages=True, **stored).load({})["chat_history"]
    assert summary == SystemMessage("Summary: They met and talked.")
    assert turn_3 == [UserMessage("in3"), AssistantMessage("out3")]
    assert stored["history"].turns() == (turn(1), turn(2), turn(3))


def test_turns_are_summarized_once_or_kept() -> None:
    memory = SummaryMemory(ScriptedModel(["One.", "Two."]))
    assert loaded(memory) == ""
    assert SummaryMemory(ScriptedModel([]), as_messages=True).load({}) == {"chat_history": ()}
    save(memory, 1)
    save(memory, 2)
    assert loaded(memory) == "Summary: Two."
    stored: dict[str, Any] = {"history": MemoryHistory(), "summaries": MemoryHistory()}
    first = SummaryMemory(ScriptedModel(["One.", "Two."]), **stored)
    save(first, 1)
    save(first, 2)
    longer = SummaryMemory(ScriptedModel(["Three."]), keep_turns=2, **stored)
    save(longer, 3)
    save(longer, 4)
    assert loaded(longer) == "Summary: Two.\nHuman: in3\nAI: out3\nHuman: in4\nAI: out4"
    save(longer, 5)
    assert loaded(longer) == "Summary: Three.\nHuman: in4\nAI: out4\nHuman: in5\nAI: out5"


@given(failing=st.lists(st.booleans(), max_size=8), keep=st.integers(0, 3), awaited=st.booleans())
def test_every_turn_is_loaded_once_despite_failures(failing: list[bool], keep: int, awaited: bool) -> None:
    requests: list[ModelRequest] = []

    def reply(request: ModelRequest) -> str:
        requests.append(request)
        if fails:
            raise RateLimitError("too many requests")
        return prompt_of(request).replace("\n", " ")

    fails = False
    memory = SummaryMemory(FunctionModel(reply), keep_turns=keep, prompt=ECHO)

    async def run() -> None:
        nonlocal fails
        summarised = 0
        for number, fails in enumerate(failing):
            values = {"input": f"in{number}"}, {"output": f"out{number}"}
            older = max(0, number + 1 - keep)
            with record_reports() as news:
                if awaited:
                    await memory.asave(*values)
                else:
                    memory.save(*values)
            reported = [SummaryRequested, SummaryFailed] if fails else [SummaryRequested]
            assert [type(one) for one in news] == reported * (older > summarised)
            if not fails:
                summarised = older
            every = [f"{word}{n}" for n in range(number + 1) for word in ("in", "out")]
            text = (await memory.aload({}))["chat_history"]
            assert text == loaded(memory)
            assert re.findall(r"(?:in|out)\d+", text) == every
            # Turns that are not summarized begin a line.
            assert len(re.findall("^Human:", text, re.MULTILINE)) == number + 1 - summarised

    asyncio.run(run())
    assert len(requests) <= len(failing)


class Full:
    """A history that is full: nothing more is stored."""

    def turns(self) -> tuple[Turn, ...]:
        return ()

    def add(self, turn: Turn, /) -> None:
        raise OSError("the disk is full")

    def clear(self) -> None:
        raise AssertionError("must not be called")


async def save_by(memory: SummaryMemory, number: int, *, awaited: bool) -> None:
    if awaited:
        await memory.asave({"input": f"in{number}"}, {"output": f"out{number}"})
    else:
        save(memory, number)


FAILING: list[Callable[[], SummaryMemory]] = [
    lambda: SummaryMemory(ScriptedModel([RateLimitError("too many requests")])),
    # Of the user's own, and in breach of what a model raises.
    lambda: SummaryMemory(ScriptedModel([ValueError("a bug")])),
    lambda: SummaryMemory(ScriptedModel(["A summary."]), summaries=Full()),
]


@cases("awaited", False, True)
@cases("make", *FAILING)
def test_failed_summary_keeps_the_turn(make: Callable[[], SummaryMemory], awaited: bool) -> None:
    """So a caller that retries a failed save never stores a turn twice."""
    memory = make()
    with record_reports() as news:
        asyncio.run(save_by(memory, 1, awaited=awaited))
    assert [type(one) for one in news] == [SummaryRequested, SummaryFailed]
    assert memory.history.turns() == (turn(1),)
    assert loaded(memory) == "Human: in1\nAI: out1"


@cases("awaited", False, True)
def test_save_raises_if_the_turn_is_not_stored(awaited: bool) -> None:
    model = ScriptedModel(["A summary."])
    memory = SummaryMemory(model, history=Full())
    with pytest.raises(OSError, match="the disk is full"):
        asyncio.run(save_by(memory, 1, awaited=awaited))
    assert (memory.history.turns(), model.requests) == ((), [])
    # A summary has its timeout.
    timed = Typewriter(["a summary"])
    asyncio.run(save_by(SummaryMemory(timed, timeout=2), 1, awaited=awaited))
    assert timed.timeouts == [2]


@cases("reply", ModelReply("They m", finish_reason="length"), ModelReply(" \n"))
def test_truncated_or_empty_summary_replaces_nothing(reply: ModelReply) -> None:
    memory = SummaryMemory(ScriptedModel([reply, "Both."]))
    with record_reports() as news:
        save(memory, 1)
    _, failed = news
    assert isinstance(failed, SummaryFailed)
    assert isinstance(failed.error, InvalidReplyError)
    assert loaded(memory) == "Human: in1\nAI: out1"
    save(memory, 2)
    assert loaded(memory) == "Summary: Both."
    text = "the summary failed with RateLimitError: too many requests; the original turns are used instead"
    assert str(SummaryFailed(RateLimitError("too many requests"))) == text


def test_stored_conversation_continues_with_its_summary(tmp_path: Path) -> None:
    def opened(*replies: str) -> SummaryMemory:
        return SummaryMemory(
            ScriptedModel(replies),
            keep_turns=1,
            history=SQLiteHistory(tmp_path / "turns.sqlite", conversation="turns"),
            summaries=SQLiteHistory(tmp_path / "turns.sqlite", conversation="summaries"),
        )

    first = opened("One.")
    save(first, 1)
    save(first, 2)
    again = opened("Two.")
    assert loaded(again) == loaded(first) == "Summary: One.\nHuman: in2\nAI: out2"
    asyncio.run(again.asave({"input": "in3"}, {"output": "out3"}))
    assert loaded(opened()) == "Summary: Two.\nHuman: in3\nAI: out3"


def test_summary_of_cleared_turns_is_not_loaded() -> None:
    memory = SummaryMemory(ScriptedModel(["Of one.", "Of another."]), history=MemoryHistory())
    save(memory, 1)
    # Another process clears only the history, and then adds as many turns as the summary covers.
    memory.history.clear()
    assert loaded(memory) == ""
    memory.history.add(turn(7))
    assert loaded(memory) == "Human: in7\nAI: out7"
    memory.clear()
    save(memory, 8)
    assert loaded(memory) == "Summary: Of another."
    assert len(memory.summaries.turns()) == 1


@given(st.text(), st.text())
def test_similar_conversations_are_distinguished(start: str, end: str) -> None:
    memory = SummaryMemory(ScriptedModel(["Of one."]))
    memory.save({"input": f"{start}1:{end}"}, {"output": "x"})
    memory.history.clear()
    memory.history.add(Turn(start, f"1:{end}x"))
    assert "Of one." not in loaded(memory)


class WaitingModel:
    def __init__(self) -> None:
        self.asked, self.awaited, self.let = threading.Event(), asyncio.Event(), threading.Event()
        self.calls = 0

    def complete(self, request: ModelRequest, *, timeout: float | None = None) -> ModelReply:
        self.calls += 1
        self.asked.set()
        assert self.let.wait(10)
        return ModelReply(f"Summary number {self.calls}.")

    async def acomplete(self, request: ModelRequest, *, timeout: float | None = None) -> ModelReply:
        self.awaited.set()
        if not self.let.is_set():
            self.calls += 1
            await asyncio.Event().wait()
        return self.complete(request)


def test_save_does_not_wait_for_another_summary() -> None:
    model = WaitingModel()
    memory = SummaryMemory(model)
    first = threading.Thread(target=save, args=(memory, 1))
    first.start()
    assert model.asked.wait(10)
    save(memory, 2)
    assert loaded(memory) == "Human: in1\nAI: out1\nHuman: in2\nAI: out2"
    model.let.set()
    first.join()
    assert loaded(memory) == "Summary: Summary number 1.\nHuman: in2\nAI: out2"
    save(memory, 3)
    assert loaded(memory) == "Summary: Summary number 2."


def test_cancelled_save_keeps_its_turn() -> None:
    model = WaitingModel()
    memory = SummaryMemory(model, history=SlowHistory())

    async def run() -> None:
        task = asyncio.create_task(memory.asave({"input": "in1"}, {"output": "out1"}))
        await model.awaited.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        model.let.set()
        assert (await memory.aload({}))["chat_history"] == "Human: in1\nAI: out1"
        await memory.asave({"input": "in2"}, {"output": "out2"})
        assert (await memory.aload({}))["chat_history"] == "Summary: Summary number 2."

    asyncio.run(run())


SHARED = MemoryHistory()
DATABASE = SQLiteHistory("turns.sqlite", conversation="me")


@cases(
    ("options", "why"),
    ({"prompt": "Sum it up: {turns}"}, "the prompt lacks {summary}"),
    ({"prompt": "{summary} {turns} {"}, "the prompt is not a template"),
    ({"prompt": "{summary} {turns} {topic}"}, "SummaryMemory's prompt has the unknown variable {topic}"),
    ({"key": "input"}, "SummaryMemory's key and input_key are both input"),
    ({"history": SHARED, "summaries": SHARED}, "summaries are its history"),
    ({"history": DATABASE, "summaries": copy.copy(DATABASE)}, "summaries are its history"),
)
def test_invalid_option_is_refused_on_creation(options: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError) as raised:
        SummaryMemory(ScriptedModel([]), **options)
    assert why in str(raised.value)
